//! Functions of the host that answer MCP servers: a request is a record of the environment's queue, and the answer is returned by its
//! number.
//!
//! It must never hold a JavaScript value.

use std::sync::{Arc, Weak};

use serde::Serialize;
use serde_json::value::RawValue;

use super::answers::Answers;
use crate::node::hub::HubCore;
use mcp::{ClientAnswer, ClientHost};

/// The answer to a server: its JSON, or why there is none.
pub(in crate::node) type ClientAnswers = Answers<Result<Box<RawValue>, String>>;

#[derive(Serialize)]
struct Question<'a> {
    /// The engine's number in its environment.
    keys: u32,
    number: u32,
    /// The number of the function.
    profile: u32,
    ask: &'a RawValue,
}

/// The functions of one engine.
pub(in crate::node) struct JsClientHost {
    /// Weak: the hub refers to the queues of engines, and outlives them.
    pub(in crate::node) hub: Weak<HubCore>,
    pub(in crate::node) keys: u32,
    pub(in crate::node) answers: Arc<ClientAnswers>,
}

/// Removes a request when its answer is no longer needed.
struct PendingRequest {
    answers: Arc<ClientAnswers>,
    number: u32,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl ClientHost for JsClientHost {
    fn answer(&self, function: u32, request: String) -> ClientAnswer {
        let (number, answer) = self.answers.expect();
        let pending = PendingRequest { answers: Arc::clone(&self.answers), number };
        if let (Some(hub), Ok(ask)) = (self.hub.upgrade(), RawValue::from_string(request)) {
            let question = Question { keys: self.keys, number, profile: function, ask: &ask };
            hub.reply(&serde_json::to_string(&question).unwrap_or_default());
        }
        Box::pin(async move {
            let _pending = pending;
            answer.await.unwrap_or_else(|_| Err("the client has ended".to_owned()))
        })
    }
}
