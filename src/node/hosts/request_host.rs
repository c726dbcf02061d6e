//! The host's `onRequest` in JavaScript: a request is a record of the run's queue, or of the environment's queue where
//! there is no run; the body to send is returned by its number.
//!
//! It must never hold a JavaScript value.

use std::sync::{Arc, Weak};

use serde::Serialize;

use super::answers::RequestAnswers;
use crate::engine::{EventQueue, RECORD_BYTES, RecordKind};
use crate::node::hub::HubCore;
use provider::{Inspected, OutgoingRequest, RequestHost};

#[derive(Serialize)]
struct Shown<'a> {
    number: u32,
    request: &'a OutgoingRequest<'a>,
    /// The request of JavaScript to which it belongs, where there is no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<u32>,
}

/// The owner of an `onRequest`.
pub(in crate::node) enum Asker {
    /// A run.
    Run(Arc<EventQueue>),
    /// The request of this number: a compaction, or a count. Weak: the hub outlives every engine.
    Request(Weak<HubCore>, u32),
}

/// The `onRequest` of one run, compaction or count.
pub(in crate::node) struct JsRequestHost {
    pub(in crate::node) asker: Asker,
    pub(in crate::node) answers: Arc<RequestAnswers>,
}

/// Removes a request when its answer is no longer needed.
struct PendingRequest {
    answers: Arc<RequestAnswers>,
    number: u32,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl RequestHost for JsRequestHost {
    fn inspect(&self, request: &OutgoingRequest<'_>) -> Inspected {
        let (number, answer) = self.answers.expect();
        let pending = PendingRequest { answers: Arc::clone(&self.answers), number };
        let hook = match &self.asker {
            Asker::Run(_) => None,
            Asker::Request(_, id) => Some(*id),
        };
        let shown = serde_json::to_string(&Shown { number, request, hook }).unwrap_or_default();
        if shown.len() > RECORD_BYTES {
            let message =
                format!("the request of `{}` bytes is too large to be shown", shown.len());
            return Box::pin(async move { Err(message) });
        }
        match &self.asker {
            Asker::Run(queue) => queue.host(RecordKind::Request, &shown),
            Asker::Request(hub, _) => match hub.upgrade() {
                Some(hub) => hub.reply(&shown),
                None => drop(self.answers.take(number)),
            },
        }
        Box::pin(async move {
            let _pending = pending;
            answer.await.unwrap_or_else(|_| Err("its JavaScript environment has ended".to_owned()))
        })
    }
}
