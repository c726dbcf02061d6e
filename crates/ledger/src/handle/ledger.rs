//! The handle that a host holds: opening, closing, and what it asks of one session or turn.
//!
//! Handles of one file share what is open. It must never hold a transaction across an await.

use std::sync::{Arc, Mutex, PoisonError};

use crate::journal::{commit, compaction};
use crate::open::options::LedgerOptions;
use crate::open::registry::{self, OpenLedger};
use crate::reading::history;
use crate::reading::query;
use crate::rows::row_types;
use crate::sessions::pointers::unknown_session;
use crate::sessions::{aliases, fork, pointers};
use crate::sqlite::error::{Stored, closed};
use crate::sqlite::readers;
use base::clock::Clock;
use model::{
    self, AgentMessage, CommitReceipt, HistoryMessage, QueryLimits, QueryResult, SessionRow,
    StorageError, StorageErrorKind, TurnEnd, TurnRow,
};

/// A handle to an open ledger. Handles of one file share one writer and one set of readers.
pub struct Ledger {
    core: Mutex<Option<Arc<OpenLedger>>>,
    pub(crate) clock: Clock,
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
        self.read(move |connection| {
            row_types::session(connection, &aliases::resolve(connection, &label)?)
        })
        .await
    }

    /// The messages that a next call would see, of a session by its label or of a turn by its id, oldest first.
    ///
    /// # Errors
    /// `unknown_session` when it is neither, and any of storage.
    pub async fn messages(&self, of: &str) -> Result<Vec<HistoryMessage>, StorageError> {
        let of = of.to_owned();
        let read = move |connection: &rusqlite::Connection| {
            let label = aliases::resolve(connection, &of)?;
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
        let read = move |connection: &rusqlite::Connection| row_types::turn(connection, &id);
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
            row_types::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        };
        let core = self.core()?;
        let session = core.writer.submit(work).await?;
        core.poller.ended(1);
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
            let label = aliases::resolve(connection, &label)?;
            if pointers::head(connection, &label)?.is_none() {
                return Err(unknown_session(&label));
            }
            if !compaction::uncompact(connection, &label, &claim, now)? {
                return Ok(None);
            }
            row_types::session(connection, &label)
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

    /// Commits the turn of a broker: it follows the context's parent, or the session's head where that names none.
    ///
    /// # Errors
    /// `stale_head` when the session is somewhere else; see [`model::Journal::commit`].
    pub async fn write_turn(&self, turn: TurnEnd) -> Result<CommitReceipt, StorageError> {
        let clock = self.clock.clone();
        let core = self.core()?;
        let claim = core.claim.clone();
        let work = move |connection: &rusqlite::Connection| {
            let mut turn = turn.clone();
            let header = &mut turn.header;
            header.session_label = aliases::resolve(connection, &header.session_label)?;
            let head = pointers::head(connection, &header.session_label)?.flatten();
            header.parent_turn_id = header.parent_turn_id.take().or_else(|| head.clone());
            // A session without a turn has no head that could have moved.
            header.expected_head = head.and(header.parent_turn_id.clone());
            commit::commit_turn(connection, &turn, &claim, &clock)
        };
        let receipt = core.writer.submit(work).await?;
        core.poller.ended(1);
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

    pub(crate) fn core(&self) -> Stored<Arc<OpenLedger>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }

    fn take(&self) -> Option<Arc<OpenLedger>> {
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
