//! Tests of the ledger through its handle, as the host and the engine use it.
//!
//! They must never sleep or measure time.

mod blobs;
mod cache;
mod commit;
mod conformance;
mod drafts;
mod events;
mod file;
mod guard;
mod history;
mod host;
mod journal;
mod lease;
mod migration;
mod plans;
mod profiles;
mod query;
mod recall;
mod search;
mod writer;

use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Ledger, LedgerOptions, Synchronous};
use base::clock::Clock;
use model::{
    Block, CommitReceipt, Journal, LedgerAdmin, LedgerRead, Message, Role, StopReason,
    StorageError, ToolCallStatus, TurnEnd, TurnStatus,
};

pub(super) use ::conformance::turns::{
    NOW, compaction, ending, message, noise, opening, raw, short_turn, step, turn,
};

/// A ledger in a new folder.
pub(super) struct Fixture {
    pub(super) ledger: Arc<Ledger>,
    pub(super) folder: tempfile::TempDir,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open(&folder.path().join("ledger.db")).unwrap();
        Self { ledger, folder }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("ledger.db")
    }

    pub(super) async fn commit(&self, turn: TurnEnd) -> Result<CommitReceipt, StorageError> {
        self.ledger.commit(Box::new(turn)).await
    }

    /// The rows of a query as one JSON text.
    pub(super) async fn rows(&self, sql: &str) -> String {
        let result =
            self.ledger.query(sql.to_owned(), "[]".to_owned(), model::QueryLimits::default()).await;
        serde_json::to_string(&result.unwrap().rows).unwrap()
    }

    /// The numbers of rows of turns, messages, tool calls, sessions and history.
    pub(super) async fn counts(&self) -> String {
        self.rows(
            "SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM messages) AS messages,
               (SELECT count(*) FROM tool_calls) AS calls, (SELECT count(*) FROM sessions) AS sessions,
               (SELECT count(*) FROM session_history) AS moves",
        )
        .await
    }
}

pub(super) fn open(path: &Path) -> Result<Arc<Ledger>, StorageError> {
    let options = LedgerOptions::at(path.to_owned());
    Ledger::open(&options, Clock::fixed(NOW))
}

/// A connection without a file, for code that needs one.
#[expect(clippy::disallowed_methods, reason = "it opens no file")]
pub(super) fn memory() -> rusqlite::Connection {
    rusqlite::Connection::open_in_memory().unwrap()
}
