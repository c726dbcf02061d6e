//! The host's port for changes: forks, turns of its own, archives. What a server has of its own, or what is not there yet, is
//! `unsupported`.
//!
//! It must never write without the checks of a commit.

use std::path::Path;
use std::time::Duration;

use model::{
    AliasRow, CommitReceipt, CopyAnswer, CopyStep, Deletion, LedgerAdmin, LedgerBackup,
    LedgerDeletion, LedgerExport, LedgerFormat, LedgerImport, LedgerReport, LedgerStats,
    LedgerVacuum, MetadataKey, PersonaRow, PortFuture, SessionChange, SessionCommand, SessionRow,
    StorageError, StorageErrorKind, TurnEnd,
};

use crate::connect::error::closed;
use crate::connect::pool::LONG;
use crate::connect::worker::{Order, aside};
use crate::deletion::delete;
use crate::events::commands;
use crate::handle::postgres::Postgres;
use crate::handle::unsupported::missing;
use crate::journal::{commit, history};
use crate::maintenance::{stats, verify};
use crate::reading::sessions;
use crate::sessions::{aliases, changes, fork_at, moves, personas};
use crate::transfer::rows::{self, ServerRows};
use crate::transfer::{export, target};
use portable::copy;
use turn::stale_head::pointer_move::PointerMove;

/// Between two looks for the answer to a command: a killed process gives none.
const LOOK: Duration = Duration::from_millis(250);

impl LedgerAdmin for Postgres {
    fn fork_at<'a>(
        &'a self,
        turn_id: &'a str,
        label: Option<&'a str>,
        call: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow> {
        let label = match label {
            Some(label) => model::session_label("label", label).map_err(|error| {
                StorageError::new(StorageErrorKind::Constraint, error.to_string()).at("label")
            }),
            None => Ok(format!("fork-{}", self.clock.new_id())),
        };
        let label = match label {
            Ok(label) => label,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let (turn_id, call) = (turn_id.to_owned(), call.map(ToOwned::to_owned));
        let clock = self.clock.clone();
        self.submit(Some(&label.clone()), move |server| async move {
            match call {
                None => sessions::fork(&server, &turn_id, &label).await,
                Some(call) => fork_at::fork_at(&server, &clock, (&turn_id, &call), &label).await,
            }
        })
    }

    fn move_session<'a>(
        &'a self,
        label: &'a str,
        turn_id: &'a str,
        expected_head: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow> {
        let (label, turn_id) = (label.to_owned(), turn_id.to_owned());
        let expected = expected_head.map(ToOwned::to_owned);
        self.submit_in(Order::AfterAll, move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            let expected = expected.as_deref();
            let wanted = PointerMove { label: &label, turn_id: &turn_id, expected };
            moves::move_session(&server, &wanted).await
        })
    }

    fn uncompact<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>> {
        let label = label.to_owned();
        self.submit_in(Order::AfterAll, move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            sessions::uncompact(&server, &label).await
        })
    }

    fn write_turn(&self, mut turn: TurnEnd) -> PortFuture<'_, CommitReceipt> {
        let (label, clock) = (turn.header.session_label.clone(), self.clock.clone());
        self.submit(Some(&label), move |server| async move {
            let header = &mut turn.header;
            header.session_label = aliases::resolve(&server, &header.session_label).await?;
            let head = history::head(&server, &header.session_label).await?.flatten();
            header.parent_turn_id = header.parent_turn_id.take().or_else(|| head.clone());
            // A session without a turn has no head that could have moved.
            header.expected_head = head.and(header.parent_turn_id.clone());
            let receipt = commit::commit(&server, &turn, &clock, None).await?;
            server.live.wake_memory();
            Ok(receipt)
        })
    }

    fn create_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow> {
        self.submit(Some(&label.clone()), move |server| async move {
            changes::create(&server, &label, &with).await
        })
    }

    fn update_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow> {
        self.submit(Some(&label.clone()), move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            changes::update(&server, &label, &with).await
        })
    }

    fn index_metadata(&self, _: MetadataKey, _: bool) -> PortFuture<'_, bool> {
        // One index has all keys.
        Box::pin(std::future::ready(Ok(false)))
    }

    fn delete(&self, mut deletion: Deletion) -> PortFuture<'_, LedgerDeletion> {
        let clock = self.clock.clone();
        self.submit_long(LONG, move |server| async move {
            let label = match &mut deletion {
                Deletion::Session(label, _) => Some(label),
                Deletion::Turns(selection, _) => selection.session_label.as_mut(),
                Deletion::Prune(_) => None,
            };
            if let Some(label) = label {
                *label = aliases::resolve(&server, label).await?;
            }
            delete::delete(&server, &clock, &deletion).await
        })
    }

    fn set_alias(&self, alias: String, label: String) -> PortFuture<'_, AliasRow> {
        self.submit(None, move |server| async move { aliases::set(&server, &alias, &label).await })
    }

    fn remove_alias(&self, alias: String) -> PortFuture<'_, bool> {
        self.submit(None, move |server| async move { aliases::remove(&server, &alias).await })
    }

    fn set_archived(&self, label: String, archived: bool) -> PortFuture<'_, SessionRow> {
        self.submit(Some(&label.clone()), move |server| async move {
            // A session leaves the archive under its own label: an alias with that name would hide it.
            let is_own = !archived && sessions::session(&server, &label).await?.is_some();
            let named = match is_own {
                true => label,
                false => aliases::resolve(&server, &label).await?,
            };
            sessions::set_archived(&server, &named, archived).await
        })
    }

    fn put_persona(&self, id: String, main: Option<String>) -> PortFuture<'_, PersonaRow> {
        self.submit(None, move |server| async move {
            personas::put(&server, &id, main.as_deref()).await
        })
    }

    fn command<'a>(&'a self, label: &'a str, command: SessionCommand) -> PortFuture<'a, bool> {
        let here = self.held.running(label).and_then(|lease| self.live.entry(&lease.turn_id));
        if let Some(run) = here.and_then(|entry| entry.run.upgrade()) {
            let taken = match &command {
                SessionCommand::Abort => {
                    run.abort();
                    true
                }
                SessionCommand::Steer(message) => run.steer(message),
            };
            return Box::pin(std::future::ready(Ok(taken)));
        }
        self.live.listens.notify_one();
        let name = label.to_owned();
        let added = self.submit(None, move |server| async move {
            commands::add(&server, &name, &command).await
        });
        Box::pin(async move {
            let id = added.await?;
            let mut changes = self.live.changes(&commands::answer_to(id));
            let answer = loop {
                let name = label.to_owned();
                let read = self.submit(None, move |server| async move {
                    commands::answer(&server, &name, id).await
                });
                match read.await {
                    Ok(None) => {}
                    Ok(Some(taken)) => break Ok(taken),
                    Err(error) => break Err(error),
                }
                changes.within(LOOK).await;
            };
            self.submit(None, move |server| async move { commands::delete(&server, id).await })
                .await?;
            answer
        })
    }

    fn verify(&self) -> PortFuture<'_, LedgerReport> {
        self.submit_long(LONG, |server| async move { verify::verify(&server).await })
    }

    fn stats(&self) -> PortFuture<'_, LedgerStats> {
        self.submit_long(LONG, |server| async move { stats::stats(&server).await })
    }

    fn backup<'a>(&'a self, _: &'a Path) -> PortFuture<'a, LedgerBackup> {
        missing("`backup`", "use `pg_basebackup` or `pg_dump`")
    }

    fn vacuum(&self) -> PortFuture<'_, LedgerVacuum> {
        missing("`vacuum`", "the server vacuums by itself; `vacuum full` returns space to its disk")
    }

    fn export<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> PortFuture<'a, LedgerExport> {
        let (to, clock) = (path.to_owned(), self.clock.clone());
        self.submit(None, move |server| async move {
            // On a thread of its own: it waits for a disk, and this one has the heartbeats and the commits.
            aside(&server, async move |server| {
                export::export(server, &to, (format, label.as_deref()), &clock).await
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
            let this = self.this.upgrade().ok_or_else(closed)?;
            let (path, runtime) = (path.to_owned(), tokio::runtime::Handle::current());
            let read = move || {
                let target = target::Target { ledger: &this, runtime };
                portable::import(&path, format, label, &target)
            };
            let done = tokio::task::spawn_blocking(read).await;
            // Also after an error: what was written until then stays.
            self.live.wake_memory();
            done.map_err(|_| closed())?
        })
    }

    fn copy_step(&self, step: CopyStep) -> PortFuture<'_, CopyAnswer> {
        let clock = self.clock.clone();
        self.submit_long(LONG, move |server| async move {
            let doing = "copy the ledger";
            let perform = async |client: &tokio_postgres::Client| {
                let rows = ServerRows::new(&server, client, &clock, &[]);
                rows.outcome(copy::perform(&rows, &step).await)
            };
            match copy::writes(&step) {
                true => {
                    let answer = rows::writing(&server, doing, perform).await?;
                    server.live.wake_memory();
                    Ok(answer)
                }
                false => rows::reading(&server, doing, perform).await,
            }
        })
    }

    fn close(&self) -> PortFuture<'_, ()> {
        Box::pin(async move {
            self.end().await;
            Ok(())
        })
    }
}
