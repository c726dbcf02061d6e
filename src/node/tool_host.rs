//! Tools that live in JavaScript: a call goes out as a record of the run's queue, its answer comes back by id.
//!
//! It must never hold a JavaScript value: those stay in `index.js`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::{EventQueue, RecordKind};
use crate::model::{Block, repair_text};
use crate::tools::{Invocation, ToolAnswer, ToolFuture, ToolHost};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    execution: u32,
    call_id: &'a str,
    tool_call_id: &'a str,
    name: &'a str,
    arguments: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    content: Vec<Block>,
    #[serde(default)]
    result_json: Option<String>,
    is_error: bool,
}

/// The executions of one run that JavaScript has not answered yet, by their number: a call that is tried again has
/// another number each time, so that a late answer of the first try never stands in for the second.
#[derive(Default)]
pub(super) struct ToolAnswers {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last: u32,
    senders: HashMap<u32, oneshot::Sender<ToolAnswer>>,
}

impl ToolAnswers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new execution: its number, and where its answer comes.
    fn expect(&self) -> (u32, oneshot::Receiver<ToolAnswer>) {
        let (send, answer) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last = waiting.last.wrapping_add(1);
        let execution = waiting.last;
        waiting.senders.insert(execution, send);
        (execution, answer)
    }

    /// Hands an answer to whoever waits; a late one is dropped (RULES §6, "Abort"). Lone surrogate halves, which a cut
    /// through a JavaScript string leaves, become U+FFFD.
    pub(super) fn answer(&self, execution: u32, json: &str) {
        let waiting = self.lock().senders.remove(&execution);
        let Some(waiting) = waiting else { return };
        let answer = serde_json::from_str::<Answer>(&repair_text(json)).map_or_else(
            |error| failed(&format!("the tool's answer could not be read: {error}")),
            |answer| ToolAnswer {
                content: answer.content,
                result_json: answer
                    .result_json
                    .and_then(|text| RawValue::from_string(repair_text(&text).into_owned()).ok()),
                is_error: answer.is_error,
            },
        );
        // The run may have ended while the tool worked; then nobody waits.
        let _ = waiting.send(answer);
    }
}

/// The tools of one run.
#[derive(Clone)]
pub(super) struct JsToolHost {
    pub(super) queue: Arc<EventQueue>,
    pub(super) answers: Arc<ToolAnswers>,
}

/// Tells JavaScript that a call is not waited for any more, unless it was answered.
struct Outstanding<'a> {
    host: &'a JsToolHost,
    execution: u32,
    answered: bool,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.host.answers.lock().senders.remove(&self.execution);
            self.host.queue.host(RecordKind::ToolCancel, &self.execution.to_string());
        }
    }
}

impl ToolHost for JsToolHost {
    fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture {
        let host = self.clone();
        Box::pin(async move {
            let Ok(arguments) = serde_json::from_str::<&RawValue>(&invocation.arguments_json)
            else {
                return failed("the arguments are not JSON");
            };
            let (execution, answer) = host.answers.expect();
            let mut outstanding = Outstanding { host: &host, execution, answered: false };
            let request = Request {
                execution,
                call_id: &invocation.call_id,
                tool_call_id: &invocation.provider_call_id,
                name: &invocation.tool_name,
                arguments,
            };
            let json = serde_json::to_string(&request).unwrap_or_default();
            host.queue.host(RecordKind::Tool, &json);
            let answer = tokio::select! {
                biased;
                answer = answer => answer,
                () = cancel.cancelled() => return failed("the tool was cancelled"),
            };
            outstanding.answered = answer.is_ok();
            answer.unwrap_or_else(|_| failed("the tool's host is gone"))
        })
    }
}

fn failed(message: &str) -> ToolAnswer {
    ToolAnswer { content: vec![Block::text(message)], result_json: None, is_error: true }
}
