//! A run under way, with its shared parts and its event queue.
//!
//! It must never decide the next step: the machine does.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::events::{EventQueue, ReachableRun};
use super::limits::Payer;
use super::shared::{EngineShared, JournalMode};
use super::state::{LaneTicket, Run, Unfinished};
use model::{RunNames, RunRegistration};
use turn::calibration::Ratio;
use turn::compact::Budget;
use turn::machine::{Event, Interrupt, Machine, Step, Tick};

/// A run that is under way.
pub(crate) struct ActiveRun {
    pub(crate) shared: Arc<EngineShared>,
    pub(crate) run: Run,
    pub(crate) queue: Arc<EventQueue>,
}

/// The registration of a run: other processes reach it, and its events are stored, until this is dropped.
pub(crate) struct Registered {
    registration: Arc<dyn RunRegistration>,
    _run: Arc<ReachableRun>,
}

impl Registered {
    /// The run waits for its session, if it has to queue for it.
    pub(crate) fn waits(&self, ticket: &LaneTicket) {
        if ticket.waits() {
            self.registration.waits();
        }
    }
}

impl ActiveRun {
    /// Registers the run, and its events, with a journal that records turns step by step.
    pub(crate) fn register(&self) -> Option<Registered> {
        let (shared, run) = (&self.shared, &self.run);
        let journal = shared.journal.as_ref().filter(|_| shared.mode == JournalMode::Full)?;
        let names = RunNames {
            turn_id: run.turn_id.clone(),
            run_id: run.context.run_id.clone(),
            session_label: run.context.session_label.clone(),
            resumes: run.resumes,
        };
        let (control, queue) = (Arc::clone(&run.control), Arc::clone(&self.queue));
        let reachable = Arc::new(ReachableRun { control, queue });
        let weak: Weak<ReachableRun> = Arc::downgrade(&reachable);
        let registration = journal.register(names, weak)?;
        if registration.stores_events() {
            self.queue.store_with(Arc::clone(&registration));
        }
        Some(Registered { registration, _run: reachable })
    }

    /// Waits for `work`, an abort, or the end of the run's time, whichever comes first.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        self.run.bounds.guard(work).await
    }

    /// As [`Self::guard`], for work that may fail.
    pub(crate) async fn try_guard<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Unfinished<E>> {
        self.run.bounds.try_guard(work).await
    }

    /// The remaining time of the run.
    pub(crate) fn remaining(&self) -> Duration {
        self.run.bounds.remaining(&self.shared.clock)
    }

    /// Feeds an event to the run's machine.
    pub(crate) fn feed(&self, machine: &mut Machine, event: Event) -> Step {
        let event = match event {
            Event::Interrupted { cause: Interrupt::Abort, partial }
                if self.run.control.has_timed_out() =>
            {
                Event::Interrupted { cause: Interrupt::Expired, partial }
            }
            event => event,
        };
        let clock = &self.shared.clock;
        let mut tick = Tick {
            now_ms: clock.now_ms(),
            new_id: &mut || clock.new_id(),
            remaining: self.remaining(),
        };
        machine.feed(event, &mut tick)
    }

    /// The accounts that the run's calls are charged to.
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer {
            turn_id: Some(&self.run.turn_id),
            session_label: &self.run.context.session_label,
            follows: self.run.context.parent_turn_id.as_deref(),
            budget: self.run.budget(),
        }
    }

    /// Whether its calls are reserved.
    pub(crate) fn has_budget(&self) -> bool {
        self.shared.budgets.apply(&self.payer())
    }

    /// The calibration of the run's model.
    pub(crate) fn ratio(&self) -> Ratio {
        let target = &self.run.target;
        self.shared.calibrations.of(&target.provider_name, &target.model_name)
    }

    /// The limits of the window of the run's model.
    pub(crate) fn window_budget(&self) -> Budget {
        let (run, guard) = (&self.run, &self.shared.guard);
        super::context::window_budget(&run.context, &run.target.model, guard)
    }
}
