//! Reading a session for a run: its head, and the conversation that leads to it.
//!
//! It must never write: the head it read is what `opening` and the commit compare.

use std::sync::Arc;

use super::chain::{Watch, pruned_by};
use super::compaction::{Fit, base_of};
use super::conversation::Conversation;
use super::driver::Run;
use super::prefix::PrefixKey;
use super::record::Writing;
use super::sessions::Lane;
use model::{
    AgentError, AgentErrorKind, CacheChain, ErrorDetail, FailureKind, HistoryBase, StorageError,
    StorageErrorKind,
};
use turn::transcript::Target;

/// What is known of the session a run continues.
pub(crate) struct Session {
    pub(crate) conversation: Conversation,
    /// The head that `conversation` ends at, before this run's own messages.
    pub(crate) expected_head: Option<String>,
    pub(crate) parent_turn_id: Option<String>,
    /// How its context fits the model's window.
    pub(crate) fit: Fit,
    /// What its provider has in its cache.
    pub(crate) watch: Watch,
    /// Before the lane: the lease is given back while the session is still this run's.
    pub(crate) writing: Writing,
    pub(crate) lane: Option<Lane>,
}

impl Session {
    fn new(
        mut conversation: Conversation,
        head: Option<String>,
        parent: Option<String>,
        chain: Option<Arc<CacheChain>>,
    ) -> Self {
        conversation.turn_begins();
        Self {
            watch: Watch::of(chain),
            conversation,
            expected_head: head,
            parent_turn_id: parent,
            fit: Fit::default(),
            writing: Writing::AtEnd,
            lane: None,
        }
    }
}

impl Run {
    pub(super) fn prefix_key(&self) -> PrefixKey {
        PrefixKey {
            session_label: self.context.session_label.clone(),
            api: self.provider.api(),
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
        }
    }

    /// Whom the transcript is for.
    pub(crate) fn target(&self) -> Target {
        Target {
            api: self.provider.api(),
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
            rules: self.provider.transcript_rules(),
        }
    }

    /// Reads what the session's history has become.
    pub(crate) async fn read_session(&self) -> Result<Session, StorageError> {
        let provider = self.provider.as_ref();
        let target = self.target();
        let Some(journal) = &self.core.journal else {
            let chain = self.last_chain(None).await?;
            let pruned = pruned_by(chain.as_deref(), self.who(), 0);
            let mut conversation = Conversation::pruned(target, 0, pruned);
            conversation.push_flat(self.context.history.as_deref().unwrap_or_default(), provider);
            let parent = self.context.parent_turn_id.clone();
            return Ok(Session::new(conversation, None, parent, chain));
        };
        let label = &self.context.session_label;
        if let Some(history) = &self.context.history {
            let head = journal.head(label).await?;
            let parent = self.parent(&head)?;
            if head.is_none() && parent.is_some() {
                // A session that begins at a turn of another one, which must be there before anything is sent.
                journal.history(label, parent.as_deref(), None).await?;
            }
            let chain = self.last_chain(head.as_deref()).await?;
            let pruned = pruned_by(chain.as_deref(), self.who(), 0);
            let mut conversation = Conversation::pruned(target, 0, pruned);
            conversation.push_flat(history, provider);
            return Ok(Session::new(conversation, head, parent, chain));
        }
        let kept = self.core.prefixes.take(&self.prefix_key());
        let known = kept.as_ref().map(|(head, _)| head.as_str());
        let mut history = journal.history(label, None, known).await?;
        let head = history.head.clone();
        let parent = self.parent(&head)?;
        if head.is_none() && parent.is_some() {
            // A session that begins at a turn of another one.
            history = journal.history(label, parent.as_deref(), None).await?;
        }
        let chain = self.last_chain(head.as_deref()).await?;
        let mut conversation = match (history.base, kept) {
            (HistoryBase::Known, Some((_, conversation))) => conversation,
            (HistoryBase::Known, None) | (HistoryBase::Root, _) => {
                let summary = history.turns.first().filter(|_| history.summarised);
                let base = base_of(summary);
                let pruned = pruned_by(chain.as_deref(), self.who(), base);
                Conversation::pruned(target, base, pruned)
            }
        };
        for turn in &history.turns {
            conversation.push_turn(turn, provider);
        }
        if let Some(head) = &head {
            // Kept as it is before this run's own messages: what they come to is read back from the ledger.
            self.core.prefixes.put(self.prefix_key(), head.clone(), conversation.clone());
        }
        Ok(Session::new(conversation, head, parent, chain))
    }

    /// The turn this one follows: the session's head, which a given parent must agree with (docs/rules/sessions-and-ledger.md#pointer-write).
    fn parent(&self, head: &Option<String>) -> Result<Option<String>, StorageError> {
        match (&self.context.parent_turn_id, head) {
            (None, head) => Ok(head.clone()),
            (Some(given), None) => Ok(Some(given.clone())),
            (Some(given), Some(head)) if given == head => Ok(Some(given.clone())),
            (Some(given), Some(head)) => Err(StorageError::new(
                StorageErrorKind::StaleHead,
                format!(
                    "`parentTurnId` is `{given}`, but the session's head is `{head}`; read the head again, or fork"
                ),
            )),
        }
    }
}

pub(crate) fn storage_error(error: &StorageError) -> AgentError {
    AgentError {
        kind: AgentErrorKind::Unknown,
        message: error.message.clone(),
        retryable: false,
        detail: ErrorDetail {
            kind: FailureKind::Storage,
            status: None,
            code: Some(error.kind.code().to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}
