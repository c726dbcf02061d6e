//! The engine's port (`model/ports`) over the writer, the readers and the leases.
//!
//! A write is submitted when its function is called, not when its future is awaited. It must never decide what may be written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::events::event_log;
use crate::events::run_entry::{Added, EventWrite};
use crate::events::trim;
use crate::handle::ledger::Ledger;
use crate::journal::{cache_chain, commit, compaction, open_turn_reads, open_turns, profiles};
use crate::journal_rows::budget_rows::{self, AccountChange};
use crate::journal_rows::running::leased_run;
use crate::journal_rows::{approval_rows, archive_rows, run_rows};
use crate::lease::claim;
use crate::lease::held::RunningTurn;
use crate::lease::waits;
use crate::memory_rows::pending;
use crate::open::registry::OpenLedger;
use crate::queue::{dispatch_changes, dispatch_rows, turn_items};
use crate::reading::{expense, history, recall, runs};
use crate::rows::turn_rows;
use crate::sessions::{persona, pointers};
use crate::sqlite::error::Stored;
use crate::sqlite::writer::Then;
use crate::sqlite::{readers, sql};
use model::{
    CacheChain, CallCost, CommitReceipt, CompactionCommit, Expense, Journal, LedgerRead, LiveRun,
    OpenTurn, Opened, PortFuture, Recall, Recalled, Reservation, Reserved, RunNames,
    RunRegistration, RunWarning, SessionHistory, SpentBy, StorageErrorKind, StoredRequest, TurnEnd,
    TurnLease, TurnOpening, TurnRow, TurnStep,
};

impl Journal for Ledger {
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> PortFuture<'a, SessionHistory> {
        let label = session_label.to_owned();
        let (at, known) = (at.map(ToOwned::to_owned), known.map(ToOwned::to_owned));
        let core = self.core();
        Box::pin(async move {
            let core = core?;
            if at.is_none() {
                let (label, known) = (label.clone(), known.clone());
                let unchanged = core.readers.run_small(move |connection| {
                    readers::snapshot(connection, |connection| {
                        history::unchanged_history(connection, &label, known.as_deref())
                    })
                });
                if let Some(history) = unchanged.await? {
                    return Ok(history);
                }
            }
            let read = move |connection: &rusqlite::Connection| {
                history::session_history(connection, &label, at.as_deref(), known.as_deref())
            };
            core.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn spent(&self, by: SpentBy) -> PortFuture<'static, Expense> {
        let core = self.core();
        Box::pin(async move {
            core?.readers.run(move |connection| expense::spent(connection, &by)).await
        })
    }

    fn reserve(&self, reservation: Box<Reservation>) -> PortFuture<'static, Reserved> {
        let submitted = self.lease(move |connection, claim| {
            budget_rows::reserve(connection, &claim.owner, &reservation)
        });
        Box::pin(async move { submitted?.1.await.map(Some) })
    }

    fn settle(&self, call_id: String, used: CallCost) {
        self.change_account(AccountChange::Settle { call_id, used });
    }

    fn close_account(&self, id: String) {
        self.change_account(AccountChange::Close { id });
    }

    fn root_of(&self, turn_id: String) -> PortFuture<'static, String> {
        let core = self.core();
        Box::pin(async move {
            let read = move |connection: &mut rusqlite::Connection| {
                let doing = "read the tree of a turn";
                let root = sql::optional(connection, dispatch_rows::ROOT, (&turn_id,), doing)?;
                Ok(root.unwrap_or_else(|| turn_id.clone()))
            };
            core?.readers.run_small(read).await
        })
    }

    fn future_root(
        &self,
        turn_id: String,
        items: Vec<String>,
    ) -> PortFuture<'static, Option<String>> {
        let core = self.core();
        Box::pin(async move {
            let read = move |connection: &mut rusqlite::Connection| {
                for item in &items {
                    let doing = "read the tree of a task";
                    let root =
                        sql::optional(connection, dispatch_rows::ROOT_OF_TASK, (item,), doing)?;
                    if root.is_some() {
                        return Ok(root);
                    }
                }
                Ok(Some(turn_id.clone()))
            };
            core?.readers.run_small(read).await
        })
    }

    fn recall(&self, request: Recall) -> PortFuture<'static, Recalled> {
        let core = self.core();
        Box::pin(async move {
            let read =
                move |connection: &rusqlite::Connection| recall::recall(connection, &request);
            core?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn id(&self) -> String {
        // A closed ledger has no reader: any unique id serves.
        self.core().map_or_else(|_| self.clock.new_id(), |core| core.ledger_id.clone())
    }

    fn warnings(&self) -> Vec<RunWarning> {
        let Ok(core) = self.core() else { return Vec::new() };
        if !core.reads.is_over() {
            return Vec::new();
        }
        vec![RunWarning {
            code: "ledger_log_grew".to_owned(),
            field: None,
            message: format!(
                "the ledger's log is over `{}` bytes, because something reads the file for long, here or in another \
                 process; end that read",
                core.reads.bound()
            ),
        }]
    }

    fn head<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<String>> {
        let label = session_label.to_owned();
        self.read_row(move |connection| Ok(pointers::head(connection, &label)?.flatten()))
    }

    fn cache_chain<'a>(
        &'a self,
        session_label: &'a str,
    ) -> PortFuture<'a, Option<Box<CacheChain>>> {
        let label = session_label.to_owned();
        self.read(move |connection| cache_chain::read(connection, &label))
    }

    fn register(
        &self,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        Some(self.core().ok()?.runs.register(names, run))
    }

    fn session_of<'a>(&'a self, turn_id: &'a str, label: &'a str) -> PortFuture<'a, String> {
        let entry = self.core().ok().and_then(|core| core.runs.entry(turn_id));
        match entry {
            Some(entry) => self.read_small(move |connection| {
                entry.session_label(connection).map(ToOwned::to_owned)
            }),
            None => self.session_named(label),
        }
    }

    fn session_named<'a>(&'a self, label: &'a str) -> PortFuture<'a, String> {
        self.resolve(label.to_owned())
    }

    fn answered_with<'a>(
        &'a self,
        turn_id: &'a str,
        provider: &'a str,
    ) -> PortFuture<'a, Option<String>> {
        let (turn, provider) = (turn_id.to_owned(), provider.to_owned());
        self.read_row(move |connection| profiles::answered_with(connection, &turn, &provider))
    }

    fn agent_of<'a>(&'a self, label: &'a str, follows: Option<&'a str>) -> PortFuture<'a, String> {
        let (label, follows) = (label.to_owned(), follows.map(ToOwned::to_owned));
        self.read_small(move |connection| persona::agent_of(connection, &label, follows.as_deref()))
    }

    fn request_of<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<StoredRequest>> {
        let run_id = run_id.to_owned();
        self.read(move |connection| {
            let turn = match runs::turn_of(connection, &run_id)? {
                None => return Ok(None),
                Some(turn_id) => match turn_rows::turn(connection, &turn_id)? {
                    None => open_turn_reads::turn_row(connection, &turn_id)?,
                    ended => ended,
                },
            };
            Ok(turn.map(|TurnRow { session_label, messages, .. }| StoredRequest {
                session_label,
                messages,
            }))
        })
    }

    fn begin(&self, opening: Box<TurnOpening>) -> PortFuture<'static, Opened<i64>> {
        let begun = self.begin_with(opening, None);
        Box::pin(async move { Ok(begun.await?.0) })
    }

    fn begin_reserving(
        &self,
        opening: Box<TurnOpening>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, (Opened<i64>, Reserved)> {
        self.begin_with(opening, Some(reservation))
    }

    fn record(&self, step: Box<TurnStep>) -> PortFuture<'static, ()> {
        let recorded = self.record_with(step, None);
        Box::pin(async move { recorded.await.map(drop) })
    }

    fn record_reserving(
        &self,
        step: Box<TurnStep>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, Reserved> {
        self.record_with(step, Some(reservation))
    }

    fn compact(&self, commit: Box<CompactionCommit>) -> PortFuture<'static, ()> {
        let clock = self.clock.clone();
        let memory = self.memory.get().cloned();
        let remembers = memory.is_some();
        let submitted = self.lease(move |connection, claim| {
            compaction::compact(connection, &commit, claim, &clock)?;
            if remembers { pending::note(connection, &commit.id) } else { Ok(()) }
        });
        Box::pin(async move {
            submitted?.1.await?;
            if let Some(wake) = memory {
                wake();
            }
            Ok(())
        })
    }

    fn commit(&self, turn: Box<TurnEnd>) -> PortFuture<'static, CommitReceipt> {
        let clock = self.clock.clone();
        let label = turn.header.session_label.clone();
        let leased = turn.epoch.map(|epoch| RunningTurn { turn_id: turn.turn_id.clone(), epoch });
        let retention =
            self.core().ok().and_then(|core| Some(core.runs.to_check(core.retention.as_ref()?)));
        let trims = Arc::new(AtomicBool::new(false));
        let expired = Arc::clone(&trims);
        let memory = self.memory.get().cloned();
        let remembers = memory.is_some();
        let submitted =
            self.with_events(&turn.turn_id.clone(), move |connection, claim, event_write| {
                let run = match turn.epoch {
                    Some(epoch) => {
                        let lease = TurnLease { turn_id: turn.turn_id.clone(), epoch };
                        let label = &turn.header.session_label;
                        Some(leased_run(connection, claim, label, &lease)?)
                    }
                    None => None,
                };
                let last = match &turn.last_event {
                    Some(last) if commit::lands_beside(connection, &turn)? => {
                        Some(last.clone().persisted(false))
                    }
                    last => last.clone(),
                };
                let last = last.as_ref();
                match (event_write, &run) {
                    (Some(event_write), run) => {
                        let added = last.map_or(Added::Nothing, Added::End);
                        event_write.write(connection, run.as_ref(), added)?;
                    }
                    (None, Some(run)) => {
                        if let Some(last) = last {
                            event_log::end_interrupted(connection, run, last)?;
                        }
                    }
                    (None, None) => {}
                }
                let receipt = commit::commit_turn(connection, &turn, run.as_ref(), &clock)?;
                if remembers {
                    pending::note(connection, &turn.turn_id)?;
                }
                if let Some(queue) = &turn.queue {
                    turn_items::end(connection, &turn, queue, &receipt, &clock)?;
                }
                let has_children = dispatch_changes::may_have_children(&turn)
                    && dispatch_changes::parent_ended(connection, &turn, &clock)?;
                let n = match run {
                    Some(run) => Some(run.n),
                    // The run of a turn without commit points has only events.
                    None => run_rows::of_turn(connection, &turn.turn_id)?.map(|run| run.n),
                };
                if let Some(n) = n {
                    run_rows::end(connection, n, clock.now_ms())?;
                }
                if turn.queue.as_ref().is_some_and(|queue| queue.is_interrupted) {
                    budget_rows::close_turn(connection, &turn.turn_id)?;
                } else if has_children {
                    budget_rows::close_tree(connection, &turn.turn_id)?;
                }
                if let Some(retention) = &retention {
                    let now = clock.now_ms();
                    // The job that deletes them checks again: an error in old events must not fail a turn.
                    let old =
                        !matches!(archive_rows::expired(connection, retention, now), Ok(None));
                    expired.store(old, Ordering::Relaxed);
                }
                Ok(receipt)
            });
        Box::pin(async move {
            let (core, answer) = submitted?;
            let receipt = answer.await?;
            core.poller.ended(1);
            core.runs.turn_ended();
            if let Some(wake) = memory {
                wake();
            }
            if let Some(turn) = leased {
                core.claim.held.commit(&label, &turn);
            }
            if trims.load(Ordering::Relaxed)
                && let Some(retention) = &core.retention
            {
                trim::trim(&core.writer, &core.claim, retention);
            }
            Ok(receipt)
        })
    }

    fn release(&self, session_label: &str, lease: &TurnLease) {
        let Ok(core) = self.core() else { return };
        let turn = RunningTurn { turn_id: lease.turn_id.clone(), epoch: lease.epoch };
        if !core.claim.held.end(session_label, &turn) {
            // The turn was committed, and its lease may be that of the next turn.
            return;
        }
        let (claim, label) = (core.claim.clone(), session_label.to_owned());
        drop(core.writer.submit(move |connection| claim.release(connection, &label, turn.epoch)));
    }

    fn stop_waiting(&self, session_label: &str) {
        let Ok(core) = self.core() else { return };
        let (claim, label) = (core.claim.clone(), session_label.to_owned());
        drop(core.writer.submit(move |connection| waits::leave(connection, &claim, &label)));
    }

    fn interrupted(&self, turn_id: Option<&str>) -> PortFuture<'static, Vec<OpenTurn>> {
        let turn_id = turn_id.map(ToOwned::to_owned);
        let core = self.core();
        Box::pin(async move {
            let core = core?;
            let claim = core.claim.clone();
            let read = move |connection: &rusqlite::Connection| {
                open_turn_reads::interrupted(connection, turn_id.as_deref(), &claim)
            };
            let again = read.clone();
            let mut found = core.readers.run(|it| readers::snapshot(it, read)).await?;
            if !found.is_empty() {
                // A turn that ended after the snapshot appears in it as interrupted.
                let still = core.readers.run(|it| readers::snapshot(it, again)).await?;
                found.retain(|one| still.iter().any(|other| other.turn_id == one.turn_id));
            }
            Ok(found)
        })
    }

    fn reopen(&self, turn_id: &str) -> PortFuture<'static, Opened<Box<OpenTurn>>> {
        let (turn_id, taken) = (turn_id.to_owned(), turn_id.to_owned());
        let submitted =
            self.lease(move |connection, claim| open_turns::reopen(connection, &turn_id, claim));
        Box::pin(async move {
            let (core, answer) = submitted?;
            let opened = answer.await?;
            if let Opened::Leased(turn) = &opened {
                core.runs.leased(&taken, turn.epoch);
                let running = RunningTurn { turn_id: taken, epoch: turn.epoch };
                core.heartbeat.hold(&turn.session_label, running);
                core.poller.leased();
            }
            Ok(opened)
        })
    }
}

impl Ledger {
    /// On a ledger that is closed, the call counts at its maximum.
    fn change_account(&self, change: AccountChange) {
        if let Ok(core) = self.core() {
            core.writer.post(Box::new(change));
        }
    }

    /// W0, with the reservation of the turn's first call.
    fn begin_with(
        &self,
        opening: Box<TurnOpening>,
        reservation: Option<Box<Reservation>>,
    ) -> PortFuture<'static, (Opened<i64>, Reserved)> {
        let label = opening.header.session_label.clone();
        let turn_id = opening.turn_id.clone();
        let submitted =
            self.with_events(&opening.turn_id.clone(), move |connection, claim, event_write| {
                // Before the session is waited for: a turn without its messages must not begin.
                turn_items::check(connection, &opening)?;
                let owner = event_write.map(EventWrite::owner);
                let run = match open_turns::begin(connection, &opening, claim, owner)? {
                    Opened::Leased(run) => run,
                    Opened::Busy => return Ok((Opened::Busy, None)),
                    Opened::Moved => return Ok((Opened::Moved, None)),
                    Opened::Parked(turn) => return Ok((Opened::Parked(turn), None)),
                };
                if !opening.items.is_empty() {
                    turn_items::take_opening(connection, &opening, claim.clock.now_ms())?;
                }
                if let Some(event_write) = event_write {
                    event_write.write(connection, Some(&run), Added::Nothing)?;
                }
                let reserved = reserve(connection, claim, reservation.as_deref())?;
                Ok((Opened::Leased(run.epoch.unwrap_or_default()), reserved))
            });
        Box::pin(async move {
            let (core, answer) = submitted?;
            let answer = answer.await;
            if answer.as_ref().is_err_and(|error| error.kind == StorageErrorKind::DuplicateRun) {
                core.runs.forget(&turn_id);
            }
            let begun = answer?;
            if let Opened::Leased(epoch) = &begun.0 {
                core.runs.leased(&turn_id, *epoch);
                core.heartbeat.hold(&label, RunningTurn { turn_id, epoch: *epoch });
                core.poller.leased();
            }
            Ok(begun)
        })
    }

    /// W1 to W3, with the reservation of the turn's next call.
    fn record_with(
        &self,
        step: Box<TurnStep>,
        reservation: Option<Box<Reservation>>,
    ) -> PortFuture<'static, Reserved> {
        let clock = self.clock.clone();
        let parked = step.parking.as_ref().map(|_| {
            let turn = RunningTurn { turn_id: step.turn_id.clone(), epoch: step.epoch };
            (step.session_label.clone(), turn)
        });
        let submitted =
            self.with_events(&step.turn_id.clone(), move |connection, claim, event_write| {
                let lease = TurnLease { turn_id: step.turn_id.clone(), epoch: step.epoch };
                let label = &step.session_label;
                let run = leased_run(connection, claim, label, &lease)?;
                let parking = step.parking.as_deref();
                if let Some(event_write) = event_write {
                    let added = parking.map_or(Added::Nothing, |it| Added::Parking(&it.events));
                    event_write.write(connection, Some(&run), added)?;
                }
                if !step.items.is_empty() {
                    turn_items::take(connection, &step.items, &step.turn_id, clock.now_ms())?;
                }
                open_turns::record(connection, &run, &step, &clock)?;
                if let Some(parking) = parking {
                    approval_rows::park(connection, parking)?;
                    claim.release(connection, label, step.epoch)?;
                }
                reserve(connection, claim, reservation.as_deref())
            });
        Box::pin(async move {
            let (core, answer) = submitted?;
            let reserved = answer.await?;
            if let Some((label, turn)) = parked {
                core.claim.held.end(&label, &turn);
            }
            Ok(reserved)
        })
    }

    /// Submits a job that needs leases, at once: dropping its answer does not cancel it.
    fn lease<T, F>(
        &self,
        mut work: F,
    ) -> Stored<(Arc<OpenLedger>, impl Future<Output = Stored<T>> + Send + use<T, F>)>
    where
        T: Send + 'static,
        F: FnMut(&rusqlite::Connection, &claim::Claim) -> Stored<T> + Send + 'static,
    {
        let core = self.core()?;
        let claim = core.claim.clone();
        let answer = core.writer.submit(move |connection| work(connection, &claim));
        Ok((core, answer))
    }

    /// Like `lease`, for a job that also writes the new events of the turn's run.
    fn with_events<T, F>(
        &self,
        turn_id: &str,
        mut work: F,
    ) -> Stored<(Arc<OpenLedger>, impl Future<Output = Stored<T>> + Send + use<T, F>)>
    where
        T: Send + 'static,
        F: FnMut(&rusqlite::Connection, &claim::Claim, Option<&EventWrite>) -> Stored<T>
            + Send
            + 'static,
    {
        let core = self.core()?;
        let claim = core.claim.clone();
        let event_write = core.runs.event_write(turn_id);
        let then = event_write
            .clone()
            .map(|event_write| Box::new(|stored| event_write.done(stored)) as Then);
        let answer = core
            .writer
            .submit_then(move |connection| work(connection, &claim, event_write.as_ref()), then);
        Ok((core, answer))
    }
}

/// Reserves a call with what the job has written; `None` where it has none.
fn reserve(
    connection: &rusqlite::Connection,
    claim: &claim::Claim,
    reservation: Option<&Reservation>,
) -> Stored<Reserved> {
    reservation.map(|it| budget_rows::reserve(connection, &claim.owner, it)).transpose()
}
