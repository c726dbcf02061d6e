//! The kept conversations of sessions, so that a warm call neither reads nor encodes what has not changed.
//!
//! It must never answer for a head it has not seen: the caller asks the ledger for what is new since the kept head.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::conversation::Conversation;
use crate::model::Api;

/// Bytes kept over all sessions.
const MAX_BYTES: usize = 64 << 20;

/// What a kept conversation is good for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PrefixKey {
    pub(crate) session_label: String,
    pub(crate) api: Api,
    pub(crate) provider: String,
    pub(crate) model: String,
}

struct Kept {
    head: String,
    conversation: Conversation,
    used: u64,
}

#[derive(Default)]
struct Inner {
    kept: HashMap<PrefixKey, Kept>,
    bytes: usize,
    clock: u64,
}

/// Conversations by session and model, least recently used ones dropped first.
#[derive(Default)]
pub(crate) struct PrefixCache {
    inner: Mutex<Inner>,
}

impl PrefixCache {
    /// The conversation kept for `key`, with the turn it ends at. Taken out: whoever runs the session puts it back.
    pub(crate) fn take(&self, key: &PrefixKey) -> Option<(String, Conversation)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = inner.kept.remove(key)?;
        inner.bytes = inner.bytes.saturating_sub(kept.conversation.size());
        Some((kept.head, kept.conversation))
    }

    /// Keeps the conversation that ends at turn `head`.
    pub(crate) fn put(&self, key: PrefixKey, head: String, conversation: Conversation) {
        let size = conversation.size();
        if size > MAX_BYTES {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let used = inner.clock;
        inner.bytes += size;
        if let Some(old) = inner.kept.insert(key, Kept { head, conversation, used }) {
            inner.bytes = inner.bytes.saturating_sub(old.conversation.size());
        }
        while inner.bytes > MAX_BYTES {
            let oldest =
                inner.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            let Some(kept) = oldest.and_then(|key| inner.kept.remove(&key)) else { break };
            inner.bytes = inner.bytes.saturating_sub(kept.conversation.size());
        }
    }
}
