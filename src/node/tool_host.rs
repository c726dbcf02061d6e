//! Tools that live in JavaScript: a call goes out as a record of the run's queue, its answer comes back by id.
//!
//! It must never hold a JavaScript value: those stay in `index.js`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::{EventQueue, RecordKind};
use crate::model::Block;
use crate::tools::{Invocation, ToolAnswer, ToolFuture, ToolHost};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
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

/// The calls of one run that JavaScript has not answered yet.
#[derive(Default)]
pub(super) struct ToolAnswers {
    waiting: Mutex<HashMap<String, oneshot::Sender<ToolAnswer>>>,
}

impl ToolAnswers {
    /// Hands an answer to whoever waits; a late one is dropped (RULES §6, "Abort").
    pub(super) fn answer(&self, call_id: &str, json: &str) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(call_id);
        let Some(waiting) = waiting else { return };
        let answer = serde_json::from_str::<Answer>(json).map_or_else(
            |error| failed(&format!("the tool's answer could not be read: {error}")),
            |answer| ToolAnswer {
                content: answer.content,
                result_json: answer.result_json.and_then(|text| RawValue::from_string(text).ok()),
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
    call_id: &'a str,
    answered: bool,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.host
                .answers
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(self.call_id);
            self.host.queue.host(RecordKind::ToolCancel, self.call_id);
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
            let (send, answer) = oneshot::channel();
            host.answers
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(invocation.call_id.clone(), send);
            let mut outstanding =
                Outstanding { host: &host, call_id: &invocation.call_id, answered: false };
            let request = Request {
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
