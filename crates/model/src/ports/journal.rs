//! The port through which the engine commits a turn and reads a session; the ledger implements it.
//!
//! The engine and the backends of the ledger share it, and neither knows the other (ARCHITECTURE.md). It must never name a
//! backend.

use std::sync::{Arc, Weak};

use crate::{
    CacheChain, CommitReceipt, CompactionCommit, Expense, JournalFuture, LiveRun, OpenTurn, Opened,
    Recall, Recalled, RunNames, RunRegistration, RunWarning, SessionHistory, SpentBy, TurnEnd,
    TurnOpening, TurnStep,
};

/// Where turns are committed and read. Writes are handed over before their future is first polled: dropping it undoes
/// nothing, and writes take effect in the order they were asked for.
pub trait Journal: Send + Sync {
    /// The session's history. With `known` (a head the caller has already read), only what came after it, where that
    /// head is still an ancestor. With `at`, the history of that turn instead of the session's head. A turn that still
    /// runs is in none.
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> JournalFuture<'a, SessionHistory>;

    /// The session's newest turn; `None` for a session without one, or for none.
    fn head<'a>(&'a self, session_label: &'a str) -> JournalFuture<'a, Option<String>>;

    /// The chain of the session's last call, where one is stored.
    fn cache_chain<'a>(
        &'a self,
        session_label: &'a str,
    ) -> JournalFuture<'a, Option<Box<CacheChain>>> {
        let _ = session_label;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The label of the session that a label or an alias names.
    fn session_named<'a>(&'a self, label: &'a str) -> JournalFuture<'a, String>;

    /// The profile that `provider` last answered a turn with; `None` where it did not, or had none.
    fn answered_with<'a>(
        &'a self,
        turn_id: &'a str,
        provider: &'a str,
    ) -> JournalFuture<'a, Option<String>>;

    /// The agent that a session is of; one that is not there yet, as it would be if its first turn followed `follows`.
    fn agent_of<'a>(
        &'a self,
        label: &'a str,
        follows: Option<&'a str>,
    ) -> JournalFuture<'a, String>;

    /// What the turns of a turn's, a session's or an agent's, or of everybody's since a time have come to, running ones
    /// included as far as they are written.
    fn spent(&self, by: SpentBy) -> JournalFuture<'static, Expense>;

    /// The messages of a session's own thread that its context no longer holds, by their words. None where the journal
    /// cannot search.
    fn recall(&self, asked: Recall) -> JournalFuture<'static, Recalled> {
        drop(asked);
        Box::pin(std::future::ready(Ok(Recalled::default())))
    }

    /// The identity of this ledger: handles of one file give the same.
    fn id(&self) -> String;

    /// What a run's result should warn of, of where it is written.
    fn warnings(&self) -> Vec<RunWarning> {
        Vec::new()
    }

    /// W0: leases the session and opens the turn in one transaction, or gives the reason and writes nothing. Leased, the
    /// epoch is the caller's until a commit with it, or [`Journal::release`].
    fn begin(&self, opening: Box<TurnOpening>) -> JournalFuture<'static, Opened<i64>>;

    /// W1 to W3.
    ///
    /// # Errors
    /// `stale_writer` where the lease is another's by now; any of storage. Nothing is written then.
    fn record(&self, step: Box<TurnStep>) -> JournalFuture<'static, ()>;

    /// Writes the compaction, which is the session's head from then on; the open turn that needed it follows it.
    /// Nothing is written where that turn's lease is another's, or the session has moved on.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head`, `unknown_turn`, any of storage.
    fn compact(&self, commit: Box<CompactionCommit>) -> JournalFuture<'static, ()>;

    /// W4: commits a finished turn, all or nothing, and gives its lease back.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head` where that is to be refused, any of storage.
    fn commit(&self, turn: Box<TurnEnd>) -> JournalFuture<'static, CommitReceipt>;

    /// Gives a lease back that no commit gave back. Best effort: what is lost expires.
    fn release(&self, session_label: &str, epoch: i64);

    /// The turns that run nowhere and have not ended, oldest first; with `turn_id`, that one.
    fn interrupted(&self, turn_id: Option<&str>) -> JournalFuture<'static, Vec<OpenTurn>>;

    /// Leases the session of an interrupted turn and hands the turn over, as it stands.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not open; any of storage.
    fn reopen(&self, turn_id: &str) -> JournalFuture<'static, Opened<Box<OpenTurn>>>;

    /// Makes a run that begins known to those who watch it and command it from elsewhere, and stores its events. Nothing
    /// where the journal does neither.
    fn register(
        &self,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        let _ = (names, run);
        None
    }
}
