//! The cached conversations of sessions, so that a warm call neither reads nor encodes unchanged messages.
//!
//! It must never return a conversation for another head: the caller reads the messages after the cached head from the
//! ledger.

use super::conversation::Conversation;
use crate::engine::state::Run;
use base::recent::Recent;
use model::Api;

/// Bytes of all sessions together.
const MAX_BYTES: usize = 64 << 20;

/// The session and the model of a cached conversation.
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

/// Conversations by session and model, with the turn at which each ends; least recently used ones are evicted first.
pub(crate) struct PrefixCache(Recent<PrefixKey, (String, Conversation)>);

impl Default for PrefixCache {
    fn default() -> Self {
        Self(Recent::new(usize::MAX, MAX_BYTES))
    }
}

impl PrefixCache {
    /// Removes and returns the cached conversation of `key`, with the turn at which it ends. The session's run stores it
    /// again.
    pub(crate) fn take(&self, key: &PrefixKey) -> Option<(String, Conversation)> {
        self.0.take(key)
    }

    /// Stores the conversation that ends at turn `head`.
    pub(crate) fn put(&self, key: PrefixKey, head: String, conversation: Conversation) {
        let bytes = conversation.size();
        self.0.put(key, (head, conversation), bytes);
    }
}
