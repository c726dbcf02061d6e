//! Keys that a host's functions give: a question goes out through the environment's queue, the key comes back by number.
//!
//! It must never hold a JavaScript value, or put a key into a record.

use std::sync::{Arc, Weak};

use serde::Serialize;

use super::answers::Answers;
use super::hub::HubCore;
use provider::{HostKey, KeyFuture, KeyHost};

/// The answer to a question: a key, or an error's message.
pub(super) type KeyAnswers = Answers<Result<HostKey, String>>;

#[derive(Serialize)]
struct Question {
    /// The engine's number in its environment.
    keys: u32,
    number: u32,
    profile: u32,
    refused: bool,
}

/// The key functions of one engine.
pub(super) struct JsKeyHost {
    /// Weak: the hub holds engines' queues, and outlives them all.
    pub(super) hub: Weak<HubCore>,
    pub(super) keys: u32,
    pub(super) answers: Arc<KeyAnswers>,
}

/// Forgets a question when nobody waits for its answer any more.
struct Asked {
    answers: Arc<KeyAnswers>,
    number: u32,
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl KeyHost for JsKeyHost {
    fn key(&self, profile: u32, refused: bool) -> KeyFuture {
        let (number, answer) = self.answers.expect();
        let asked = Asked { answers: Arc::clone(&self.answers), number };
        if let Some(hub) = self.hub.upgrade() {
            let question = Question { keys: self.keys, number, profile, refused };
            hub.reply(&serde_json::to_string(&question).unwrap_or_default());
        }
        Box::pin(async move {
            let _asked = asked;
            answer.await.unwrap_or_else(|_| Err("its host is gone".to_owned()))
        })
    }
}
