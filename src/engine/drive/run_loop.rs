//! The loop of one run: executes the steps of the machine, and feeds back what happened.
//!
//! It owns the run's task. It must never decide: `turn/machine` does.

use std::time::Duration;

use super::alias::follow_alias;
use super::attempt::attempt;
use super::attempt_outcome::AttemptOutcome;
use super::driver::Driver;
use super::finish::finish;
use super::model_turn::prepay;
use super::opening::{NotEntered, enter, push_messages};
use super::output::{Settled, settle};
use super::parked::{
    Wakes, continued, deliver_end, end_parked, reject_closed, reject_failed, reject_left,
    return_parked, wait,
};
use super::refusal::refuse;
use super::step::{Planned, PlannedAt, is_question, may_stop, plan, prepare, stops};
use super::tool_batch::{self, BatchEnd};
use crate::engine::active_run::ActiveRun;
use crate::engine::call::{NextCall, announce_wait};
use crate::engine::context::{Joining, Session, join_tools};
use crate::engine::limits::policy;
use crate::engine::state::{JournalState, LaneTicket, RunUsage, Steered, millis};
use model::{
    AgentPhase, Approval, Block, CallPurpose, Failure, FailureKind, MessageLayers, OnApproval,
    Role, RunWarning, StopReason, StreamEvent, response_message_id,
};
use turn::machine::{Event, Interrupt, Machine, Step};

/// Runs to the end: commit, terminal event, result. `ticket` is the run's ticket of its session's queue, if there is one;
/// `notes` are warnings from before the run, `joining` the tools that it waits for.
pub(crate) async fn drive(
    mut driver: Box<Driver>,
    mut ticket: Option<LaneTicket>,
    mut notes: Vec<RunWarning>,
    joining: Option<Joining>,
) {
    let mut usage = Box::new(RunUsage::of(&driver.active.run.target.model));
    usage.notes.append(&mut notes);
    if let Some(joining) = joining {
        let mut missing = Box::pin(join_tools(&mut driver.active.run, joining)).await;
        usage.notes.append(&mut missing);
    }
    // Once, and again after each time that the turn was parked.
    while let Some(parked) = drive_once(&mut driver, ticket.take(), usage).await {
        let ParkedRun { approvals, usage: before } = parked;
        match Box::pin(wait(&mut driver, &approvals)).await {
            Wakes::Decision(next) => ticket = next,
            Wakes::Abort => {
                Box::pin(end_parked(&mut driver)).await;
                return;
            }
            Wakes::Ended => {
                Box::pin(deliver_end(&mut driver)).await;
                return;
            }
            Wakes::Close => {
                reject_closed(&driver);
                return;
            }
            Wakes::Failed(error) => {
                reject_failed(&driver, &error);
                return;
            }
        }
        usage = Box::new(continued(&driver, *before));
    }
}

/// A run whose turn is parked.
struct ParkedRun {
    approvals: Vec<Approval>,
    usage: Box<RunUsage>,
}

/// Runs until the end, which is committed and emitted, or until the turn is parked.
async fn drive_once(
    driver: &mut Box<Driver>,
    ticket: Option<LaneTicket>,
    mut usage: Box<RunUsage>,
) -> Option<ParkedRun> {
    let run = &driver.active.run;
    let mut machine = match &run.queued {
        None if run.context.current_turn.is_empty() => {
            Machine::new(run.context.current_message.clone(), run.context.max_iterations)
        }
        None | Some(_) => Machine::with_queries(run.queries(), run.context.max_iterations),
    };
    let entered = match follow_alias(driver, ticket).await {
        // Boxed, as the end is: what lasts is the loop, and the memory of a run should be that of the loop.
        Ok(ticket) => Box::pin(enter(driver, ticket, &mut machine, &mut usage)).await,
        Err(event) => Err(event.into()),
    };
    if let Some(error) = driver.active.run.control.refusal().cloned() {
        driver.active.shared.budgets.run_refused(&driver.active.run.turn_id);
        refuse(&driver.active, error).await;
        return None;
    }
    let mut session = match entered {
        Ok(session) => Some(session),
        Err(NotEntered::Ended) => {
            Box::pin(deliver_end(driver)).await;
            return None;
        }
        Err(NotEntered::Ends(_)) if driver.continues && driver.active.run.control.is_aborted() => {
            Box::pin(end_parked(driver)).await;
            return None;
        }
        Err(NotEntered::Ends(event)) => {
            driver.active.feed(&mut machine, *event);
            None
        }
    };
    let mut undelivered = Vec::new();
    if let Some(opened) = &mut session {
        match run_turn(driver, &mut machine, opened, &mut usage).await {
            TurnPause::Ended(messages) => undelivered = messages,
            TurnPause::Left => {
                if let JournalState::Open(recorder) = &mut opened.head.journal {
                    recorder.record_in_background(&machine).await;
                    recorder.settle().await;
                }
                // The lease is free from here on: the turn is an interrupted one.
                drop(session);
                let (shared, run) = (&driver.active.shared, &driver.active.run);
                run.control.close();
                let journal = shared.journal.as_ref();
                shared.budgets.run_parked(journal, &run.turn_id, run.budget());
                reject_left(driver);
                return None;
            }
            TurnPause::Parked(approvals) => {
                // The lane is free from here on; the lease is already.
                drop(session);
                let active = &driver.active;
                active.shared.budgets.run_parked(
                    active.shared.journal.as_ref(),
                    &active.run.turn_id,
                    active.run.budget(),
                );
                if active.run.context.on_approval == OnApproval::Return {
                    Box::pin(return_parked(active, machine, *usage, approvals)).await;
                    return None;
                }
                return Some(ParkedRun { approvals, usage });
            }
        }
    }
    let active = &driver.active;
    undelivered.extend(texts(&active.run.control.close()));
    let (shared, run) = (&active.shared, &active.run);
    shared.budgets.run_ended(shared.journal.as_ref(), &run.turn_id, run.budget());
    Box::pin(finish(active, machine, session, *usage, undelivered)).await;
    None
}

/// Why the loop has stopped.
enum TurnPause {
    /// The turn ends; no call will see these steered messages.
    Ended(Vec<String>),
    /// Calls wait for a decision.
    Parked(Vec<Approval>),
    /// A call has no result: the turn stays open.
    Left,
}

/// The failure of a run that has used the tokens that its policies allow.
fn spent(active: &ActiveRun, machine: &Machine) -> Option<Failure> {
    let policies = &active.run.context.policies;
    if policies.is_empty() {
        return None;
    }
    policy::spent(policies, machine.usage().0.total_tokens)
}

/// The loop.
async fn run_turn(
    driver: &mut Driver,
    machine: &mut Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> TurnPause {
    let mut entered = machine.messages().len();
    let (mut failed, mut prepared, mut planned) = (None, None, PlannedAt::default());
    let mut step = machine.step();
    loop {
        let active = &driver.active;
        if matches!(step, Step::CallModel)
            && let Some(failure) = spent(active, machine)
        {
            let (partial, emitted, again) = (None, false, None);
            step = active.feed(machine, Event::AttemptFailed { failure, partial, emitted, again });
            continue;
        }
        step = match step {
            // A tool's time limit may end with the run's: another call would be useless.
            Step::CallModel if active.remaining().is_zero() => {
                interrupt(active, machine, Interrupt::Timeout)
            }
            Step::CallModel if may_stop(driver, machine) && stops(driver, machine).await => {
                active.feed(machine, Event::Stopped)
            }
            Step::CallModel => {
                if planned.is_due(driver, machine)
                    && let Planned::Next(next) = plan(driver, machine, usage).await
                {
                    record_step(&driver.active, machine, session, usage, &next);
                    step = next;
                    continue;
                }
                if driver.host.prepares() && prepared != Some(answers(machine)) {
                    // Once for each answer: a retry is the same step.
                    prepared = Some(answers(machine));
                    if let Err(outcome) = prepare(driver, machine, session, usage).await {
                        step = driver.active.feed(machine, outcome.into_event());
                        continue;
                    }
                }
                let active = &driver.active;
                let steered = active.run.control.take();
                if !steered.is_empty() {
                    active.feed(machine, Event::Steered(blocks(steered.clone())));
                    take_items(session, machine, steered);
                }
                push_messages(active, machine, session);
                if let JournalState::Open(recorder) = &session.head.journal
                    && recorder.is_due(machine)
                {
                    record_results(active, machine, session).await;
                }
                // Their texts are written now, in the transaction of these events or in an earlier one.
                emit_user_messages(active, machine, entered);
                entered = machine.messages().len();
                let tools_answered = machine.messages().iter().any(|it| it.role == Role::Tool);
                let outcome = attempt(driver, machine, session, tools_answered, usage).await;
                let active = &driver.active;
                failed = match &outcome {
                    AttemptOutcome::Retried { failed, .. } => Some(failed.failure.kind),
                    AttemptOutcome::Answered { .. }
                    | AttemptOutcome::Failed(_)
                    | AttemptOutcome::Interrupted { .. }
                    | AttemptOutcome::Broken(_) => None,
                };
                let next = active.feed(machine, outcome.into_event());
                record_step(active, machine, session, usage, &next);
                next
            }
            Step::RunTools(calls) => {
                active.queue.phase(AgentPhase::ToolUse, active.shared.clock.now_ms());
                let journal = &mut session.head.journal;
                // Boxed: a run waits for its model most of the time, and its memory is that of its largest wait.
                let batch = tool_batch::run(driver, machine, journal, calls, &mut usage.notes);
                match Box::pin(batch).await {
                    BatchEnd::Next(step) => step,
                    BatchEnd::Parked(approvals) => return TurnPause::Parked(approvals),
                    BatchEnd::Left => return TurnPause::Left,
                }
            }
            Step::Wait(delay) => {
                announce_retry(active, usage.next_attempt(), failed, delay);
                match active.guard(tokio::time::sleep(delay)).await {
                    Ok(()) => active.feed(machine, Event::Waited),
                    Err(cause) => interrupt(active, machine, cause),
                }
            }
            // Every call of a batch has ended before the next step.
            Step::AwaitTools => interrupt(active, machine, Interrupt::Abort),
            Step::Done => {
                let continues = machine.outcome().is_some_and(|outcome| {
                    matches!(outcome.stop_reason, StopReason::EndTurn | StopReason::MaxTokens)
                });
                if !continues {
                    return TurnPause::Ended(Vec::new());
                }
                let mut undelivered = Vec::new();
                let is_question = active.run.context.planner.is_some() && is_question(machine);
                if driver.output.is_some() {
                    // It is not the last answer where a message was sent meanwhile.
                    let steered = active.run.control.take();
                    if let Some(next) = steer(active, machine, session, steered, &mut undelivered) {
                        step = next;
                        continue;
                    }
                }
                // A question is no attempt at the output.
                let check = driver.output.as_deref().filter(|_| !is_question);
                let host = driver.host.as_ref();
                let invalid = match settle(active, check, host, machine).await {
                    Settled::Ends(invalid) => invalid,
                    Settled::Continues(next) => {
                        message_ended(active, machine);
                        step = next;
                        continue;
                    }
                };
                let steered = active.run.control.take_or_close();
                match steer(active, machine, session, steered, &mut undelivered) {
                    Some(next) => next,
                    None => {
                        if let Some(invalid) = invalid {
                            active.feed(machine, *invalid);
                        }
                        return TurnPause::Ended(undelivered);
                    }
                }
            }
        };
    }
}

/// After an answer that is not the last: its counters go with the next write, and its end is emitted.
fn record_step(
    active: &ActiveRun,
    machine: &Machine,
    session: &mut Session,
    usage: &RunUsage,
    next: &Step,
) {
    if !matches!(next, Step::RunTools(_) | Step::CallModel) {
        return;
    }
    if let JournalState::Open(recorder) = &mut session.head.journal {
        recorder.count(&usage.progress(machine));
    }
    message_ended(active, machine);
}

/// W3. Its transaction reserves the next call too, where the run has a budget; otherwise it is written while the request is sent.
async fn record_results(active: &ActiveRun, machine: &Machine, session: &mut Session) {
    let prepayment =
        if active.has_budget() { Box::pin(prepay(active, session, None)).await } else { None };
    let JournalState::Open(recorder) = &mut session.head.journal else { return };
    match prepayment {
        None => recorder.record_in_background(machine).await,
        Some(prepayment) => {
            let reserved = recorder.record_reserving(machine, prepayment.reservation()).await;
            prepayment.stored(reserved);
        }
    }
}

fn blocks(steered: Vec<Steered>) -> Vec<Vec<Block>> {
    steered.into_iter().map(|message| message.blocks).collect()
}

/// Continues the turn with messages that arrived during its last answer. `None` where there are none, or the limit of iterations is reached.
fn steer(
    active: &ActiveRun,
    machine: &mut Machine,
    session: &mut Session,
    steered: Vec<Steered>,
    undelivered: &mut Vec<String>,
) -> Option<Step> {
    if steered.is_empty() {
        return None;
    }
    match active.feed(machine, Event::Steered(blocks(steered.clone()))) {
        Step::Done => {
            undelivered.extend(texts(&steered));
            None
        }
        next => {
            take_items(session, machine, steered);
            message_ended(active, machine);
            Some(next)
        }
    }
}

fn texts(steered: &[Steered]) -> Vec<String> {
    steered.iter().map(Steered::text).collect()
}

/// Messages of the session's queue are taken by the write that stores them, with the layers of their contexts. They are the newest
/// messages of the turn.
fn take_items(session: &mut Session, machine: &Machine, steered: Vec<Steered>) {
    let JournalState::Open(recorder) = &mut session.head.journal else { return };
    let first = machine.messages().len().saturating_sub(steered.len());
    let messages = machine.messages().get(first..).unwrap_or_default();
    for (Steered { item, layers, .. }, message) in steered.into_iter().zip(messages) {
        if let Some(item) = item {
            let layers = layers.map(|json| MessageLayers { message_id: message.id.clone(), json });
            recorder.take_item(item, layers);
        }
    }
}

fn answers(machine: &Machine) -> usize {
    machine.messages().iter().filter(|message| message.role == Role::Assistant).count()
}

fn interrupt(active: &ActiveRun, machine: &mut Machine, cause: Interrupt) -> Step {
    active.feed(machine, Event::Interrupted { cause, partial: None })
}

/// Emits that the last call failed and that call `attempt` follows; and the delay before it, if there is one.
fn announce_retry(active: &ActiveRun, attempt: u32, failed: Option<FailureKind>, delay: Duration) {
    let run = &active.run;
    let (provider, model) = (&run.target.provider_name, &run.target.model_name);
    // An answer with a malformed tool call is not a failure of the plan.
    let reason = failed.or_else(|| run.plan.last_failure()).unwrap_or(FailureKind::ServerError);
    active.queue.event(|seq| StreamEvent::Retry {
        reason,
        attempt: attempt.saturating_sub(1),
        provider: provider.clone(),
        model: model.clone(),
        profile_id: run.profile.clone(),
        ms: millis(delay),
        seq,
    });
    if delay.is_zero() {
        return;
    }
    let profile = run.profile.as_deref();
    let next = NextCall { purpose: CallPurpose::Run, provider, model, profile, attempt };
    announce_wait(&active.queue, next, reason, Some(delay), active.shared.clock.now_ms());
}

/// Emits the user messages from index `from` on: those that were steered.
fn emit_user_messages(active: &ActiveRun, machine: &Machine, from: usize) {
    let fresh = machine.messages().iter().skip(from);
    for message in fresh.filter(|message| message.role == Role::User) {
        active.queue.event(|seq| StreamEvent::UserMessage {
            message_id: message.id.clone(),
            text: Some(message.content()),
            seq,
        });
    }
}

/// Emits the end of the newest answer, which is not the run's last.
fn message_ended(active: &ActiveRun, machine: &Machine) {
    let message_id = response_message_id(machine.messages());
    let run_id = active.run.context.run_id.clone();
    active.queue.event(|seq| StreamEvent::answer_end(run_id, message_id).numbered(seq));
}
