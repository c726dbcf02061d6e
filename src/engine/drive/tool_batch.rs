//! One batch of tool calls: all calls of one assistant message, in parallel where allowed.
//!
//! It owns the order of the batch and the skipping of calls that have not started
//! (docs/rules/sessions-and-ledger.md#steering-in-a-tool-batch). `tools` runs a tool. It must never give a call two results:
//! the machine accepts one.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use base::telemetry::Instrument as _;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::call_admission::{Admission, admit, invocation};
use super::driver::Driver;
use super::parked::{can_park, park};
use super::tool_events::{Announcing, EndedCall, emit_ended, unreadable};
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{Recaller, storage_error};
use crate::engine::limits::policy;
use crate::engine::state::{JournalState, Starting, needs_record};
use base::telemetry;
use model::{Approval, Block, OUTCOME_UNKNOWN, RECALL, RunWarning, StorageError};
use tools::{
    AdmissionQueue, CallRequest, Ending, First, Limits, Prepared, Ticket, ToolAnswer, ToolHost,
    run_call,
};
use turn::machine::{Event, Interrupt, Machine, PendingCall, Step, ToolFinish};

/// The result of a skipped call (docs/rules/sessions-and-ledger.md#steering-in-a-tool-batch).
const SKIPPED: &str = "Skipped due to queued user message.";
/// The result of a call that cannot wait for a decision.
const NO_LEDGER: &str = "This tool was not run: the call needs an approval or a result from outside, and waiting for one needs \
    a ledger with `journal: 'full'`.";

/// Admitted calls that wait for their record (W2). Each starts when its sender fires; if that is dropped, it never starts.
#[derive(Default)]
struct Admitted {
    starting: Vec<Starting>,
    starts: Vec<oneshot::Sender<()>>,
}

/// A call's result, and how many of its images no provider accepts.
struct Answered {
    finish: ToolFinish,
    unreadable_images: usize,
}

/// What happened in the batch.
enum Next<'a> {
    /// A call has ended; without a result if the abort, which is handled next, ended it.
    Finished(&'a PendingCall, Option<Answered>),
    /// Nothing else is pending: the new facts are recorded, and then the admitted calls start.
    Quiet,
    /// A write has succeeded or failed.
    Recorded(Result<(), StorageError>, Admitted),
    /// Every call has its result.
    Over,
}

/// How a batch ended.
pub(super) enum BatchEnd {
    /// With the next step.
    Next(Step),
    /// The turn is parked: these calls wait for a decision.
    Parked(Vec<Approval>),
    /// The turn is left open: a call has no result, because the engine or the broker closes.
    Left,
}

impl From<Step> for BatchEnd {
    fn from(step: Step) -> Self {
        Self::Next(step)
    }
}

/// Runs the batch until it ends, the run does, or only calls are left that wait for a decision.
pub(super) async fn run(
    driver: &Driver,
    machine: &mut Machine,
    journal: &mut JournalState,
    calls: Vec<PendingCall>,
    notes: &mut Vec<RunWarning>,
) -> BatchEnd {
    let active = &driver.active;
    let control = &active.run.control;
    let skip = control.open_batch();
    let admissions = AdmissionQueue::new(active.run.context.max_parallel_tools);
    let any = AtomicBool::new(false);
    let admitted = Mutex::new(Admitted::default());
    if driver.host.decides()
        && let JournalState::Open(recorder) = journal
    {
        // The answer is written before the host decides about its calls, which may take long.
        recorder.record_in_background(machine).await;
    }
    // Checked and queued in call order, which is the order of admission.
    let mut queued = Vec::with_capacity(calls.len());
    let mut waiting: Vec<(&PendingCall, Approval)> = Vec::new();
    for call in &calls {
        match active.guard(announced(active, admit(driver, &admissions, machine, call))).await {
            Ok(Ok(Admission::Run(prepared, ticket))) => queued.push((call, Ok((prepared, ticket)))),
            Ok(Ok(Admission::Waits(_))) if !can_park(driver, journal) => {
                queued.push((call, Err(failed(NO_LEDGER.to_owned()))));
            }
            Ok(Ok(Admission::Waits(approval))) => waiting.push((call, *approval)),
            Ok(Ok(Admission::Provided(answer))) => {
                queued.push((call, Err(provided(driver, call, answer))));
            }
            Ok(Err(error)) => queued.push((call, Err(failed(error)))),
            Err(cause) => {
                let step = interrupted(active, machine, cause, &calls);
                control.close_batch();
                return step.into();
            }
        }
    }
    let mut open: FuturesUnordered<_> = queued
        .into_iter()
        .map(|(call, prepared)| {
            let (skip, any, admitted) = (&skip, &any, &admitted);
            async move {
                let started = AtomicBool::new(false);
                let params = prepared.as_ref().ok().and_then(|(prepared, _)| params_of(prepared));
                let begin = async {
                    if any.swap(true, Ordering::AcqRel) && control.is_steered() {
                        // One call of the batch is admitted first; when it starts, the others are skipped.
                        pending::<()>().await;
                    }
                    started.store(true, Ordering::Release);
                    let (go, begins) = oneshot::channel();
                    {
                        let mut admitted = admitted.lock().unwrap_or_else(PoisonError::into_inner);
                        admitted.starting.push(Starting { call_id: call.call_id.clone(), params });
                        admitted.starts.push(go);
                    }
                    let begins = begins.await.is_ok();
                    if begins {
                        control.batch_started();
                    }
                    begins
                };
                let finish = match prepared {
                    Err(answered) => Some(answered),
                    Ok((prepared, ticket)) => tokio::select! {
                        biased;
                        () = skipped(skip.cancelled(), &started) => Some(failed(SKIPPED.to_owned())),
                        finish = run_one(driver, call, prepared, ticket, begin) => finish,
                    },
                };
                (call, finish)
            }
        })
        .collect();
    let mut records = FuturesUnordered::new();
    let mut step = Step::AwaitTools;
    let mut ended = Vec::new();
    loop {
        let due = match &*journal {
            JournalState::Open(recorder) => recorder.is_due(machine),
            JournalState::AtEnd | JournalState::Refused(_) => false,
        };
        let next = active
            .guard(poll_fn(|cx| {
                if let Poll::Ready(next) = open.poll_next_unpin(cx) {
                    return Poll::Ready(match next {
                        Some((call, finish)) => Next::Finished(call, finish),
                        None => Next::Over,
                    });
                }
                let waiting = |admitted: &Mutex<Admitted>| {
                    !admitted.lock().unwrap_or_else(PoisonError::into_inner).starts.is_empty()
                };
                if due || !ended.is_empty() || waiting(&admitted) {
                    return Poll::Ready(Next::Quiet);
                }
                match records.poll_next_unpin(cx) {
                    Poll::Ready(Some((done, admitted))) => {
                        Poll::Ready(Next::Recorded(done, admitted))
                    }
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                }
            }))
            .await;
        match next {
            Ok(Next::Finished(call, _)) if control.leaves_call(&call.call_id) => {
                announce_ends(active, machine, journal, &mut ended).await;
                control.close_batch();
                return BatchEnd::Left;
            }
            Ok(Next::Finished(_, None)) => {}
            Ok(Next::Finished(call, Some(Answered { finish, unreadable_images }))) => {
                notes.extend(unreadable(call, unreadable_images));
                let text = finish.error.clone().or_else(|| first_text(&finish.content));
                let ran = machine.is_running(&call.call_id);
                step = active
                    .feed(machine, Event::ToolFinished { call_id: call.call_id.clone(), finish });
                ended.push(EndedCall { call, ran, text });
            }
            Ok(Next::Quiet) => {
                let admitted =
                    std::mem::take(&mut *admitted.lock().unwrap_or_else(PoisonError::into_inner));
                match journal {
                    JournalState::AtEnd => begin(active, machine, admitted),
                    JournalState::Refused(error) => {
                        let error = error.clone();
                        emit_all(active, machine, &mut ended);
                        if let Some(over) = unrecorded(active, machine, error, admitted, &calls) {
                            step = over;
                            break;
                        }
                    }
                    JournalState::Open(recorder) if admitted.starts.is_empty() => {
                        if due || active.queue.stores() {
                            recorder.record_in_background(machine).await;
                        }
                    }
                    JournalState::Open(recorder) => {
                        let record = recorder.record_before(machine, &admitted.starting).await;
                        records.push(async move { (record.await, admitted) });
                    }
                }
                // Their results are written now, in the transaction of these events or in an earlier one.
                emit_all(active, machine, &mut ended);
            }
            Ok(Next::Recorded(Ok(()), admitted)) => begin(active, machine, admitted),
            Ok(Next::Recorded(Err(error), admitted)) => {
                if let JournalState::Open(recorder) = journal {
                    recorder.write_all_again();
                }
                emit_all(active, machine, &mut ended);
                if let Some(over) = unrecorded(active, machine, error, admitted, &calls) {
                    step = over;
                    break;
                }
            }
            Ok(Next::Over) => {
                announce_ends(active, machine, journal, &mut ended).await;
                break;
            }
            Err(cause) => {
                announce_ends(active, machine, journal, &mut ended).await;
                step = interrupted(active, machine, cause, &calls);
                break;
            }
        }
    }
    let over = machine.outcome().is_some();
    let end = match waiting.as_slice() {
        [_, ..] if !over => wait_for_decisions(driver, machine, journal, &waiting).await,
        [] | [_, ..] => step.into(),
    };
    control.close_batch();
    end
}

/// Parks the turn, or skips the calls that wait because of a queued message.
async fn wait_for_decisions(
    driver: &Driver,
    machine: &mut Machine,
    journal: &mut JournalState,
    waiting: &[(&PendingCall, Approval)],
) -> BatchEnd {
    let active = &driver.active;
    if !active.run.control.park() {
        let mut ended = Vec::new();
        let mut step = Step::AwaitTools;
        for (call, _) in waiting {
            let finish = failed(SKIPPED.to_owned()).finish;
            let text = finish.error.clone();
            let call_id = call.call_id.clone();
            step = active.feed(machine, Event::ToolFinished { call_id, finish });
            ended.push(EndedCall { call, ran: false, text });
        }
        announce_ends(active, machine, journal, &mut ended).await;
        return step.into();
    }
    let approvals: Vec<Approval> = waiting.iter().map(|(_, approval)| approval.clone()).collect();
    match park(driver, machine, journal, &approvals).await {
        Ok(()) => BatchEnd::Parked(approvals),
        Err(error) => {
            active.run.control.unpark();
            active.feed(machine, Event::Broken(storage_error(&error))).into()
        }
    }
}

/// Submits the results of ended calls to the journal, then emits the ends: a stored event refers to its result.
async fn announce_ends(
    active: &ActiveRun,
    machine: &Machine,
    journal: &mut JournalState,
    ended: &mut Vec<EndedCall<'_>>,
) {
    if !ended.is_empty()
        && let JournalState::Open(recorder) = journal
        && active.queue.stores()
    {
        recorder.record_in_background(machine).await;
    }
    emit_all(active, machine, ended);
}

/// Emits the ends of calls, in their order.
fn emit_all(active: &ActiveRun, machine: &Machine, ended: &mut Vec<EndedCall<'_>>) {
    for call in ended.drain(..) {
        emit_ended(&active.queue, machine, call);
    }
}

/// Starts calls.
fn begin(active: &ActiveRun, machine: &mut Machine, admitted: Admitted) {
    for (starting, start) in admitted.starting.into_iter().zip(admitted.starts) {
        let Starting { call_id, params } = starting;
        active.feed(machine, Event::ToolStarted { call_id, params });
        // Its future may have been dropped: the call was cancelled before it started.
        let _ = start.send(());
    }
}

/// Handles calls whose record could not be written: calls without effects start anyway, otherwise the run ends here.
fn unrecorded(
    active: &ActiveRun,
    machine: &mut Machine,
    error: StorageError,
    admitted: Admitted,
    calls: &[PendingCall],
) -> Option<Step> {
    if !needs_record(&error, &active.run.tool_set, machine, &admitted.starting) {
        begin(active, machine, admitted);
        return None;
    }
    let event = Event::Broken(storage_error(&error));
    Some(end_early(active, machine, event, "interrupted", calls))
}

/// The run has ended: aborted, or out of time.
fn interrupted(
    active: &ActiveRun,
    machine: &mut Machine,
    cause: Interrupt,
    calls: &[PendingCall],
) -> Step {
    let reason = match cause {
        Interrupt::Abort => "aborted",
        Interrupt::Timeout | Interrupt::Expired => "interrupted",
    };
    end_early(active, machine, Event::Interrupted { cause, partial: None }, reason, calls)
}

/// Ends the batch early. Started calls are emitted as failed, so that every `started` has its end.
fn end_early(
    active: &ActiveRun,
    machine: &mut Machine,
    event: Event,
    reason: &str,
    calls: &[PendingCall],
) -> Step {
    let running: Vec<&PendingCall> =
        calls.iter().filter(|call| machine.is_running(&call.call_id)).collect();
    let step = active.feed(machine, event);
    for call in running {
        let text = Some(reason.to_owned());
        emit_ended(&active.queue, machine, EndedCall { call, ran: true, text });
    }
    step
}

/// Ready when the batch is skipped and the call has not started; never otherwise.
async fn skipped(cancelled: impl Future<Output = ()>, started: &AtomicBool) {
    cancelled.await;
    if started.load(Ordering::Acquire) {
        pending::<()>().await;
    }
}

/// Runs `check`; if it is slow, the queued records are delivered meanwhile.
async fn announced<T>(active: &ActiveRun, check: impl Future<Output = T>) -> T {
    let mut check = pin!(check);
    let mut is_slow = false;
    poll_fn(|cx| {
        let polled = check.as_mut().poll(cx);
        if polled.is_pending() && !std::mem::replace(&mut is_slow, true) {
            active.queue.flush();
        }
        polled
    })
    .await
}

/// The arguments in the form of the result and the ledger.
fn params_of(prepared: &Prepared) -> Option<Box<RawValue>> {
    RawValue::from_string(prepared.arguments_json.clone()).ok()
}

/// Runs one admitted call. `None` for a call that the abort ended: the run closes it.
async fn run_one(
    driver: &Driver,
    call: &PendingCall,
    prepared: Prepared,
    ticket: Ticket,
    begin: impl Future<Output = bool> + Send,
) -> Option<Answered> {
    let active = &driver.active;
    let run = &active.run;
    let Some(tool) = run.tool_set.tools().get(prepared.index) else {
        return Some(failed(format!("Tool {} not found", call.tool_name)));
    };
    // The batch guards the run's time: a call that it ends stays open for the run
    // (docs/rules/turns-and-streams.md#open-calls-at-the-end).
    let window = Some(run.target.model.context_window);
    let mut limits = Limits::of(tool, driver.tool_timeout, None, window);
    limits.result_chars = policy::result_chars(&run.context.policies, limits.result_chars);
    let invocation = invocation(active, call, prepared.arguments_json);
    let abort = run.control.abort_token();
    let span = telemetry::tool_span(&call.tool_name, &call.call_id);
    let first = if call.reconcile { First::Reconcile } else { First::Run };
    let request = CallRequest { invocation, first };
    let own = recaller(driver, &call.tool_name);
    let host: &dyn ToolHost = own.as_ref().map_or(driver.host.as_ref(), |own| own);
    let host = Announcing::new(host, &active.queue, call);
    let call_tool = async {
        telemetry::tool_began();
        run_call(&host, request, limits, ticket, &abort, begin).await
    };
    let end = call_tool.instrument(span).await;
    let error = match end.ending {
        // Not started and not aborted: its record failed, and the batch ends because of it.
        Ending::Aborted | Ending::NotStarted => return None,
        Ending::Unknown => Some(OUTCOME_UNKNOWN.to_owned()),
        Ending::Completed | Ending::Failed | Ending::TimedOut => {
            end.answer.is_error.then(|| end.answer.message())
        }
    };
    let unreadable_images = end.unreadable_images;
    let finish = ToolFinish {
        content: end.answer.content,
        result: end.answer.result_json,
        error,
        spawned_session_label: end.answer.spawned_session_label,
    };
    Some(Answered { finish, unreadable_images })
}

/// The engine as the host of `tool`, where the engine runs that tool.
fn recaller(driver: &Driver, tool: &str) -> Option<Recaller> {
    let journal = driver.active.shared.journal.as_ref()?;
    (driver.recalls && tool == RECALL).then(|| Recaller::new(journal, &driver.active.run))
}

/// A call whose result was provided from outside.
fn provided(driver: &Driver, call: &PendingCall, mut answer: ToolAnswer) -> Answered {
    let run = &driver.active.run;
    let window = Some(run.target.model.context_window);
    let most = policy::result_chars(&run.context.policies, tools::result_cap(window));
    let unreadable_images = answer.cap(most);
    let error = answer.is_error.then(|| {
        let text = answer.message();
        if text.is_empty() { format!("`{}` failed", call.tool_name) } else { text }
    });
    let finish = ToolFinish {
        content: answer.content,
        result: answer.result_json,
        error,
        spawned_session_label: None,
    };
    Answered { finish, unreadable_images }
}

/// A call that never started: the model reads the error.
fn failed(error: String) -> Answered {
    let content = vec![Block::text(&error)];
    let finish =
        ToolFinish { content, result: None, error: Some(error), spawned_session_label: None };
    Answered { finish, unreadable_images: 0 }
}

fn first_text(content: &[Block]) -> Option<String> {
    content.iter().find_map(Block::as_text).map(ToOwned::to_owned)
}
