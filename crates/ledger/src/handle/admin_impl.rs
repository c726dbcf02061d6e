//! The host's port for changes and maintenance ([`LedgerAdmin`]): names of sessions, forks, a broker's turns, commands, the
//! file.
//!
//! Each call is implemented by its module. It must never contain SQL.

use std::path::Path;
use std::sync::Arc;

use crate::deletion::delete::DeletionParts;
use crate::events::commands::{self, CommandParts};
use crate::handle::ledger::Ledger;
use crate::journal::{commit, compaction};
use crate::maintenance::{backup, stats, vacuum, verify};
use crate::memory_rows::pending;
use crate::open::registry;
use crate::rows::{metadata_rows, session_rows};
use crate::sessions::pointers::{self, unknown_session};
use crate::sessions::{aliases, changes, fork, moves, persona};
use crate::sqlite::error::closed;
use crate::transfer::{self, SqliteRows, Target};
use model::{
    AliasRow, CommitReceipt, CopyAnswer, CopyStep, Deletion, LedgerAdmin, LedgerBackup,
    LedgerDeletion, LedgerExport, LedgerFormat, LedgerImport, LedgerReport, LedgerStats,
    LedgerVacuum, MetadataKey, PersonaRow, PortFuture, SessionChange, SessionCommand, SessionRow,
    StorageError, StorageErrorKind, TurnEnd,
};
use portable::{at_once, copy};
use turn::stale_head::pointer_move::PointerMove;

impl LedgerAdmin for Ledger {
    fn fork_at<'a>(
        &'a self,
        turn_id: &'a str,
        label: Option<&'a str>,
        call: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow> {
        Box::pin(async move {
            let label = match label {
                Some(label) => model::session_label("label", label).map_err(|error| {
                    StorageError::new(StorageErrorKind::Constraint, error.to_string()).at("label")
                })?,
                None => format!("fork-{}", self.clock.new_id()),
            };
            let (turn_id, call) = (turn_id.to_owned(), call.map(ToOwned::to_owned));
            let (clock, core) = (self.clock.clone(), self.core()?);
            let work = move |connection: &rusqlite::Connection| {
                fork::fork(connection, &turn_id, &label, call.as_deref(), &clock)?;
                session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
            };
            let session = core.writer.submit(work).await?;
            core.poller.ended(1);
            Ok(session)
        })
    }

    fn move_session<'a>(
        &'a self,
        label: &'a str,
        turn_id: &'a str,
        expected_head: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow> {
        let (label, turn_id) = (label.to_owned(), turn_id.to_owned());
        let (expected, now) = (expected_head.map(ToOwned::to_owned), self.clock.now_ms());
        self.write(move |connection, claim| {
            let label = aliases::resolve(connection, &label)?;
            let expected = expected.as_deref();
            let wanted = PointerMove { label: &label, turn_id: &turn_id, expected };
            moves::move_session(connection, &wanted, claim, now)?;
            session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        })
    }

    fn uncompact<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>> {
        let (label, now) = (label.to_owned(), self.clock.now_ms());
        self.write(move |connection, claim| {
            let label = aliases::resolve(connection, &label)?;
            if pointers::head(connection, &label)?.is_none() {
                return Err(unknown_session(&label));
            }
            if !compaction::uncompact(connection, &label, claim, now)? {
                return Ok(None);
            }
            session_rows::session(connection, &label)
        })
    }

    fn write_turn(&self, turn: TurnEnd) -> PortFuture<'_, CommitReceipt> {
        Box::pin(async move {
            let (clock, core) = (self.clock.clone(), self.core()?);
            let remembers = self.memory.get().is_some();
            let work = move |connection: &rusqlite::Connection| {
                let mut turn = turn.clone();
                let header = &mut turn.header;
                header.session_label = aliases::resolve(connection, &header.session_label)?;
                let head = pointers::head(connection, &header.session_label)?.flatten();
                header.parent_turn_id = header.parent_turn_id.take().or_else(|| head.clone());
                // A session without a turn has no head that could have moved.
                header.expected_head = head.and(header.parent_turn_id.clone());
                let receipt = commit::commit_turn(connection, &turn, None, &clock)?;
                if remembers {
                    pending::note(connection, &turn.turn_id)?;
                }
                Ok(receipt)
            };
            let receipt = core.writer.submit(work).await?;
            core.poller.ended(1);
            self.wake_memory();
            Ok(receipt)
        })
    }

    fn create_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow> {
        let now = self.clock.now_ms();
        self.write(move |connection, _| {
            changes::create(connection, &label, &with, now)?;
            session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        })
    }

    fn update_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow> {
        self.write(move |connection, _| {
            let label = aliases::resolve(connection, &label)?;
            changes::update(connection, &label, &with)?;
            session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        })
    }

    fn index_metadata(&self, key: MetadataKey, indexed: bool) -> PortFuture<'_, bool> {
        self.write(move |connection, _| metadata_rows::index(connection, &key, indexed))
    }

    fn delete(&self, mut deletion: Deletion) -> PortFuture<'_, LedgerDeletion> {
        Box::pin(async move {
            let core = self.core()?;
            let label = match &mut deletion {
                Deletion::Session(label, _) => Some(label),
                Deletion::Turns(selection, _) => selection.session_label.as_mut(),
                Deletion::Prune(_) => None,
            };
            if let Some(label) = label {
                let named = label.clone();
                *label = self.read(move |connection| aliases::resolve(connection, &named)).await?;
            }
            let parts = DeletionParts {
                readers: Arc::clone(&core.readers),
                writer: Arc::clone(&core.writer),
                clock: self.clock.clone(),
                path: core.path.clone(),
            };
            parts.run(deletion).await
        })
    }

    fn set_alias(&self, alias: String, label: String) -> PortFuture<'_, AliasRow> {
        let now = self.clock.now_ms();
        self.write(move |connection, _| aliases::set(connection, &alias, &label, now))
    }

    fn remove_alias(&self, alias: String) -> PortFuture<'_, bool> {
        self.write(move |connection, _| aliases::remove(connection, &alias))
    }

    fn set_archived(&self, label: String, archived: bool) -> PortFuture<'_, SessionRow> {
        let now = self.clock.now_ms();
        self.write(move |connection, claim| {
            // A session leaves the archive under its own label: an alias with that name would hide it.
            let label = if archived || pointers::visible_head(connection, &label)?.is_none() {
                aliases::resolve(connection, &label)?
            } else {
                label.clone()
            };
            pointers::set_archived(connection, &label, archived, claim, now)?;
            session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        })
    }

    fn put_persona(&self, id: String, main: Option<String>) -> PortFuture<'_, PersonaRow> {
        let now = self.clock.now_ms();
        self.write(move |connection, _| persona::put(connection, &id, main.as_deref(), now))
    }

    fn command<'a>(&'a self, label: &'a str, command: SessionCommand) -> PortFuture<'a, bool> {
        Box::pin(async move {
            let core = self.core()?;
            let parts = CommandParts {
                claim: &core.claim,
                writer: &core.writer,
                readers: &core.readers,
                runs: &core.runs,
                poller: &core.poller,
            };
            commands::send(parts, label, command).await
        })
    }

    fn verify(&self) -> PortFuture<'_, LedgerReport> {
        Box::pin(async move {
            let core = self.core()?;
            let (path, clock) = (core.path.clone(), self.clock.clone());
            let pool = Arc::clone(&core.readers);
            core.readers.with_own_connection(move || verify::verify(&path, &clock, &pool)).await
        })
    }

    fn stats(&self) -> PortFuture<'_, LedgerStats> {
        Box::pin(async move {
            let path = self.core()?.path.clone();
            self.read(move |connection| stats::stats(connection, &path)).await
        })
    }

    fn backup<'a>(&'a self, path: &'a Path) -> PortFuture<'a, LedgerBackup> {
        Box::pin(async move {
            let core = self.core()?;
            let (from, to, clock) = (core.path.clone(), path.to_owned(), self.clock.clone());
            let pool = Arc::clone(&core.readers);
            let copy =
                core.readers.with_own_connection(move || backup::backup(&from, &to, &clock, &pool));
            copy.await
        })
    }

    /// Rewrites the file without its free pages. Commits wait meanwhile, and the disk needs space for a second copy.
    fn vacuum(&self) -> PortFuture<'_, LedgerVacuum> {
        Box::pin(async move {
            let core = self.core()?;
            let path = core.path.clone();
            let rewrite =
                core.writer.submit_alone(move |connection| vacuum::vacuum(connection, &path));
            rewrite.await
        })
    }

    fn export<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> PortFuture<'a, LedgerExport> {
        Box::pin(async move {
            let (to, clock) = (path.to_owned(), self.clock.clone());
            let ledger_id = self.core()?.ledger_id.clone();
            self.read(move |connection| {
                transfer::export(connection, &to, format, label.as_deref(), (&ledger_id, &clock))
            })
            .await
        })
    }

    fn import<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> PortFuture<'a, LedgerImport> {
        Box::pin(async move {
            let (core, path) = (self.core()?, path.to_owned());
            let target = Target {
                writer: Arc::clone(&core.writer),
                poller: Arc::clone(&core.poller),
                clock: self.clock.clone(),
                remembers: self.memory.get().is_some(),
                runtime: tokio::runtime::Handle::current(),
            };
            let work = move || portable::import(&path, format, label, &target);
            let done = core.readers.with_own_connection(work).await;
            // Also after an error: what was written until then stays.
            self.wake_memory();
            done
        })
    }

    fn copy_step(&self, step: CopyStep) -> PortFuture<'_, CopyAnswer> {
        let clock = self.clock.clone();
        if !copy::writes(&step) {
            return self.read(move |connection| {
                let rows = SqliteRows { connection, clock: &clock, remembers: false };
                at_once(copy::perform(&rows, &step))
            });
        }
        Box::pin(async move {
            let core = self.core()?;
            let remembers = self.memory.get().is_some();
            let write = core.writer.submit(move |connection| {
                let rows = SqliteRows { connection, clock: &clock, remembers };
                at_once(copy::perform(&rows, &step))
            });
            let answer = write.await?;
            core.poller.ended(answer.turns);
            self.wake_memory();
            Ok(answer)
        })
    }

    /// Waits for the submitted jobs, and, with the last handle, checkpoints and closes the files.
    fn close(&self) -> PortFuture<'_, ()> {
        Box::pin(async move {
            let Some(core) = self.take() else { return Ok(()) };
            let done = tokio::task::spawn_blocking(move || registry::release(&core)).await;
            done.map_err(|_| closed())
        })
    }
}
