//! The loop of one run: executes the steps of the machine, and feeds back what happened.
//!
//! It owns the run's task. It must never decide: `turn/machine` does.

use std::time::Duration;

use super::alias::follow_alias;
use super::attempt::attempt;
use super::attempt_outcome::AttemptOutcome;
use super::driver::Driver;
use super::finish::finish;
use super::opening::enter;
use super::refusal::refuse;
use super::tool_batch;
use crate::engine::active_run::ActiveRun;
use crate::engine::call::{NextCall, announce_wait};
use crate::engine::context::Session;
use crate::engine::state::{JournalState, LaneTicket, RunUsage, millis};
use serde::Serialize;

use model::{
    AgentPhase, AgentToolCall, Block, CallPurpose, FailureKind, Role, RunWarning, StopReason,
    StreamEvent, TokenUsage, response_message_id,
};
use turn::machine::{Event, Interrupt, Machine, Step};

/// Runs to the end: commit, terminal event, result. `ticket` is the run's ticket of its session's queue, if there is one;
/// `notes` are warnings from before the run.
pub(crate) async fn drive(
    mut driver: Box<Driver>,
    ticket: Option<LaneTicket>,
    mut notes: Vec<RunWarning>,
) {
    let run = &driver.active.run;
    let mut usage = RunUsage::of(&run.target.model);
    usage.notes.append(&mut notes);
    let mut machine = Machine::new(run.context.current_message.clone(), run.context.max_iterations);
    let entered = match follow_alias(&mut driver, ticket).await {
        // Boxed, as the end is: what lasts is the loop, and the memory of a run should be that of the loop.
        Ok(ticket) => Box::pin(enter(&driver, ticket, &mut machine, &mut usage)).await,
        Err(event) => Err(event),
    };
    if let Some(error) = driver.active.run.control.refusal().cloned() {
        refuse(&driver.active, error).await;
        return;
    }
    let mut session = match entered {
        Ok(session) => Some(session),
        Err(event) => {
            driver.active.feed(&mut machine, *event);
            None
        }
    };
    let mut undelivered = Vec::new();
    if let Some(session) = &mut session {
        undelivered = run_turn(&mut driver, &mut machine, session, &mut usage).await;
    }
    let active = &driver.active;
    undelivered.extend(active.run.control.close());
    active.shared.budgets.run_ended(&active.run.turn_id);
    Box::pin(finish(active, machine, session, usage, undelivered)).await;
}

/// The loop. Returns the steered messages that no call will see.
async fn run_turn(
    driver: &mut Driver,
    machine: &mut Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Vec<String> {
    let mut sent = 0;
    let mut entered = machine.messages().len();
    let mut failed = None;
    let mut step = machine.step();
    loop {
        let active = &driver.active;
        step = match step {
            // A tool's time limit may end with the run's: another call would be useless.
            Step::CallModel if active.remaining().is_zero() => {
                interrupt(active, machine, Interrupt::Timeout)
            }
            Step::CallModel if may_stop(driver, machine) && stops(driver, machine).await => {
                active.feed(machine, Event::Stopped)
            }
            Step::CallModel => {
                let steered = active.run.control.take();
                if !steered.is_empty() {
                    active.feed(machine, Event::Steered(steered));
                }
                if let JournalState::Open(recorder) = &mut session.head.journal
                    && recorder.is_due(machine)
                {
                    // W3 is written while the next request is sent.
                    recorder.record_in_background(machine).await;
                }
                // Their texts are written now, in the transaction of these events or in an earlier one.
                emit_user_messages(active, machine, entered);
                entered = machine.messages().len();
                let fresh = machine.messages().get(sent..).unwrap_or_default();
                session.conversation.push_current(fresh, active.run.target.provider.as_ref());
                sent = machine.messages().len();
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
                if matches!(next, Step::RunTools(_) | Step::CallModel) {
                    if let JournalState::Open(recorder) = &mut session.head.journal {
                        recorder.count(&usage.progress(machine));
                    }
                    message_ended(active, machine);
                }
                next
            }
            Step::RunTools(calls) => {
                active.queue.phase(AgentPhase::ToolUse, active.shared.clock.now_ms());
                let journal = &mut session.head.journal;
                tool_batch::run(driver, machine, journal, calls, &mut usage.notes).await
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
                    return Vec::new();
                }
                let steered = active.run.control.take_or_close();
                if steered.is_empty() {
                    return Vec::new();
                }
                match active.feed(machine, Event::Steered(steered.clone())) {
                    Step::Done => return steered,
                    next => {
                        message_ended(active, machine);
                        next
                    }
                }
            }
        };
    }
}

/// Whether the host is to be asked before the next call: after an answer, whose calls have their results.
fn may_stop(driver: &Driver, machine: &Machine) -> bool {
    driver.host.may_stop() && machine.messages().iter().any(|it| it.role == Role::Assistant)
}

/// The last answer and its calls, as the host's `stopWhen` receives them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastStep<'a> {
    run_id: &'a str,
    turn_id: &'a str,
    session_label: &'a str,
    step: u32,
    message_id: &'a str,
    text: String,
    tool_calls: Vec<&'a AgentToolCall>,
    usage: TokenUsage,
}

/// Whether the host stops the run after its last answer. A run that ends meanwhile is not stopped by it.
async fn stops(driver: &Driver, machine: &Machine) -> bool {
    let run = &driver.active.run;
    let answers = machine.messages().iter().filter(|message| message.role == Role::Assistant);
    let Some(answer) = answers.clone().next_back() else { return false };
    let step = LastStep {
        run_id: &run.context.run_id,
        turn_id: &run.turn_id,
        session_label: &run.context.session_label,
        step: u32::try_from(answers.count()).unwrap_or(u32::MAX),
        message_id: &answer.id,
        text: answer.blocks.iter().filter_map(Block::as_text).collect(),
        tool_calls: machine
            .calls()
            .map(|state| state.row)
            .filter(|call| call.message_id == answer.id)
            .collect(),
        usage: machine.usage().0,
    };
    let json = serde_json::to_string(&step).unwrap_or_default();
    driver.active.guard(driver.host.stops(json)).await.unwrap_or(false)
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
        let text = message.blocks.iter().find_map(Block::as_text).unwrap_or_default();
        active.queue.event(|seq| StreamEvent::UserMessage {
            message_id: message.id.clone(),
            text: Some(text.to_owned()),
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
