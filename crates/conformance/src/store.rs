//! What a backend provides for its tests: a new store for each case, with processes that open it, close it or are killed.
//!
//! It must never show a feature that only one backend has.

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
    /// It is killed in the middle of everything.
    Killed,
}

/// A store of one case. Its clock shows [`crate::turns::NOW`] until the case sets it forward.
pub trait Store {
    /// The ports of the current process.
    fn ports(&self) -> LedgerPorts;

    /// The process ends, and another one opens the store. The leases that it held are free: it is known to be dead.
    fn next_process(&mut self, end: ProcessEnd) -> StoreFuture<'_>;

    /// Another process, which has the store open as well until the next process begins: its ports.
    fn beside(&mut self) -> StoreFuture<'_, LedgerPorts>;

    /// Sets the clock of all processes forward.
    fn advance(&self, by: Duration);

    /// How long a session remains leased to a process without a heartbeat. Long enough that no heartbeat is due within a
    /// case.
    fn lease(&self) -> Duration;

    /// Runs the background work of the backend, such as a slice of its search index.
    fn catch_up(&self) -> StoreFuture<'_>;

    /// What is in its tables. References that find no row are a failure of the case.
    fn contents(&self) -> StoreFuture<'_, Contents>;
}

/// A turn that has ended, with those above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The turn.
    pub turn_id: String,
    /// From the root to the turn.
    pub ancestry: Vec<String>,
    /// The tokens of all of them.
    pub total_tokens: i64,
    /// The session that the turn was run in.
    pub session_label: String,
}

/// What the tables of a store hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Turns that have ended, with their messages and calls.
    pub turns: usize,
    /// Turns that have not ended.
    pub open: usize,
    /// Messages.
    pub messages: usize,
    /// Tool calls.
    pub calls: usize,
    /// Compactions.
    pub compactions: usize,
    /// Sessions, also those that are not visible yet.
    pub sessions: usize,
    /// Turns that have ended, by their ids.
    pub threads: Vec<Thread>,
    /// Every move of every session, in order: the session, and the turn it pointed at from then on.
    pub moves: Vec<(String, String)>,
    /// Large values that are stored apart from their rows, each once.
    pub large_values: usize,
    /// References of messages to them.
    pub large_names: usize,
}

/// A store and its ports, as a case uses them.
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

    /// Another process takes over.
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

    /// How many rows there are: turns, messages, tool calls, sessions, moves.
    pub async fn counts(&self) -> [usize; 5] {
        let Contents { turns, messages, calls, sessions, moves, .. } = self.store.contents().await;
        [turns, messages, calls, sessions, moves.len()]
    }
}
