//! One batch of tool calls: all of one assistant message, side by side where they may be, told as they go.
//!
//! It owns the events of the batch and the skipping of what has not begun (RULES §5, "Steer in a tool batch"). Running a
//! tool is `tools`' work; that each call is answered once is the machine's.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::telemetry::Instrument as _;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;

use super::driver::Run;
use super::outcome;
use crate::model::{Block, StreamEvent, ToolStatus};
use crate::telemetry;
use crate::tools::{Gate, Invocation, Limits, Prepared, Ticket, run_call};
use crate::turn::machine::{Event, Interrupt, Machine, PendingCall, Step, ToolFinish};

/// What a skipped call answers (RULES §5).
const SKIPPED: &str = "Skipped due to queued user message.";

/// Runs the batch to its end, or to the run's.
pub(crate) async fn run(run: &Run, machine: &mut Machine, calls: Vec<PendingCall>) -> Step {
    let skip = run.control.open_batch();
    let gate = Gate::default();
    let begun = Mutex::new(Vec::new());
    // Queued in call order: the order of admission (RULES §1, "Tool execution").
    let queued: Vec<_> = calls.iter().map(|call| (call, admit(run, &gate, call))).collect();
    let mut open: FuturesUnordered<_> = queued
        .into_iter()
        .map(|(call, admitted)| {
            let (skip, begun) = (&skip, &begun);
            async move {
                let started = AtomicBool::new(false);
                let params = admitted.as_ref().ok().and_then(|(prepared, _)| params_of(prepared));
                let on_start = || {
                    started.store(true, Ordering::Release);
                    begun
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((call.call_id.clone(), params));
                    tell(run, call, ToolStatus::Started, None);
                    run.control.batch_started();
                };
                let finish = match admitted {
                    Err(told) => failed(told),
                    Ok((prepared, ticket)) => tokio::select! {
                        biased;
                        () = skipped(skip.cancelled(), &started) => failed(SKIPPED.to_owned()),
                        finish = one(run, call, prepared, ticket, on_start) => finish,
                    },
                };
                (call, finish)
            }
        })
        .collect();
    let mut step = Step::AwaitTools;
    loop {
        let next = run.guard(open.next()).await;
        for (call_id, params) in begun.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            run.feed(machine, Event::ToolStarted { call_id, params });
        }
        match next {
            Ok(Some((call, finish))) => {
                let status =
                    if finish.error.is_some() { ToolStatus::Failed } else { ToolStatus::Completed };
                let text = finish.error.clone().or_else(|| first_text(&finish.content));
                step = run
                    .feed(machine, Event::ToolFinished { call_id: call.call_id.clone(), finish });
                tell(run, call, status, text.as_deref().and_then(outcome::summary));
            }
            Ok(None) => break,
            Err(cause) => {
                step = interrupted(run, machine, cause, &calls);
                break;
            }
        }
    }
    run.control.close_batch();
    step
}

/// Ends the batch early. Calls that had begun are told as failed, so that no `started` stays without its end.
fn interrupted(run: &Run, machine: &mut Machine, cause: Interrupt, calls: &[PendingCall]) -> Step {
    let running: Vec<&PendingCall> =
        calls.iter().filter(|call| machine.is_running(&call.call_id)).collect();
    let reason = match cause {
        Interrupt::Abort => "aborted",
        Interrupt::Timeout => "interrupted",
    };
    let step = run.feed(machine, Event::Interrupted { cause, partial: None });
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
fn admit(run: &Run, gate: &Gate, call: &PendingCall) -> Result<(Prepared, Ticket), String> {
    let prepared = run.tool_set.prepare(&call.tool_name, &call.arguments_json)?;
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

/// Runs one call that was admitted.
async fn one(
    run: &Run,
    call: &PendingCall,
    prepared: Prepared,
    ticket: Ticket,
    on_start: impl FnOnce() + Send,
) -> ToolFinish {
    let Some(tool) = run.tool_set.tools().get(prepared.index) else {
        return failed(format!("Tool {} not found", call.tool_name));
    };
    // The run's own time is the batch's guard: a call that it ends is one the run leaves open (RULES §1).
    let limits = Limits::of(tool, run.tool_timeout(), None, Some(run.model.context_window));
    let invocation = Invocation {
        call_id: call.call_id.clone(),
        provider_call_id: call.provider_call_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments_json: prepared.arguments_json,
    };
    let abort = run.control.abort_token();
    let span = telemetry::tool_span(&call.tool_name, &call.call_id);
    let end = run_call(run.host.as_ref(), invocation, limits, ticket, &abort, on_start)
        .instrument(span)
        .await;
    let error = end.answer.is_error.then(|| end.answer.message());
    ToolFinish { content: end.answer.content, result: end.answer.result_json, error }
}

/// A call that never began: what the model is told is the error.
fn failed(told: String) -> ToolFinish {
    let error = Some(told.clone());
    ToolFinish { content: vec![Block::text(told)], result: None, error }
}

fn first_text(content: &[Block]) -> Option<String> {
    content.iter().find_map(|block| match block {
        Block::Text { text, .. } => Some(text.clone()),
        Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => None,
    })
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
