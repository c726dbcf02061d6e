//! The interface that a backend implements for its tests: a new store for each case, and processes that open it, close it or
//! are killed.
//!
//! It must never expose a feature that only one backend has.

use std::pin::Pin;
use std::time::Duration;

use model::{CommitReceipt, LedgerPorts, StorageError, TurnEnd};

/// The future of a store's answer; cases run on one thread.
pub type StoreFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It closes the store.
    Closed,
    /// It is killed without closing the store.
    Killed,
}

/// A store of one case. Its clock shows [`crate::turns::NOW`] until the case sets it forward.
pub trait Store {
    /// The ports of the current process.
    fn ports(&self) -> LedgerPorts;

    /// The process ends, and another one opens the store. Its leases are free, because its death is known.
    fn next_process(&mut self, end: ProcessEnd) -> StoreFuture<'_>;

    /// The ports of another process, which also has the store open until the next process begins.
    fn other_process(&mut self) -> StoreFuture<'_, LedgerPorts>;

    /// Sets the clock of all processes forward.
    fn advance(&self, by: Duration);

    /// How long a session remains leased to a process without a heartbeat. Long enough that no heartbeat is due within a
    /// case.
    fn lease(&self) -> Duration;

    /// Runs the background work of the backend, such as a slice of its search index.
    fn catch_up(&self) -> StoreFuture<'_>;

    /// The contents of the tables. A reference without its row fails the case.
    fn contents(&self) -> StoreFuture<'_, Contents>;
}

/// An ended turn with its ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The turn.
    pub turn_id: String,
    /// From the root to the turn.
    pub ancestry: Vec<String>,
    /// The tokens of all of them.
    pub total_tokens: i64,
    /// The session in which the turn ran.
    pub session_label: String,
}

/// The contents of a store's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Ended turns with their messages and calls.
    pub turns: usize,
    /// Open turns.
    pub open: usize,
    /// Messages.
    pub messages: usize,
    /// Tool calls.
    pub calls: usize,
    /// Compactions.
    pub compactions: usize,
    /// Sessions, also those that are not visible yet.
    pub sessions: usize,
    /// Ended turns, by their ids.
    pub threads: Vec<Thread>,
    /// All moves of all sessions, in order: the session, and the turn at which it then pointed.
    pub moves: Vec<(String, String)>,
    /// Large values that are stored outside their rows, each once.
    pub large_values: usize,
    /// References of messages to them.
    pub large_names: usize,
}

/// A store and its ports, for a case.
pub struct Fixture {
    /// The store.
    pub store: Box<dyn Store>,
    /// Its ports.
    pub ledger: LedgerPorts,
}

impl Fixture {
    /// A fixture of a fresh store.
    #[must_use]
    pub fn new(store: Box<dyn Store>) -> Self {
        let ledger = store.ports();
        Self { store, ledger }
    }

    /// Ends the process, and opens the store in the next one.
    pub async fn next_process(&mut self, end: ProcessEnd) {
        self.store.next_process(end).await;
        self.ledger = self.store.ports();
    }

    /// Commits a turn.
    ///
    /// # Errors
    /// Those of [`model::Journal::commit`].
    pub async fn commit(&self, turn: TurnEnd) -> Result<CommitReceipt, StorageError> {
        self.ledger.journal.commit(Box::new(turn)).await
    }

    /// The numbers of turns, messages, tool calls, sessions and moves.
    pub async fn counts(&self) -> [usize; 5] {
        let Contents { turns, messages, calls, sessions, moves, .. } = self.store.contents().await;
        [turns, messages, calls, sessions, moves.len()]
    }
}
