//! The kept conversations of sessions, so that a warm call neither reads nor encodes what has not changed.
//!
//! It must never answer for a head it has not seen: the caller asks the ledger for what is new since the kept head.

use super::conversation::Conversation;
use super::recent::Recent;
use model::Api;

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

/// Conversations by session and model, with the turn each ends at; least recently used ones dropped first.
pub(crate) struct PrefixCache(Recent<PrefixKey, (String, Conversation)>);

impl Default for PrefixCache {
    fn default() -> Self {
        Self(Recent::new(usize::MAX, MAX_BYTES))
    }
}

impl PrefixCache {
    /// The conversation kept for `key`, with the turn it ends at. Taken out: whoever runs the session puts it back.
    pub(crate) fn take(&self, key: &PrefixKey) -> Option<(String, Conversation)> {
        self.0.take(key)
    }

    /// Keeps the conversation that ends at turn `head`.
    pub(crate) fn put(&self, key: PrefixKey, head: String, conversation: Conversation) {
        let bytes = conversation.size();
        self.0.put(key, (head, conversation), bytes);
    }
}
