//! A host's `onRequest` that lives in JavaScript: a request goes out as a record of the run's queue, the body to send
//! comes back by number.
//!
//! It must never hold a JavaScript value.

use std::sync::Arc;

use serde::Serialize;

use super::answers::Answers;
use crate::engine::{EventQueue, RECORD_BYTES, RecordKind};
use crate::provider::{Looked, OutgoingRequest, RequestHost};

/// What JavaScript made of a body: nothing, another one, or an error's words.
pub(super) type RequestAnswers = Answers<Result<Option<String>, String>>;

#[derive(Serialize)]
struct Shown<'a> {
    number: u32,
    request: &'a OutgoingRequest<'a>,
}

/// The `onRequest` of one run.
pub(super) struct JsRequestHost {
    pub(super) queue: Arc<EventQueue>,
    pub(super) answers: Arc<RequestAnswers>,
}

/// Forgets a question when nobody waits for its answer any more.
struct Asked {
    answers: Arc<RequestAnswers>,
    number: u32,
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl RequestHost for JsRequestHost {
    fn look(&self, request: &OutgoingRequest<'_>) -> Looked {
        let (number, answer) = self.answers.expect();
        let asked = Asked { answers: Arc::clone(&self.answers), number };
        let shown = serde_json::to_string(&Shown { number, request }).unwrap_or_default();
        if shown.len() > RECORD_BYTES {
            let message =
                format!("the request of `{}` bytes is too large to be shown", shown.len());
            return Box::pin(async move { Err(message) });
        }
        self.queue.host(RecordKind::Request, &shown);
        Box::pin(async move {
            let _asked = asked;
            answer.await.unwrap_or_else(|_| Err("its host is gone".to_owned()))
        })
    }
}
