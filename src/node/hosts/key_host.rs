//! Keys from functions of the host: a request is a record of the environment's queue, and the key is returned by its number.
//!
//! It must never hold a JavaScript value, or put a key into a record.

use std::sync::{Arc, Weak};

use serde::Serialize;

use super::answers::Answers;
use crate::node::hub::HubCore;
use provider::{HostKey, KeyFuture, KeyHost};

/// The answer to a key request: a key, or the message of an error.
pub(in crate::node) type KeyAnswers = Answers<Result<HostKey, String>>;

#[derive(Serialize)]
struct Question<'q> {
    /// The engine's number in its environment.
    keys: u32,
    number: u32,
    profile: u32,
    refused: bool,
    /// What a server wants, by its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<&'q str>,
}

/// The key functions of one engine.
pub(in crate::node) struct JsKeyHost {
    /// Weak: the hub refers to the queues of engines, and outlives them.
    pub(in crate::node) hub: Weak<HubCore>,
    pub(in crate::node) keys: u32,
    pub(in crate::node) answers: Arc<KeyAnswers>,
}

/// Removes a request when its answer is no longer needed.
struct PendingRequest {
    answers: Arc<KeyAnswers>,
    number: u32,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl KeyHost for JsKeyHost {
    fn key(&self, profile: u32, refused: bool, challenge: Option<&str>) -> KeyFuture {
        let (number, answer) = self.answers.expect();
        let pending = PendingRequest { answers: Arc::clone(&self.answers), number };
        if let Some(hub) = self.hub.upgrade() {
            let question = Question { keys: self.keys, number, profile, refused, challenge };
            hub.reply(&serde_json::to_string(&question).unwrap_or_default());
        }
        Box::pin(async move {
            let _pending = pending;
            answer.await.unwrap_or_else(|_| Err("its JavaScript environment has ended".to_owned()))
        })
    }
}
