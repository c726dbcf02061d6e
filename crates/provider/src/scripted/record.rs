//! The requests of a scripted provider, for assertions. Bounded; it must never hold a key.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ModelRequest;

/// One recorded request.
#[derive(Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct ScriptedRequest<'a> {
    /// The model.
    pub model: &'a str,
    /// The system prompt.
    pub system: &'a str,
    /// The messages, as the transcript projected them.
    #[cfg_attr(feature = "testing", ts(type = "Array<unknown>"))]
    pub messages: &'a RawValue,
    /// The names of the tools.
    pub tools: Vec<&'a str>,
    /// Cap of the answer in tokens.
    pub max_tokens: u64,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The auth profile used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<&'a str>,
}

/// The last requests. The conversation's bytes are shared with the engine, not copied.
#[derive(Default)]
pub(super) struct Record {
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    requests: VecDeque<(ModelRequest, Option<String>)>,
    bytes: usize,
}

impl Record {
    const MOST: usize = 1_000;
    const MOST_BYTES: usize = 64 * 1024 * 1024;

    pub(super) fn add(&self, request: &ModelRequest, profile_id: Option<&str>) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.bytes += size(request);
        recorded.requests.push_back((request.clone(), profile_id.map(str::to_owned)));
        while recorded.requests.len() > Self::MOST
            || (recorded.bytes > Self::MOST_BYTES && recorded.requests.len() > 1)
        {
            let Some((dropped, _)) = recorded.requests.pop_front() else { break };
            recorded.bytes -= size(&dropped);
        }
    }

    /// The requests as a JSON array, oldest first.
    pub(super) fn to_json(&self) -> String {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::from("[");
        for (request, profile_id) in &recorded.requests {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&one(request, profile_id.as_deref()));
        }
        out.push(']');
        out
    }
}

fn size(request: &ModelRequest) -> usize {
    request.system.len() + request.messages.iter().map(Bytes::len).sum::<usize>()
}

fn one(request: &ModelRequest, profile_id: Option<&str>) -> String {
    let mut messages = String::from("[");
    for piece in &request.messages {
        if messages.len() > 1 {
            messages.push(',');
        }
        messages.push_str(&String::from_utf8_lossy(piece));
    }
    messages.push(']');
    let messages = RawValue::from_string(messages).unwrap_or_default();
    let request = ScriptedRequest {
        model: &request.model,
        system: &request.system,
        messages: &messages,
        tools: request.tools.iter().map(|tool| tool.name.as_str()).collect(),
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        profile_id,
    };
    serde_json::to_string(&request).unwrap_or_default()
}
