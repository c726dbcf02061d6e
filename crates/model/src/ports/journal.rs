//! The port through which the engine commits a turn and reads a session; the ledger implements it.
//!
//! The engine and the backends of the ledger share it, and neither knows the other (ARCHITECTURE.md). It must never name a
//! backend.

use std::sync::{Arc, Weak};

use crate::{
    CacheChain, CallCost, CommitReceipt, CompactionCommit, Expense, LiveRun, OpenTurn, Opened,
    Overdrawn, PortFuture, Recall, Recalled, Reservation, RunNames, RunRegistration, RunWarning,
    SessionHistory, SpentBy, StoredRequest, TurnEnd, TurnLease, TurnOpening, TurnStep,
};

/// What became of a reservation; `None` where none was made.
pub type Reserved = Option<Result<(), Overdrawn>>;

/// Commits and reads turns. A write is submitted before its future is first polled: dropping the future does not undo it,
/// and writes take effect in the order of the calls.
pub trait Journal: Send + Sync {
    /// The session's history. With `known` (a head the caller has already read), only what came after it, where that
    /// head is still an ancestor. With `at`, the history of that turn instead of the session's head. A turn that still
    /// runs is in none.
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> PortFuture<'a, SessionHistory>;

    /// The session's newest turn; `None` for a session without one, or for none.
    fn head<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<String>>;

    /// The chain of the session's last call, where one is stored.
    fn cache_chain<'a>(
        &'a self,
        session_label: &'a str,
    ) -> PortFuture<'a, Option<Box<CacheChain>>> {
        let _ = session_label;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The label of the session of a run that was registered with a label or an alias, the same whenever it is requested.
    fn session_of<'a>(&'a self, turn_id: &'a str, label: &'a str) -> PortFuture<'a, String> {
        let _ = turn_id;
        self.session_named(label)
    }

    /// The label of the session that a label or an alias names.
    fn session_named<'a>(&'a self, label: &'a str) -> PortFuture<'a, String>;

    /// The profile that `provider` last answered a turn with; `None` where it did not, or had none.
    fn answered_with<'a>(
        &'a self,
        turn_id: &'a str,
        provider: &'a str,
    ) -> PortFuture<'a, Option<String>>;

    /// The agent that a session belongs to; for a new session, the agent of one whose first turn follows `follows`.
    fn agent_of<'a>(&'a self, label: &'a str, follows: Option<&'a str>) -> PortFuture<'a, String>;

    /// What turns have cost since a time: those of a turn, of a session, of an agent or of all agents. Running ones count
    /// as far as they are written.
    fn spent(&self, by: SpentBy) -> PortFuture<'static, Expense>;

    /// Reserves the maximum of a call in the accounts of its budgets, in all or in none, over all processes. `None` where the
    /// journal has no accounts.
    fn reserve(&self, reservation: Box<Reservation>) -> PortFuture<'static, Reserved> {
        drop(reservation);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// As [`Journal::begin`], and reserves the turn's first call in the same transaction, where the turn begins. `None` where
    /// nothing was reserved.
    fn begin_reserving(
        &self,
        opening: Box<TurnOpening>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, (Opened<i64>, Reserved)> {
        drop(reservation);
        let begun = self.begin(opening);
        Box::pin(async move { Ok((begun.await?, None)) })
    }

    /// As [`Journal::record`], and reserves the turn's next call in the same transaction. `None` where nothing was reserved.
    fn record_reserving(
        &self,
        step: Box<TurnStep>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, Reserved> {
        drop(reservation);
        let recorded = self.record(step);
        Box::pin(async move { recorded.await.map(|()| None) })
    }

    /// Settles a call at what it has used. Without this, it counts at its maximum once its process has ended.
    fn settle(&self, call_id: String, used: CallCost) {
        drop(call_id);
        let _ = used;
    }

    /// Removes the account of a run that has ended.
    fn close_account(&self, id: String) {
        drop(id);
    }

    /// The turn at the top of the tree of agents in which a turn is: itself, where no agent has begun it.
    fn root_of(&self, turn_id: String) -> PortFuture<'static, String> {
        Box::pin(std::future::ready(Ok(turn_id)))
    }

    /// The turn at the top of the tree of a turn that is about to begin with these messages of a queue. `None` where the journal
    /// cannot know it yet.
    fn future_root(
        &self,
        turn_id: String,
        items: Vec<String>,
    ) -> PortFuture<'static, Option<String>> {
        drop((turn_id, items));
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The messages of a session's own thread that its context no longer holds, by their words. Empty where the journal
    /// cannot search.
    fn recall(&self, query: Recall) -> PortFuture<'static, Recalled> {
        drop(query);
        Box::pin(std::future::ready(Ok(Recalled::default())))
    }

    /// The identity of this ledger, the same for every handle of one file.
    fn id(&self) -> String;

    /// Warnings about the store, for the result of a run.
    fn warnings(&self) -> Vec<RunWarning> {
        Vec::new()
    }

    /// W0: leases the session and opens the turn in one transaction, or gives the reason and writes no turn. Leased, the epoch
    /// is the turn's until a commit with it, or [`Journal::release`]; the next turn may have the same one. Where the session is
    /// busy, this process is in the queue for it until it has it, or until [`Journal::stop_waiting`].
    fn begin(&self, opening: Box<TurnOpening>) -> PortFuture<'static, Opened<i64>>;

    /// Ends with the next change of the session from this call on, and a little later without one. `None` where the journal
    /// learns nothing of other processes: the caller looks again by itself.
    fn session_changed(&self, session_label: &str) -> Option<PortFuture<'static, ()>> {
        let _ = session_label;
        None
    }

    /// W1 to W3.
    ///
    /// # Errors
    /// `stale_writer` where the lease is another's by now; any of storage. Nothing is written then.
    fn record(&self, step: Box<TurnStep>) -> PortFuture<'static, ()>;

    /// Writes the compaction, which is the session's head from then on; the open turn that needed it follows it.
    /// Nothing is written where that turn's lease is another's, or the session has moved on.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head`, `unknown_turn`, any of storage.
    fn compact(&self, commit: Box<CompactionCommit>) -> PortFuture<'static, ()>;

    /// W4: commits a finished turn, all or nothing. The session is free for every process then.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head` where that is to be refused, any of storage.
    fn commit(&self, turn: Box<TurnEnd>) -> PortFuture<'static, CommitReceipt>;

    /// Releases the lease of a turn that ended without a commit, and does nothing after one. Best effort: a lease that stays
    /// expires.
    fn release(&self, session_label: &str, lease: &TurnLease);

    /// Leaves the queue for a session that was busy. Best effort: a place in it expires like a lease.
    fn stop_waiting(&self, session_label: &str);

    /// The turns that run nowhere and have not ended, oldest first; with `turn_id`, that one.
    fn interrupted(&self, turn_id: Option<&str>) -> PortFuture<'static, Vec<OpenTurn>>;

    /// Leases the session of an interrupted turn under a new epoch, and returns the turn as it is stored.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not open; any of storage.
    fn reopen(&self, turn_id: &str) -> PortFuture<'static, Opened<Box<OpenTurn>>>;

    /// The session and the messages of the newest run with the host's id; `None` before its turn is opened.
    fn request_of<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<StoredRequest>> {
        let _ = run_id;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Registers a run that begins: its events are stored, and other processes can watch and command it. `None` where the
    /// journal does neither.
    fn register(
        &self,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        let _ = (names, run);
        None
    }
}
