//! The engine's port over the statements.
//!
//! A write is submitted when its function is called, and those of a session are written in that order. It must never decide
//! what may be written.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use base::clock::Clock;
use model::{
    AgentMessage, CacheChain, CallCost, CommitReceipt, CompactionCommit, Expense, Journal,
    LedgerRead, LiveRun, OpenTurn, Opened, PortFuture, Recall, Recalled, Reservation, Reserved,
    RunNames, RunRegistration, SessionHistory, SpentBy, StoredRequest, TurnEnd, TurnLease,
    TurnOpening, TurnStep,
};
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::connect::worker::Order;
use crate::events::follow;
use crate::events::new_events::NewEvents;
use crate::handle::postgres::Postgres;
use crate::journal::{begin, cache_chain, commit, compaction, history, lease, record, take_over};
use crate::queue::{budgets, dispatch_rows};
use crate::reading::{recall, sessions, turns, usage};
use crate::rows::turn_read::get;
use crate::sessions::aliases;

/// The interval at which a session is tried again without a word of a change.
const LOOK: Duration = Duration::from_millis(250);
/// What is settled and closed runs in the order of the calls.
const BUDGETS: Option<&str> = Some("\0budgets");

impl Journal for Postgres {
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> PortFuture<'a, SessionHistory> {
        let label = session_label.to_owned();
        let (at, known) = (at.map(ToOwned::to_owned), known.map(ToOwned::to_owned));
        self.submit(None, move |server| async move {
            history::session_history(&server, &label, at.as_deref(), known.as_deref()).await
        })
    }

    fn head<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<String>> {
        let label = session_label.to_owned();
        self.submit(None, move |server| async move {
            Ok(history::head(&server, &label).await?.flatten())
        })
    }

    fn cache_chain<'a>(
        &'a self,
        session_label: &'a str,
    ) -> PortFuture<'a, Option<Box<CacheChain>>> {
        let label = session_label.to_owned();
        self.submit(None, move |server| async move { cache_chain::read(&server, &label).await })
    }

    fn recall(&self, query: Recall) -> PortFuture<'static, Recalled> {
        self.submit(None, move |server| async move { recall::recall(&server, &query).await })
    }

    fn session_named<'a>(&'a self, label: &'a str) -> PortFuture<'a, String> {
        self.resolve(label.to_owned())
    }

    fn session_of<'a>(&'a self, turn_id: &'a str, label: &'a str) -> PortFuture<'a, String> {
        let Some(entry) = self.live.entry(turn_id) else { return self.session_named(label) };
        if let Some(label) = entry.resolved() {
            return Box::pin(std::future::ready(Ok(label.to_owned())));
        }
        let name = label.to_owned();
        self.submit(None, move |server| async move {
            let (label, head) = aliases::resolve_with_head(&server, &name).await?;
            // Where an alias leads, runs that wait there may still move it.
            if label == name {
                entry.head_is(head);
            }
            Ok(entry.resolve(&label).to_owned())
        })
    }

    fn register(
        &self,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        Some(self.live.register(names, run))
    }

    fn answered_with<'a>(
        &'a self,
        turn_id: &'a str,
        provider: &'a str,
    ) -> PortFuture<'a, Option<String>> {
        let (turn, provider) = (turn_id.to_owned(), provider.to_owned());
        self.submit(None, move |server| async move {
            turns::answered_with(&server, &turn, &provider).await
        })
    }

    fn agent_of<'a>(&'a self, label: &'a str, follows: Option<&'a str>) -> PortFuture<'a, String> {
        let (label, follows) = (label.to_owned(), follows.map(ToOwned::to_owned));
        self.submit(None, move |server| async move {
            sessions::agent_of(&server, &label, follows.as_deref()).await
        })
    }

    fn spent(&self, by: SpentBy) -> PortFuture<'static, Expense> {
        self.submit(None, move |server| async move { usage::spent(&server, &by).await })
    }

    fn id(&self) -> String {
        self.id.clone()
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

    fn reserve(&self, reservation: Box<Reservation>) -> PortFuture<'static, Reserved> {
        self.live.has_accounts.store(true, Ordering::Release);
        self.submit(None, move |server| async move {
            budgets::reserve(&server, &reservation).await.map(Some)
        })
    }

    fn settle(&self, call_id: String, used: CallCost) {
        // Until it is written, the call counts at its maximum.
        self.live.unsettled.lock().unwrap_or_else(PoisonError::into_inner).push((call_id, used));
        self.settling(|server| async move { budgets::settle(&server).await });
    }

    fn close_account(&self, id: String) {
        self.settling(move |server| async move { budgets::close(&server, &id).await });
    }

    fn root_of(&self, turn_id: String) -> PortFuture<'static, String> {
        self.submit(None, move |server| async move {
            let of: [Param<'_>; 1] = [(&turn_id, Type::TEXT)];
            match server.row("read the tree of a turn", dispatch_rows::ROOT, &of).await? {
                Some(row) => get(&row, "root_turn_id"),
                None => Ok(turn_id.clone()),
            }
        })
    }

    fn future_root(
        &self,
        turn_id: String,
        items: Vec<String>,
    ) -> PortFuture<'static, Option<String>> {
        if items.is_empty() {
            return Box::pin(std::future::ready(Ok(Some(turn_id))));
        }
        self.submit(None, move |server| async move {
            let of: [Param<'_>; 1] = [(&items, Type::TEXT_ARRAY)];
            match server.row("read the tree of a task", dispatch_rows::ROOT_OF_TASKS, &of).await? {
                Some(row) => get(&row, "root_turn_id").map(Some),
                None => Ok(Some(turn_id.clone())),
            }
        })
    }

    fn compact(&self, commit: Box<CompactionCommit>) -> PortFuture<'static, ()> {
        let (label, clock) = (commit.header.session_label.clone(), self.clock.clone());
        self.submit(Some(&label), move |server| async move {
            compaction::compact(&server, &commit, &clock).await?;
            server.live.wake_memory();
            Ok(())
        })
    }

    fn commit(&self, turn: Box<TurnEnd>) -> PortFuture<'static, CommitReceipt> {
        let (label, clock) = (turn.header.session_label.clone(), self.clock.clone());
        let (held, point) = (self.held.clone(), self.live.commit_point(&turn.turn_id));
        let settled = self.settled();
        self.submit(Some(&label.clone()), move |server| async move {
            let _point = point;
            // The end of a turn closes its accounts, which its calls must have left by then.
            settled.await?;
            let receipt = end(&server, turn, &clock).await?;
            let _ = held.end(&label, &receipt.turn_id);
            server.live.wake_memory();
            server.trim_sometimes();
            server.index_sometimes();
            Ok(receipt)
        })
    }

    fn release(&self, session_label: &str, lease: &TurnLease) {
        if !self.held.end(session_label, &lease.turn_id) {
            // Its commit has freed the session.
            return;
        }
        let (label, lease) = (session_label.to_owned(), lease.clone());
        drop(self.submit(Some(session_label), move |server| async move {
            lease::release(&server, &label, &lease).await?;
            server.changed(&lease.turn_id, &label);
            Ok(())
        }));
    }

    fn session_changed(&self, session_label: &str) -> Option<PortFuture<'static, ()>> {
        self.listen();
        let mut changes = self.live.changes(session_label);
        Some(Box::pin(async move {
            // A notification may be lost, and the lease of a process that was killed ends without one.
            changes.within(LOOK).await;
            Ok(())
        }))
    }

    fn stop_waiting(&self, session_label: &str) {
        let label = session_label.to_owned();
        drop(self.submit(Some(session_label), move |server| async move {
            begin::stop_waiting(&server, &label).await
        }));
    }

    fn interrupted(&self, turn_id: Option<&str>) -> PortFuture<'static, Vec<OpenTurn>> {
        let turn_id = turn_id.map(ToOwned::to_owned);
        self.submit_in(Order::AfterAll, move |server| async move {
            take_over::interrupted(&server, turn_id.as_deref()).await
        })
    }

    fn reopen(&self, turn_id: &str) -> PortFuture<'static, Opened<Box<OpenTurn>>> {
        let turn_id = turn_id.to_owned();
        let (held, live) = (self.held.clone(), Arc::clone(&self.live));
        self.submit_in(Order::AfterAll, move |server| async move {
            let opened = take_over::reopen(&server, &turn_id).await?;
            if let Opened::Leased(turn) = &opened {
                if let Some(entry) = live.entry(&turn_id) {
                    *entry.stored.lock().await = follow::last_event(&server, &turn_id).await?;
                }
                let lease = TurnLease { turn_id, epoch: turn.epoch };
                live.leased(&held, &turn.session_label, lease);
            }
            Ok(opened)
        })
    }

    fn request_of<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<StoredRequest>> {
        let run_id = run_id.to_owned();
        self.submit(None, move |server| async move {
            let Some(id) = turns::of_run(&server, &run_id).await? else { return Ok(None) };
            let turn = turns::turn(&server, &id).await?;
            Ok(turn.map(|turn| {
                let messages: Vec<AgentMessage> = turn.messages;
                StoredRequest { session_label: turn.session_label, messages }
            }))
        })
    }
}

impl Postgres {
    /// Runs what settles a call or closes an account, after those that were submitted before. Where one fails, those that waited for
    /// it fail with it: each would try as long again, and the ends of all turns, and of the ledger, wait for them.
    fn settling<F: Future<Output = Stored<()>> + 'static>(
        &self,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) {
        let number = self.live.settlements.fetch_add(1, Ordering::AcqRel) + 1;
        drop(self.submit(BUDGETS, move |server| async move {
            if number <= server.unsettled_at.get() {
                return Ok(());
            }
            let settled = work(Rc::clone(&server)).await;
            if settled.is_err() {
                server.unsettled_at.set(server.live.settlements.load(Ordering::Acquire));
            }
            settled
        }));
    }

    /// Ends after the settlements that were submitted before.
    fn settled(&self) -> PortFuture<'static, ()> {
        match self.live.has_accounts.load(Ordering::Acquire) {
            true => self.submit(BUDGETS, |_| std::future::ready(Ok(()))),
            false => Box::pin(std::future::ready(Ok(()))),
        }
    }

    /// W0, with the reservation of the turn's first call.
    fn begin_with(
        &self,
        opening: Box<TurnOpening>,
        reservation: Option<Box<Reservation>>,
    ) -> PortFuture<'static, (Opened<i64>, Reserved)> {
        let label = opening.header.session_label.clone();
        self.live.has_accounts.fetch_or(reservation.is_some(), Ordering::AcqRel);
        let (held, live) = (self.held.clone(), Arc::clone(&self.live));
        let point = self.live.commit_point(&opening.turn_id);
        self.submit(Some(&label.clone()), move |server| async move {
            let _point = point;
            let mut events = NewEvents::of(&server, &opening.turn_id).await;
            if let Some(tail) = events.as_mut().and_then(NewEvents::tail) {
                tail.encode(&[])?;
            }
            let tail = events.as_mut().and_then(NewEvents::tail);
            let opened =
                begin::begin(&server, &opening, tail.as_deref(), reservation.as_deref()).await;
            if let Ok((Opened::Leased(epoch), _)) = opened {
                let lease = TurnLease { turn_id: opening.turn_id.clone(), epoch };
                live.leased(&held, &label, lease);
            }
            match (events, &opened) {
                (Some(events), Ok((Opened::Leased(_), _))) => events.done(&server, false),
                (Some(events), Err(error)) => events.failed(&server, error),
                (Some(events), Ok((opened, _))) => {
                    events.put_back(&server, matches!(opened, Opened::Busy));
                }
                (None, _) => {}
            }
            opened
        })
    }

    /// W1 to W3, with the reservation of the turn's next call.
    fn record_with(
        &self,
        step: Box<TurnStep>,
        reservation: Option<Box<Reservation>>,
    ) -> PortFuture<'static, Reserved> {
        let label = step.session_label.clone();
        self.live.has_accounts.fetch_or(reservation.is_some(), Ordering::AcqRel);
        let (held, point) = (self.held.clone(), self.live.commit_point(&step.turn_id));
        self.submit(Some(&label.clone()), move |server| async move {
            let _point = point;
            let mut events = match &step.parking {
                Some(_) => NewEvents::of(&server, &step.turn_id).await,
                None => NewEvents::of_step(&server, &step.turn_id).await,
            };
            if let Some(tail) = events.as_mut().and_then(NewEvents::tail) {
                tail.encode(
                    step.parking.as_ref().map_or(&[], |parking| parking.events.as_slice()),
                )?;
            }
            let tail = events.as_mut().and_then(NewEvents::tail);
            let recorded =
                record::record(&server, &step, tail.as_deref(), reservation.as_deref()).await;
            match (events, &recorded) {
                (Some(events), Ok(_)) => events.done(&server, false),
                (Some(events), Err(error)) => events.failed(&server, error),
                (None, _) => {}
            }
            if step.parking.is_some() && recorded.is_ok() {
                let _ = held.end(&label, &step.turn_id);
            }
            recorded
        })
    }
}

/// Writes the end of a turn with the events of its run.
async fn end(server: &Server, mut turn: Box<TurnEnd>, clock: &Clock) -> Stored<CommitReceipt> {
    let mut events = NewEvents::of(server, &turn.turn_id).await;
    let mut orphan = None;
    if events.is_none() && turn.epoch.is_some() {
        orphan = follow::interrupted_tail(server, &mut turn).await?;
    }
    let tail = match &mut events {
        Some(events) => events.tail(),
        None => orphan.as_mut(),
    };
    let receipt = commit::commit(server, &turn, clock, tail).await;
    match (events, &receipt) {
        (Some(events), Ok(_)) => events.done(server, true),
        (Some(events), Err(error)) => events.failed(server, error),
        (None, _) => server.changed(&turn.turn_id, &turn.header.session_label),
    }
    receipt
}
