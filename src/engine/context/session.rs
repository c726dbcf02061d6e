//! Reading a session for a run: its head, and the conversation that leads to it.
//!
//! It must never write: the opening and the commit compare the head that it has read.

use std::sync::Arc;

use super::cache_chain::{CacheChainStore, pruned_by, who};
use super::cache_watch::CacheWatch;
use super::conversation::Conversation;
use super::conversion::{convert, message_bytes};
use super::given_conversations::GivenConversations;
use super::prefix_cache::{PrefixCache, PrefixKey};
use super::size::ContextSize;
use super::summary_turn::base_of;
use crate::engine::state::{Run, SessionHead};
use model::{
    AgentError, AgentErrorKind, CacheChain, ErrorDetail, FailureKind, HistoryBase, Journal,
    StorageError, StorageErrorKind,
};

/// The session that a run continues.
pub(crate) struct Session {
    pub(crate) conversation: Conversation,
    /// The size of its context in the model's window.
    pub(crate) size: ContextSize,
    /// The calls in its provider's cache.
    pub(crate) watch: CacheWatch,
    /// The head at which `conversation` ends, before this run's messages, and to which the run writes.
    pub(crate) head: SessionHead,
    /// How many of the running turn's messages `conversation` has.
    pub(crate) pushed: usize,
}

impl Session {
    fn new(
        mut conversation: Conversation,
        head: SessionHead,
        chain: Option<Arc<CacheChain>>,
    ) -> Self {
        conversation.turn_begins();
        let watch = CacheWatch::of(chain);
        Self { conversation, size: ContextSize::default(), watch, head, pushed: 0 }
    }
}

/// The sources of sessions.
pub(crate) struct SessionReader<'a> {
    pub(crate) journal: Option<&'a Arc<dyn Journal>>,
    pub(crate) prefixes: &'a PrefixCache,
    pub(crate) chains: &'a CacheChainStore,
    pub(crate) given: &'a GivenConversations,
}

impl SessionReader<'_> {
    /// The session of `run` with its current history.
    pub(crate) async fn read(&self, run: &Run) -> Result<Session, StorageError> {
        let Some(journal) = self.journal else {
            let chain = self.chains.get(&run.context.session_label);
            let parent = run.context.parent_turn_id.clone();
            let conversation = self.given(run, chain.as_deref()).await;
            return Ok(Session::new(conversation, SessionHead::new(None, parent), chain));
        };
        let label = &run.context.session_label;
        if run.leaves.is_some() {
            let head = journal.head(label).await?;
            if run.starts_thread(head.as_deref()) {
                let conversation = self.given(run, None).await;
                return Ok(Session::new(conversation, SessionHead::new(head, None), None));
            }
        }
        if run.context.history.is_some() {
            let head = journal.head(label).await?;
            let parent = parent_of(run, &head)?;
            if head.is_none() && parent.is_some() {
                // A session that begins at a turn of another one, which must exist before a request is sent.
                journal.history(label, parent.as_deref(), None).await?;
            }
            let chain = self.chains.last(journal, label, head.as_deref()).await?;
            let conversation = self.given(run, chain.as_deref()).await;
            return Ok(Session::new(conversation, SessionHead::new(head, parent), chain));
        }
        let cached = self.prefixes.take(&PrefixKey::of(run));
        let known = cached.as_ref().map(|(head, _)| head.as_str());
        let mut history = journal.history(label, None, known).await?;
        let head = history.head.clone();
        let parent = parent_of(run, &head)?;
        if head.is_none() && parent.is_some() {
            // A session that begins at a turn of another one.
            history = journal.history(label, parent.as_deref(), None).await?;
        }
        let chain = self.chains.last(journal, label, head.as_deref()).await?;
        let mut conversation = match (history.base, cached) {
            (HistoryBase::Known, Some((_, conversation))) => conversation,
            (HistoryBase::Known, None) | (HistoryBase::Root, _) => {
                let summary = history.turns.first().filter(|_| history.summarised);
                let base = base_of(summary);
                let pruned = pruned_by(chain.as_deref(), who(&run.target), base);
                Conversation::pruned(run.target.transcript(), base, pruned)
            }
        };
        let (turns, provider) = (history.turns, Arc::clone(&run.target.provider));
        let bytes = message_bytes(turns.iter().flat_map(|turn| &turn.messages));
        let conversation = convert(bytes, move || {
            for turn in &turns {
                conversation.push_turn(turn, provider.as_ref());
            }
            conversation
        })
        .await;
        if let Some(head) = &head {
            // It is cached without this run's messages, which the next run reads from the ledger.
            self.prefixes.put(PrefixKey::of(run), head.clone(), conversation.clone());
        }
        Ok(Session::new(conversation, SessionHead::new(head, parent), chain))
    }

    /// The conversation of a given history.
    async fn given(&self, run: &Run, chain: Option<&CacheChain>) -> Conversation {
        let pruned = pruned_by(chain, who(&run.target), 0);
        match &run.context.history {
            Some(history) => {
                let (target, provider) = (run.target.transcript(), &run.target.provider);
                self.given.prepare(history, target, Arc::clone(provider), pruned).await
            }
            None => Conversation::pruned(run.target.transcript(), 0, pruned),
        }
    }
}

/// The parent of the turn: the session's head, with which a given parent must agree
/// (docs/rules/sessions-and-ledger.md#pointer-write).
fn parent_of(run: &Run, head: &Option<String>) -> Result<Option<String>, StorageError> {
    match (&run.context.parent_turn_id, head) {
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

/// An error of the ledger in the form of a run's result.
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
