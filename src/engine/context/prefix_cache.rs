//! The cached conversations of sessions, so that a warm call neither reads nor encodes what has not changed.
//!
//! It must never answer for a head it has not seen: the caller reads from the ledger what is new since the cached head.

use super::conversation::Conversation;
use crate::engine::state::Run;
use base::recent::Recent;
use model::Api;

/// Bytes of all sessions together.
const MAX_BYTES: usize = 64 << 20;

/// The session and the model that a cached conversation is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PrefixKey {
    pub(crate) session_label: String,
    pub(crate) api: Api,
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl PrefixKey {
    /// The key of a run's next call.
    pub(crate) fn of(run: &Run) -> Self {
        Self {
            session_label: run.context.session_label.clone(),
            api: run.target.provider.api(),
            provider: run.target.provider_name.clone(),
            model: run.target.model_name.clone(),
        }
    }
}

/// Conversations by session and model, with the turn each ends at; least recently used ones dropped first.
pub(crate) struct PrefixCache(Recent<PrefixKey, (String, Conversation)>);

impl Default for PrefixCache {
    fn default() -> Self {
        Self(Recent::new(usize::MAX, MAX_BYTES))
    }
}

impl PrefixCache {
    /// The cached conversation of `key`, with the turn it ends at. Taken out: the session's run puts it back.
    pub(crate) fn take(&self, key: &PrefixKey) -> Option<(String, Conversation)> {
        self.0.take(key)
    }

    /// Stores the conversation that ends at turn `head`.
    pub(crate) fn put(&self, key: PrefixKey, head: String, conversation: Conversation) {
        let bytes = conversation.size();
        self.0.put(key, (head, conversation), bytes);
    }
}
