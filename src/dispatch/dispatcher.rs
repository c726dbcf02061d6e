//! The dispatcher: its parts, its wake-ups and its pulse. It must never decide: `session` asks `broker::queue`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::claims::Outbox;
use super::host::TurnHost;
use super::lanes::LaneLimits;
use super::state::{ActiveTurn, SessionState, State};
use crate::engine::{Engine, Tasks};
use base::clock::Clock;
use model::{
    DeliveryStore, DispatchStore, Journal, LedgerAdmin, QueueLimits, QueueStore, ScheduleStore,
    StorageError, StorageErrorKind,
};

/// The parts of a dispatcher.
pub(crate) struct DispatchParts {
    pub(crate) store: Arc<dyn QueueStore>,
    pub(crate) deliveries: Arc<dyn DeliveryStore>,
    pub(crate) schedules: Arc<dyn ScheduleStore>,
    pub(crate) dispatches: Arc<dyn DispatchStore>,
    pub(crate) admin: Arc<dyn LedgerAdmin>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) host: Arc<dyn TurnHost>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) limits: QueueLimits,
    pub(crate) lanes: LaneLimits,
    /// How often sessions of other processes are looked at.
    pub(crate) pulse: Duration,
    /// Whether the host composes a message before it enters a running turn.
    pub(crate) composes: bool,
}

/// Drives the queues of a ledger's sessions in this process.
pub(crate) struct Dispatcher {
    pub(super) parts: DispatchParts,
    state: Mutex<State>,
    outbox: Mutex<Outbox>,
    pub(super) closing: CancellationToken,
    /// A schedule has another due time.
    pub(super) schedules_changed: Notify,
    /// Nothing can begin any more: the engine closes, or the environment of the host has ended.
    pub(super) ended: CancellationToken,
    /// A turn has ended, parks or goes on, or a message has ended without one.
    pub(super) changed: Arc<Notify>,
}

impl Dispatcher {
    /// A dispatcher that has begun to look for messages that wait.
    pub(crate) fn start(parts: DispatchParts) -> Arc<Self> {
        let state = Mutex::new(State::new(parts.lanes));
        let dispatcher = Arc::new(Self {
            parts,
            state,
            outbox: Mutex::default(),
            closing: CancellationToken::new(),
            schedules_changed: Notify::new(),
            ended: CancellationToken::new(),
            changed: Arc::default(),
        });
        dispatcher.join_peers();
        let known = Arc::downgrade(&dispatcher);
        dispatcher.parts.store.watch_queues(Arc::new(move |label: &str| {
            // Another session waits for the pulse: it is not this process's yet.
            if let Some(dispatcher) =
                known.upgrade().filter(|it| it.lock().sessions.contains_key(label))
            {
                dispatcher.wake(label);
            }
        }));
        let pulse = Arc::clone(&dispatcher);
        dispatcher.parts.tasks.spawn(async move { pulse.beat().await });
        dispatcher
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; false if the dispatcher has closed meanwhile.
    pub(super) async fn waits(&self, wait: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => false,
            () = tokio::time::sleep(wait) => true,
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.parts.clock.now_ms()
    }

    /// Looks at all sessions with messages, at once and then at each pulse: those of processes that have ended, too.
    async fn beat(self: Arc<Self>) {
        loop {
            if !self.parts.host.is_alive() {
                self.end();
            }
            if let Err(error) = self.tend_dispatches().await {
                self.report(&error);
            }
            match self.parts.store.waiting_sessions().await {
                Ok(mut labels) => {
                    // What was queued here may have ended elsewhere.
                    labels.extend(self.lock().sessions.keys().cloned());
                    labels.iter().for_each(|label| self.wake(label));
                }
                Err(error) => self.report(&error),
            }
            self.wake_outbox();
            if !self.waits_for_schedules().await {
                return;
            }
        }
    }

    /// Takes the due times of schedules until the next pulse; false if the dispatcher has closed.
    async fn waits_for_schedules(self: &Arc<Self>) -> bool {
        let clock = &self.parts.clock;
        let pulse = clock.instant() + self.parts.pulse;
        loop {
            let wait = self.check_schedules().await;
            let left = pulse.saturating_duration_since(clock.instant());
            if left.is_zero() {
                return !self.closing.is_cancelled();
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return false,
                () = tokio::time::sleep(wait.min(left)) => {}
                () = self.schedules_changed.notified() => {}
            }
        }
    }

    /// Reports an error of the store, unless the dispatcher closes. It closes with its ledger.
    pub(super) fn report(self: &Arc<Self>, error: &StorageError) {
        if error.kind == StorageErrorKind::Closed {
            self.end();
        }
        if !self.closing.is_cancelled() {
            self.parts.host.error(error);
        }
    }

    /// Decides the next step of a session, in a task of its own.
    pub(super) fn wake(self: &Arc<Self>, label: &str) {
        if self.begin_stepping(label) {
            let (dispatcher, label) = (Arc::clone(self), label.to_owned());
            self.parts.tasks.spawn(async move { dispatcher.steps(&label).await });
        }
    }

    /// Whether the caller is the one that decides the session's next steps.
    pub(super) fn begin_stepping(&self, label: &str) -> bool {
        let mut state = self.lock();
        if state.refuses(label) {
            return false;
        }
        let session = state.session(label);
        session.has_changed = true;
        !std::mem::replace(&mut session.is_stepping, true)
    }

    /// Waits for the next step where one is under way: that one may have read the queue before.
    pub(super) async fn next_step(&self, label: &str) {
        let next = {
            let mut state = self.lock();
            let stepping = state.sessions.get_mut(label).filter(|session| session.is_stepping);
            stepping.map(|session| {
                session.has_changed = true;
                let (sender, next) = oneshot::channel();
                session.next_step.push(sender);
                next
            })
        };
        if let Some(next) = next {
            // Nothing is sent: the sender is dropped.
            let _ = next.await;
        }
    }

    /// Takes steps until nothing has changed meanwhile.
    pub(super) async fn steps(self: &Arc<Self>, label: &str) {
        loop {
            // They go on when this step has ended.
            let _waiting = {
                let mut state = self.lock();
                let session = state.session(label);
                session.has_changed = false;
                std::mem::take(&mut session.next_step)
            };
            if let Err(error) = self.step(label).await {
                self.report(&error);
                // Others have its slot meanwhile.
                self.pass_lane(label);
                let again = self.now().saturating_add(millis(self.parts.pulse));
                self.wake_at(label, again);
            }
            let mut state = self.lock();
            let session = state.session(label);
            if !session.has_changed {
                session.is_stepping = false;
                state.forget_idle(label);
                return;
            }
        }
    }

    /// Looks at a session again at a time.
    pub(super) fn wake_at(self: &Arc<Self>, label: &str, at: i64) {
        {
            let mut state = self.lock();
            let session = state.session(label);
            if session.timer.is_some_and(|timer| timer <= at) {
                return;
            }
            session.timer = Some(at);
        }
        let wait = Duration::from_millis(at.saturating_sub(self.now()).try_into().unwrap_or(0));
        let (dispatcher, label) = (Arc::clone(self), label.to_owned());
        self.parts.tasks.spawn(async move {
            // A session for which a running turn waits has its turn also while the dispatcher closes.
            tokio::select! {
                biased;
                () = dispatcher.ended.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            {
                let mut state = dispatcher.lock();
                let session = state.session(&label);
                if session.timer == Some(at) {
                    session.timer = None;
                }
            }
            dispatcher.wake(&label);
        });
    }

    /// What a session is doing here.
    pub(crate) fn state_of(&self, label: &str) -> SessionState {
        let mut state = self.lock();
        let Some(turn) = state.sessions.get_mut(label).and_then(|it| it.turn.as_ref()) else {
            return SessionState::Idle;
        };
        match &turn.control {
            Some(_) | None if turn.has_ended => SessionState::Idle,
            Some(control) if control.is_compacting() => SessionState::Compacting,
            Some(control) if control.is_answering() => SessionState::Streaming,
            Some(_) | None => SessionState::Running,
        }
    }

    /// Begins no turn from now on but those that running ones wait for. Running ones go on.
    pub(crate) fn close(self: &Arc<Self>) {
        self.lock().is_closing = true;
        self.drop_refused();
        self.closing.cancel();
    }

    /// Begins no turn from now on, also none that a running one waits for.
    pub(super) fn end(self: &Arc<Self>) {
        self.lock().awaited.clear();
        self.close();
        self.ended.cancel();
    }

    /// The slots of sessions that may not begin any more are those of others.
    pub(super) fn drop_refused(self: &Arc<Self>) {
        let woken = self.lock().drop_refused();
        woken.iter().for_each(|label| self.wake(label));
    }

    /// Waits until no turn runs here. One that waits for a decision is left as it is, and one that waits for such an agent ends
    /// its run and stays open.
    pub(crate) async fn quiet(self: &Arc<Self>) {
        loop {
            let turn_ended = self.changed.notified();
            let runs = |turn: &ActiveTurn| !turn.stays_parked();
            if !self.lock().sessions.values().any(|it| it.turn.as_ref().is_some_and(runs)) {
                self.end();
                return;
            }
            turn_ended.await;
        }
    }

    /// Aborts all turns that run here, but none that waits for a decision, or for an agent that does.
    pub(crate) fn abort_all(&self) {
        let mut state = self.lock();
        let labels = state.sessions.keys().filter(|label| !state.rests(label));
        for label in labels.cloned().collect::<Vec<_>>() {
            let Some(turn) = &mut state.session(&label).turn else { continue };
            turn.is_ending = true;
            if let Some(control) = &turn.control {
                control.abort();
            }
        }
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
