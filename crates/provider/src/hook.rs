//! The request hook: the host inspects a request before it is sent, and may replace the body.
//!
//! It must never show a header: headers contain the keys.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use model::{Api, CallPurpose, Failure, FailureKind};

/// A request as the host sees it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct OutgoingRequest<'a> {
    /// The provider's name among the engine's.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
    /// The API that the body is written for.
    pub api: Api,
    /// The URL; the values of a query are left out, because one may be a key.
    pub url: &'a str,
    /// The body, in the form of the provider's API.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, any>"))]
    pub body: &'a RawValue,
    /// The purpose: an answer of the run, a summary of its session, a count of tokens, or vectors or facts for the memory.
    pub purpose: CallPurpose,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The run; for a manual compaction, the one that its turn is stored with; `system:memory` for the memory.
    pub run_id: &'a str,
}

/// The outcome of an inspection: `None` sends the body unchanged, a text is the JSON object to send instead; an error is the
/// reason why the request must not be sent.
pub type Inspected = Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send>>;

/// A host that inspects requests. Implemented at the JavaScript boundary.
pub trait RequestHost: Send + Sync {
    /// Passes one request to the host. A dropped future means that its result is not needed any more.
    fn inspect(&self, request: &OutgoingRequest<'_>) -> Inspected;
}

/// A host, and the data it receives beside the request.
#[derive(Clone)]
pub struct RequestHook {
    /// The host that inspects.
    pub host: Arc<dyn RequestHost>,
    /// See [`OutgoingRequest::provider`].
    pub provider: String,
    /// See [`OutgoingRequest::run_id`].
    pub run_id: String,
    /// See [`OutgoingRequest::attempt`].
    pub attempt: u32,
    /// See [`OutgoingRequest::purpose`].
    pub purpose: CallPurpose,
}

/// The request that the hook applies to.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookedRequest<'a> {
    pub(super) api: Api,
    pub(super) model: &'a str,
    /// Without keys.
    pub(super) url: &'a str,
}

impl fmt::Debug for RequestHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHook").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl RequestHook {
    /// The pieces to send: the given ones, or the host's replacement.
    ///
    /// # Errors
    /// `on_request_failed`, never retried: the host refused, or did not answer with a JSON object.
    pub(super) async fn apply(
        &self,
        request: HookedRequest<'_>,
        pieces: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, Failure> {
        let body = String::from_utf8(pieces.concat()).ok();
        let body = body.and_then(|body| RawValue::from_string(body).ok());
        let body = body.ok_or_else(|| failed("the body is not JSON"))?;
        let inspected = self.host.inspect(&OutgoingRequest {
            provider: &self.provider,
            model: request.model,
            api: request.api,
            url: request.url,
            body: &body,
            purpose: self.purpose,
            attempt: self.attempt,
            run_id: &self.run_id,
        });
        match inspected.await {
            Ok(None) => Ok(pieces),
            Ok(Some(json)) if super::json::is_object(&json) => Ok(vec![Bytes::from(json)]),
            Ok(Some(_)) => Err(failed("it returned something that is not a JSON object")),
            Err(why) => Err(failed(&why)),
        }
    }
}

fn failed(why: &str) -> Failure {
    Failure {
        should_retry: Some(false),
        ..Failure::new(
            FailureKind::Format,
            "on_request_failed",
            format!("`onRequest` failed, and the request was not sent: {why}"),
        )
    }
}
