//! The ledger: turns in SQLite, all or nothing.
//!
//! Owns the file, its schema, the commit of a turn and every read of it. It must never hold a transaction across an
//! await, and never open a file that another SQLite in this process holds (docs/rules/faults.md#no-second-sqlite): on Linux that is checked; on
//! macOS and Windows the rule is the host's to keep.

mod alias;
mod blobs;
mod cache;
mod calibration;
mod care;
mod checksum;
mod commands;
mod commit;
mod compaction;
mod connection;
mod draft;
mod error;
mod events;
mod expense;
mod file;
mod findable;
mod follow;
mod fork;
mod functions;
mod guard;
mod heart;
mod history;
mod journal;
mod lease;
mod list;
mod naming;
mod owner;
mod page;
mod persona;
mod port;
mod profiles;
mod pulse;
mod query;
mod readers;
mod reading;
mod recall;
mod registry;
mod rows;
mod runs;
mod salvage;
mod schema;
mod search;
mod sessions;
mod stored;
mod thread;
mod transfer;
mod usage;
mod words;
mod write;
mod write_turn;
mod writer;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::error::{Stored, closed};
use self::registry::Core;
use base::clock::Clock;
use model::{
    self, AgentMessage, AssembledContext, CommitReceipt, InputError, StorageError,
    StorageErrorKind, TurnCommit,
};

pub use self::alias::AliasRow;
pub use self::care::{
    BlobCounts, LedgerBackup, LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, LedgerStats,
    LedgerVacuum, TurnCounts,
};
pub use self::commands::SessionCommand;
pub use self::follow::{Cursor, EventPage, Follows, SessionPage};
pub use self::list::{SessionFilter, SessionStatus, ToolCallFilter, ToolCallRow};
pub use self::page::{Limit, Page, PageOptions};
pub use self::persona::PersonaRow;
pub use self::query::{QueryLimits, QueryResult, QueryRow, Truncation};
pub use self::rows::{HistoryMessage, SessionRow, TurnError, TurnRow};
pub use self::salvage::LedgerSalvage;
pub use self::search::{SearchHit, SearchOptions};
pub use self::thread::{SessionMove, TurnSummary};
pub use self::transfer::{LedgerExport, LedgerFormat, LedgerImport, TransferCode, TransferProblem};
pub use self::usage::{UsageBy, UsageFilter, UsageRow};

/// How far a commit waits for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// An acknowledged turn survives a power cut.
    #[default]
    Full,
    /// An acknowledged turn survives a crash of the process, and may be lost by a power cut.
    Normal,
}

impl Synchronous {
    fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// Where the ledger is and how it is written.
#[derive(Debug, Clone)]
pub struct LedgerOptions {
    /// The file. Its folder is created, for the owner alone, where it is missing.
    pub path: PathBuf,
    /// How far a commit waits for the disk. The first to open a ledger in a process decides for all.
    pub synchronous: Synchronous,
    /// How long a session stays leased to a process that gives no sign of life. The first to open a ledger in a process
    /// decides for all.
    pub lease: Duration,
    /// How long the events of runs are kept; `None` keeps none. The first to open a ledger in a process decides for all.
    pub events: Option<Retention>,
    /// The log's size in bytes from which on a read that pins it is ended. The first to open a ledger in a process decides
    /// for all.
    pub log_bound: u64,
}

/// How long the events of a run are kept after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// For so long at most.
    pub age: Duration,
    /// Those of so many runs at most, the last that ended; `None` for any number.
    pub turns: Option<u32>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3_600), turns: None }
    }
}

impl LedgerOptions {
    /// The lease of those who ask for none: long enough for a process that is slow, short enough to wait for.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);
    /// The bound of the log of those who ask for none.
    pub const LOG_BOUND: u64 = 256 << 20;

    /// A ledger at `path` that waits for the disk.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            synchronous: Synchronous::Full,
            lease: Self::DEFAULT_LEASE,
            events: Some(Retention::default()),
            log_bound: Self::LOG_BOUND,
        }
    }
}

/// A handle to an open ledger. Handles of one file share one writer and one set of readers.
pub struct Ledger {
    core: Mutex<Option<Arc<Core>>>,
    clock: Clock,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens the ledger, or creates it whole. Blocks on the disk.
    ///
    /// # Errors
    /// A file that is foreign, newer, damaged, empty, read-only, on a network file system or held by another SQLite in
    /// this process; it is left byte for byte as it was.
    pub fn open(options: &LedgerOptions, clock: Clock) -> Result<Arc<Self>, StorageError> {
        let core = registry::acquire(options, &clock)?;
        Ok(Arc::new(Self { core: Mutex::new(Some(core)), clock }))
    }

    /// The ledger's own ULID, which stays with the file.
    ///
    /// # Errors
    /// `ledger_closed`.
    pub fn ledger_id(&self) -> Result<String, StorageError> {
        Ok(self.core()?.ledger_id.clone())
    }

    /// The session of that label, or of that alias.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn session(&self, label: &str) -> Result<Option<SessionRow>, StorageError> {
        let label = label.to_owned();
        self.read(move |connection| rows::session(connection, &alias::resolve(connection, &label)?))
            .await
    }

    /// The messages that a next call would see, of a session by its label or of a turn by its id, oldest first.
    ///
    /// # Errors
    /// `unknown_session` when it is neither, and any of storage.
    pub async fn messages(&self, of: &str) -> Result<Vec<HistoryMessage>, StorageError> {
        let of = of.to_owned();
        let read = move |connection: &rusqlite::Connection| {
            let label = alias::resolve(connection, &of)?;
            let mut history = history::session_history(connection, &label, None, None)?;
            if !history.exists {
                history = history::session_history(connection, &of, Some(&of), None).map_err(
                    |error| match error.kind {
                        StorageErrorKind::UnknownTurn => unknown_session(&of),
                        _ => error,
                    },
                )?;
            }
            Ok(history)
        };
        let history =
            self.core()?.readers.run(|connection| readers::snapshot(connection, read)).await?;
        let turns = history.turns.into_iter();
        Ok(turns
            .flat_map(|turn| {
                turn.messages.into_iter().map(move |message| HistoryMessage {
                    turn_id: turn.id.clone(),
                    message: AgentMessage::from(message),
                })
            })
            .collect())
    }

    /// The turn of that id, with its messages and tool calls.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn turn(&self, id: &str) -> Result<Option<TurnRow>, StorageError> {
        let id = id.to_owned();
        let read = move |connection: &rusqlite::Connection| rows::turn(connection, &id);
        self.core()?.readers.run(|connection| readers::snapshot(connection, read)).await
    }

    /// A new session that begins at the turn `turn_id`; its label is `fork-<ulid>` where none is given.
    ///
    /// # Errors
    /// See [`Ledger::fork_at`].
    pub async fn fork(
        &self,
        turn_id: &str,
        label: Option<&str>,
    ) -> Result<SessionRow, StorageError> {
        self.fork_at(turn_id, label, None).await
    }

    /// As [`Ledger::fork`]; with `call`, it begins where that tool call of the turn had its result.
    ///
    /// # Errors
    /// `unknown_turn`; `unknown_tool_call`; `storage_constraint` for a label that is taken or not usable; any of storage.
    pub async fn fork_at(
        &self,
        turn_id: &str,
        label: Option<&str>,
        call: Option<&str>,
    ) -> Result<SessionRow, StorageError> {
        let label = match label {
            Some(label) => model::session_label("label", label).map_err(|error| {
                StorageError::new(StorageErrorKind::Constraint, error.to_string()).at("label")
            })?,
            None => format!("fork-{}", self.clock.new_id()),
        };
        let (turn_id, call) = (turn_id.to_owned(), call.map(ToOwned::to_owned));
        let clock = self.clock.clone();
        let work = move |connection: &rusqlite::Connection| {
            fork::fork(connection, &turn_id, &label, call.as_deref(), &clock)?;
            rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        };
        let core = self.core()?;
        let session = core.writer.submit(work).await?;
        core.pulse.ended(&core, 1);
        Ok(session)
    }

    /// Takes the session's last compaction back: its pointer goes to the turn before it, and every message is in the context
    /// again. Turns that came after the compaction stay in the ledger, beside the thread. `None` where the thread has no
    /// compaction.
    ///
    /// # Errors
    /// `unknown_session`; `storage_locked` while a turn of it runs; any of storage.
    pub async fn uncompact(&self, label: &str) -> Result<Option<SessionRow>, StorageError> {
        let (label, now) = (label.to_owned(), self.clock.now_ms());
        let core = self.core()?;
        let claim = core.claim.clone();
        let work = move |connection: &rusqlite::Connection| {
            let label = alias::resolve(connection, &label)?;
            if sessions::head(connection, &label)?.is_none() {
                return Err(unknown_session(&label));
            }
            if !compaction::uncompact(connection, &label, &claim, now)? {
                return Ok(None);
            }
            rows::session(connection, &label)
        };
        core.writer.submit(work).await
    }

    /// One read-only SQL statement over the ledger. `params` is the JSON text of an array.
    ///
    /// # Errors
    /// `invalid_query` for everything that is not one valid read within `limits.time`; any of storage.
    pub async fn query(
        &self,
        sql: String,
        params: String,
        limits: QueryLimits,
    ) -> Result<QueryResult, StorageError> {
        let clock = self.clock.clone();
        self.core()?
            .queries
            .run(move |connection| query::run(connection, &sql, &params, limits, &clock))
            .await
    }

    /// What `writeTurn(context, result)` of a broker asks for, checked field by field; commit it with
    /// [`Ledger::write_turn`].
    ///
    /// # Errors
    /// The first field of `result` that is missing or wrong, by its path.
    pub fn turn_of(
        &self,
        context: &AssembledContext,
        result: &str,
    ) -> Result<TurnCommit, InputError> {
        write_turn::from_parts(context, result, &self.clock)
    }

    /// Commits the turn of a broker: it follows the context's parent, or the session's head where that names none.
    ///
    /// # Errors
    /// `stale_head` when the session is somewhere else; see [`model::Journal::commit`].
    pub async fn write_turn(&self, turn: TurnCommit) -> Result<CommitReceipt, StorageError> {
        let clock = self.clock.clone();
        let core = self.core()?;
        let claim = core.claim.clone();
        let work = move |connection: &rusqlite::Connection| {
            let mut turn = turn.clone();
            turn.session_label = alias::resolve(connection, &turn.session_label)?;
            let head = sessions::head(connection, &turn.session_label)?.flatten();
            turn.parent_turn_id = turn.parent_turn_id.or_else(|| head.clone());
            // A session without a turn has no head that could have moved.
            turn.expected_head = head.and(turn.parent_turn_id.clone());
            commit::commit_turn(connection, &turn, &claim, &clock)
        };
        let receipt = core.writer.submit(work).await?;
        core.pulse.ended(&core, 1);
        Ok(receipt)
    }

    /// Waits for what was handed over, and, with the last handle, checkpoints and closes the files. Every later call
    /// is refused; a second `close` does nothing.
    ///
    /// # Errors
    /// None today; the files are closed in every case.
    pub async fn close(&self) -> Result<(), StorageError> {
        match self.take() {
            None => Ok(()),
            Some(core) => {
                let done = tokio::task::spawn_blocking(move || registry::release(&core)).await;
                done.map_err(|_| closed())
            }
        }
    }

    fn core(&self) -> Stored<Arc<Core>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }

    fn take(&self) -> Option<Arc<Core>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(core) = self.take() {
            registry::release(&core);
        }
    }
}

fn unknown_session(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownSession,
        format!("`{label}` is neither a session nor a turn of the ledger"),
    )
}
