//! One batch of tool calls: all of one assistant message, side by side where they may be, told as they go.
//!
//! It owns the events of the batch and the skipping of what has not begun (docs/rules/sessions-and-ledger.md#steering-in-a-tool-batch). Running a
//! tool is `tools`' work; that each call is answered once is the machine's.

use std::future::{Future, pending, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use base::telemetry::Instrument as _;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::driver::Run;
use super::outcome;
use super::record::{Starting, Writing, bars};
use super::session::storage_error;
use crate::tools::{
    Ending, First, Gate, Invocation, Limits, Prepared, ReconcileFuture, Ticket, ToolFuture,
    ToolHost, run_call,
};
use base::telemetry;
use model::{Block, OUTCOME_UNKNOWN, RunWarning, StorageError, StreamEvent, ToolStatus};
use turn::machine::{Event, Interrupt, Machine, PendingCall, Step, ToolFinish};

/// What a skipped call answers (docs/rules/sessions-and-ledger.md#steering-in-a-tool-batch).
const SKIPPED: &str = "Skipped due to queued user message.";

/// Calls that were admitted and wait for their record (W2). Each begins when it is told to; dropped, it never does.
#[derive(Default)]
struct Admitted {
    starting: Vec<Starting>,
    gates: Vec<oneshot::Sender<()>>,
}

/// A call's answer, and how many of its images no provider reads.
struct Answered {
    finish: ToolFinish,
    unreadable_images: usize,
}

/// What the batch is woken for.
enum Next<'a> {
    /// A call has its answer; none where the abort, which is seen next, ends it.
    Finished(&'a PendingCall, Option<Answered>),
    /// Nothing more happens by itself: what has happened is to be written, and who was admitted may begin then.
    Quiet,
    /// A record is on disk, or is not.
    Recorded(Result<(), StorageError>, Admitted),
    /// Every call is answered.
    Over,
}

/// Runs the batch to its end, or to the run's.
pub(crate) async fn run(
    run: &Run,
    machine: &mut Machine,
    writing: &mut Writing,
    calls: Vec<PendingCall>,
    notes: &mut Vec<RunWarning>,
) -> Step {
    let skip = run.control.open_batch();
    let gate = Gate::default();
    let any = AtomicBool::new(false);
    let admitted = Mutex::new(Admitted::default());
    // Checked and queued in call order, which is the order of admission.
    let mut queued = Vec::with_capacity(calls.len());
    for call in &calls {
        match run.guard(admit(run, &gate, call)).await {
            Ok(prepared) => queued.push((call, prepared)),
            Err(cause) => {
                let step = interrupted(run, machine, cause, &calls);
                run.control.close_batch();
                return step;
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
                    if any.swap(true, Ordering::AcqRel) && run.control.is_steered() {
                        // One call of the batch goes first; when it begins, the others are skipped.
                        pending::<()>().await;
                    }
                    started.store(true, Ordering::Release);
                    let (go, told) = oneshot::channel();
                    {
                        let mut admitted = admitted.lock().unwrap_or_else(PoisonError::into_inner);
                        admitted.starting.push(Starting { call_id: call.call_id.clone(), params });
                        admitted.gates.push(go);
                    }
                    let begins = told.await.is_ok();
                    if begins {
                        run.control.batch_started();
                    }
                    begins
                };
                let finish = match prepared {
                    Err(told) => Some(failed(told)),
                    Ok((prepared, ticket)) => tokio::select! {
                        biased;
                        () = skipped(skip.cancelled(), &started) => Some(failed(SKIPPED.to_owned())),
                        finish = one(run, call, prepared, ticket, begin) => finish,
                    },
                };
                (call, finish)
            }
        })
        .collect();
    let mut records = FuturesUnordered::new();
    let mut step = Step::AwaitTools;
    loop {
        let due = match &*writing {
            Writing::Open(recorder) => recorder.is_due(machine),
            Writing::AtEnd | Writing::Refused(_) => false,
        };
        let next = run
            .guard(poll_fn(|cx| {
                if let Poll::Ready(next) = open.poll_next_unpin(cx) {
                    return Poll::Ready(match next {
                        Some((call, finish)) => Next::Finished(call, finish),
                        None => Next::Over,
                    });
                }
                let waiting = |admitted: &Mutex<Admitted>| {
                    !admitted.lock().unwrap_or_else(PoisonError::into_inner).gates.is_empty()
                };
                if due || waiting(&admitted) {
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
            Ok(Next::Finished(_, None)) => {}
            Ok(Next::Finished(call, Some(Answered { finish, unreadable_images }))) => {
                notes.extend(unreadable(call, unreadable_images));
                let status =
                    if finish.error.is_some() { ToolStatus::Failed } else { ToolStatus::Completed };
                let text = finish.error.clone().or_else(|| first_text(&finish.content));
                step = run
                    .feed(machine, Event::ToolFinished { call_id: call.call_id.clone(), finish });
                tell(run, call, status, text.as_deref().and_then(outcome::summary));
            }
            Ok(Next::Quiet) => {
                let admitted =
                    std::mem::take(&mut *admitted.lock().unwrap_or_else(PoisonError::into_inner));
                match writing {
                    Writing::AtEnd => begin(run, machine, admitted),
                    Writing::Refused(error) => {
                        let error = error.clone();
                        if let Some(over) = unrecorded(run, machine, error, admitted, &calls) {
                            step = over;
                            break;
                        }
                    }
                    Writing::Open(recorder) if admitted.gates.is_empty() => {
                        recorder.aside(machine).await;
                    }
                    Writing::Open(recorder) => {
                        let record = recorder.before(machine, &admitted.starting).await;
                        records.push(async move { (record.await, admitted) });
                    }
                }
            }
            Ok(Next::Recorded(Ok(()), admitted)) => begin(run, machine, admitted),
            Ok(Next::Recorded(Err(error), admitted)) => {
                if let Writing::Open(recorder) = writing {
                    recorder.forget();
                }
                if let Some(over) = unrecorded(run, machine, error, admitted, &calls) {
                    step = over;
                    break;
                }
            }
            Ok(Next::Over) => break,
            Err(cause) => {
                step = interrupted(run, machine, cause, &calls);
                break;
            }
        }
    }
    run.control.close_batch();
    step
}

impl Run {
    /// The limit of a tool that names none.
    pub(crate) fn tool_timeout(&self) -> Option<Duration> {
        self.context.tool_timeout_ms.or(self.core.tool_timeout_ms).map(Duration::from_millis)
    }
}

/// Lets calls begin.
fn begin(run: &Run, machine: &mut Machine, admitted: Admitted) {
    for (starting, gate) in admitted.starting.into_iter().zip(admitted.gates) {
        let Starting { call_id, params } = starting;
        run.feed(machine, Event::ToolStarted { call_id, params });
        // Its future may be gone: it was withdrawn before it began.
        let _ = gate.send(());
    }
}

/// Calls whose record could not be written: without effects they begin all the same, else the run ends here.
fn unrecorded(
    run: &Run,
    machine: &mut Machine,
    error: StorageError,
    admitted: Admitted,
    calls: &[PendingCall],
) -> Option<Step> {
    if !bars(&error, &run.tool_set, machine, &admitted.starting) {
        begin(run, machine, admitted);
        return None;
    }
    let event = Event::Broken(storage_error(&error));
    Some(end_early(run, machine, event, "interrupted", calls))
}

/// The run is over: aborted, or out of time.
fn interrupted(run: &Run, machine: &mut Machine, cause: Interrupt, calls: &[PendingCall]) -> Step {
    let reason = match cause {
        Interrupt::Abort => "aborted",
        Interrupt::Timeout => "interrupted",
    };
    end_early(run, machine, Event::Interrupted { cause, partial: None }, reason, calls)
}

/// Ends the batch early. Calls that had begun are told as failed, so that no `started` stays without its end.
fn end_early(
    run: &Run,
    machine: &mut Machine,
    event: Event,
    reason: &str,
    calls: &[PendingCall],
) -> Step {
    let running: Vec<&PendingCall> =
        calls.iter().filter(|call| machine.is_running(&call.call_id)).collect();
    let step = run.feed(machine, event);
    for call in running {
        tell(run, call, ToolStatus::Failed, Some(reason.to_owned()));
    }
    step
}

/// Ready when the batch is skipped and the call has not begun; never otherwise.
async fn skipped(cancelled: impl Future<Output = ()>, started: &AtomicBool) {
    cancelled.await;
    if started.load(Ordering::Acquire) {
        pending::<()>().await;
    }
}

/// Checks a call and queues it.
async fn admit(run: &Run, gate: &Gate, call: &PendingCall) -> Result<(Prepared, Ticket), String> {
    let prepared = run.tool_set.prepare(&call.tool_name, &call.arguments_json).await?;
    let mode = run
        .tool_set
        .tools()
        .get(prepared.index)
        .map(|tool| tool.execution_mode)
        .unwrap_or_default();
    Ok((prepared, gate.queue(mode)))
}

/// The arguments as the result and the ledger keep them.
fn params_of(prepared: &Prepared) -> Option<Box<RawValue>> {
    RawValue::from_string(prepared.arguments_json.clone()).ok()
}

/// Runs one call that was admitted. Nothing comes of one that the abort cut short: the run leaves it open, and closes it.
async fn one(
    run: &Run,
    call: &PendingCall,
    prepared: Prepared,
    ticket: Ticket,
    begin: impl Future<Output = bool> + Send,
) -> Option<Answered> {
    let Some(tool) = run.tool_set.tools().get(prepared.index) else {
        return Some(failed(format!("Tool {} not found", call.tool_name)));
    };
    // The run's own time is the batch's guard: a call that it ends is one the run leaves open (docs/rules/turns-and-streams.md#open-calls-at-the-end).
    let limits = Limits::of(tool, run.tool_timeout(), None, Some(run.model.context_window));
    let invocation = Invocation {
        call_id: call.call_id.clone(),
        provider_call_id: call.provider_call_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments_json: prepared.arguments_json,
    };
    let abort = run.control.abort_token();
    let span = telemetry::tool_span(&call.tool_name, &call.call_id);
    let first = if call.reconcile { First::Reconcile } else { First::Run };
    let asked = (invocation, first);
    let own = run.recaller(&call.tool_name);
    let host: &dyn ToolHost = own.as_ref().map_or(run.host.as_ref(), |own| own);
    let host = Announcing { host, run, call, announced: AtomicBool::new(false) };
    let end = run_call(&host, asked, limits, ticket, &abort, begin).instrument(span).await;
    let error = match end.ending {
        // Not begun without an abort: its record was refused, and the batch ends for it.
        Ending::Aborted | Ending::NotStarted => return None,
        Ending::Unknown => Some(OUTCOME_UNKNOWN.to_owned()),
        Ending::Completed | Ending::Failed | Ending::TimedOut => {
            end.answer.is_error.then(|| end.answer.message())
        }
    };
    let unreadable_images = end.unreadable_images;
    let finish = ToolFinish { content: end.answer.content, result: end.answer.result_json, error };
    Some(Answered { finish, unreadable_images })
}

/// What the host is told of images that were left out of an answer.
fn unreadable(call: &PendingCall, images: usize) -> Option<RunWarning> {
    (images > 0).then(|| RunWarning {
        code: "unusable_image".to_owned(),
        field: None,
        message: format!(
            "`{}` returned {images} images whose data is not base64; the model was told so instead",
            call.tool_name
        ),
    })
}

/// Emits `started` when the tool itself is about to run, and not for one that is only asked what became of a call.
struct Announcing<'a> {
    host: &'a dyn ToolHost,
    run: &'a Run,
    call: &'a PendingCall,
    /// A retry is no second start.
    announced: AtomicBool,
}

impl ToolHost for Announcing<'_> {
    fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture {
        if !self.announced.swap(true, Ordering::AcqRel) {
            tell(self.run, self.call, ToolStatus::Started, None);
        }
        self.host.execute(invocation, cancel)
    }

    fn reconcile(&self, invocation: Invocation, cancel: CancellationToken) -> ReconcileFuture {
        self.host.reconcile(invocation, cancel)
    }
}

/// A call that never began: what the model is told is the error.
fn failed(told: String) -> Answered {
    let error = Some(told.clone());
    let finish = ToolFinish { content: vec![Block::text(told)], result: None, error };
    Answered { finish, unreadable_images: 0 }
}

fn first_text(content: &[Block]) -> Option<String> {
    content.iter().find_map(Block::as_text).map(ToOwned::to_owned)
}

fn tell(run: &Run, call: &PendingCall, status: ToolStatus, summary: Option<String>) {
    run.queue.event(|seq| StreamEvent::ToolStatus {
        tool_name: call.tool_name.clone(),
        tool_call_id: call.provider_call_id.clone(),
        status,
        summary,
        message_id: call.message_id.clone(),
        seq,
    });
}
