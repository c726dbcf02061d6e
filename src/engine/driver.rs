//! The driver of one run: does what the machine says, and feeds back what happened.
//!
//! It owns the run's task. It must never decide: deciding is `turn/machine`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Bounds, RequestTemplate, RunUsage};
use super::compaction::Compactor;
use super::control::RunControl;
use super::failover::Chair;
use super::record::Writing;
use super::session::Session;
use super::sessions::Place;
use super::sink::EventQueue;
use super::{Core, batch};
use crate::tools::{ToolHost, ToolSet};
use model::{AgentPhase, AssembledContext, ModelInfo, Role, RunWarning, StopReason, StreamEvent};
use provider::Provider;
use turn::fallback::Plan;
use turn::machine::{Event, Interrupt, Machine, Step, Tick};

/// Everything a run is made of.
pub(crate) struct Run {
    pub(crate) core: Arc<Core>,
    pub(crate) context: AssembledContext,
    pub(crate) turn_id: String,
    /// True where the turn is an interrupted one that goes on.
    pub(crate) resumes: bool,
    pub(crate) tool_set: Arc<ToolSet>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: Arc<ModelInfo>,
    /// Where the run stands among its models and their profiles.
    pub(crate) plan: Plan,
    /// The models it may go to, in the plan's order; those above are the one it has gone to.
    pub(crate) chain: Vec<Chair>,
    /// The profile in use.
    pub(crate) profile: Option<String>,
    /// What is to be told of the chain.
    pub(crate) notes: Vec<RunWarning>,
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) control: Arc<RunControl>,
    pub(crate) host: Arc<dyn ToolHost>,
    pub(crate) template: RequestTemplate,
    /// Its abort and the end of its time.
    pub(crate) bounds: Bounds,
    /// What makes room in a full window; `None` where nothing may.
    pub(crate) compactor: Option<Arc<Compactor>>,
    pub(crate) started: Instant,
    pub(crate) started_ms: i64,
}

impl Run {
    /// Runs to the end: commit, terminal event, result. `place` is the run's in its session's queue, where there is one.
    pub(crate) async fn drive(mut self, place: Option<Place>) {
        let mut spent = RunUsage::of(&self.model);
        spent.notes.append(&mut self.notes);
        let mut machine =
            Machine::new(self.context.current_message.clone(), self.context.max_iterations);
        let entered = match self.follow_alias(place).await {
            Ok(place) => self.enter(place, &mut machine, &mut spent).await,
            Err(event) => Err(event),
        };
        let mut session = match entered {
            Ok(session) => Some(session),
            Err(event) => {
                self.feed(&mut machine, *event);
                None
            }
        };
        let mut undelivered = Vec::new();
        if let Some(session) = &mut session {
            undelivered = self.turn(&mut machine, session, &mut spent).await;
        }
        undelivered.extend(self.control.close());
        self.core.budgets.run_ended(&self.turn_id);
        self.finish(machine, session, spent, undelivered).await;
    }

    /// The loop. Returns steered messages that no call will see.
    async fn turn(
        &mut self,
        machine: &mut Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Vec<String> {
        let mut sent = 0;
        let mut step = machine.step();
        loop {
            step = match step {
                // A tool's limit may end with the run's: the next call would be sent for nothing.
                Step::CallModel if self.remaining().is_zero() => self
                    .feed(machine, Event::Interrupted { cause: Interrupt::Timeout, partial: None }),
                Step::CallModel => {
                    let steered = self.control.take();
                    if !steered.is_empty() {
                        self.feed(machine, Event::Steered(steered));
                    }
                    if let Writing::Open(recorder) = &mut session.writing
                        && recorder.is_due(machine)
                    {
                        // W3, on its way to the disk while the request is on its way to the provider.
                        recorder.aside(machine).await;
                    }
                    let fresh = machine.messages().get(sent..).unwrap_or_default();
                    session.conversation.push_current(fresh, self.provider.as_ref());
                    sent = machine.messages().len();
                    let called = machine.messages().iter().any(|it| it.role == Role::Tool);
                    let event = self.attempt(machine, session, called, spent).await;
                    let next = self.feed(machine, event);
                    if matches!(next, Step::RunTools(_) | Step::CallModel) {
                        if let Writing::Open(recorder) = &mut session.writing {
                            recorder.count(&spent.progress(machine));
                        }
                        self.message_ended(last_answer(machine));
                    }
                    next
                }
                Step::RunTools(calls) => {
                    self.queue.phase(AgentPhase::ToolUse, self.core.clock.now_ms());
                    batch::run(self, machine, &mut session.writing, calls, &mut spent.notes).await
                }
                Step::Wait(delay) => {
                    if !delay.is_zero() {
                        self.announce_retry(spent.next_attempt(), delay);
                    }
                    match self.guard(tokio::time::sleep(delay)).await {
                        Ok(()) => self.feed(machine, Event::Waited),
                        Err(cause) => {
                            self.feed(machine, Event::Interrupted { cause, partial: None })
                        }
                    }
                }
                // Every call of a batch is run to its end before the next step is asked for.
                Step::AwaitTools => self
                    .feed(machine, Event::Interrupted { cause: Interrupt::Abort, partial: None }),
                Step::Done => {
                    let goes_on = machine.outcome().is_some_and(|outcome| {
                        matches!(outcome.stop_reason, StopReason::EndTurn | StopReason::MaxTokens)
                    });
                    if !goes_on {
                        return Vec::new();
                    }
                    let steered = self.control.take_or_close();
                    if steered.is_empty() {
                        return Vec::new();
                    }
                    match self.feed(machine, Event::Steered(steered.clone())) {
                        Step::Done => return steered,
                        next => {
                            self.message_ended(last_answer(machine));
                            next
                        }
                    }
                }
            };
        }
    }

    /// Waits for `work`, an abort, or the end of the run's time, whichever comes first.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        self.bounds.guard(work).await
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.bounds.remaining(&self.core.clock)
    }

    pub(crate) fn feed(&self, machine: &mut Machine, event: Event) -> Step {
        let clock = &self.core.clock;
        let mut tick = Tick {
            now_ms: clock.now_ms(),
            new_id: &mut || clock.new_id(),
            remaining: self.remaining(),
        };
        machine.feed(event, &mut tick)
    }

    pub(crate) fn message_ended(&self, message_id: Option<String>) {
        self.queue.event(|seq| StreamEvent::StreamEnd {
            run_id: self.context.run_id.clone(),
            r#final: false,
            message_id,
            seq,
        });
    }
}

/// The id of the newest assistant message.
pub(crate) fn last_answer(machine: &Machine) -> Option<String> {
    let answer = machine.messages().iter().rfind(|message| message.role == Role::Assistant)?;
    Some(answer.id.clone())
}
