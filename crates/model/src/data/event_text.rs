//! An event as JSON: the text that is stored of it, and the members that stand elsewhere in the ledger already.
//!
//! Arguments and results of tools, texts of messages and the outcome of a run have rows of their own, to which the stored text
//! refers by an id. It must never look one up: the backend does, and adds the same members.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{StreamEvent, TokenUsage, ToolStatus};

/// The two parts of an event's JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// The JSON object that is stored.
    pub stored: String,
    /// The members that are not stored with it, without braces; empty for none.
    pub added: String,
}

/// What a stored event refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventReference {
    /// A tool call that started or ended.
    Call {
        /// The engine's id of the call.
        call_id: String,
        /// What the event reports.
        status: ToolStatus,
    },
    /// The text of a message.
    Message(String),
    /// The outcome of the run's turn.
    Outcome {
        /// The event is a `stream_error`.
        failed: bool,
        /// The event itself reports that the session does not continue from the turn.
        unpersisted: bool,
    },
}

/// The outcome of a run in its terminal event.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeMembers<'a> {
    /// Why the agent stopped.
    pub stop_reason: &'a str,
    /// The turn.
    pub turn_id: &'a str,
    /// The tokens of the run.
    pub usage: TokenUsage,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// `Some(true)`; `None` where the stored event has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persisted: Option<bool>,
    /// The kind of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    /// Whether the same message may succeed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// The arguments or the result of a call in its event.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallMembers<'a> {
    /// Where it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<&'a RawValue>,
    /// Where it ended: what the tool returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// Where it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// The text of a message in its event.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MessageMembers<'a> {
    /// The text.
    pub text: &'a str,
}

/// Members as JSON text, without the braces of their object.
#[must_use]
pub fn members(of: &impl Serialize) -> String {
    // Plain values: serde_json has no error for them.
    let json = serde_json::to_string(of).unwrap_or_default();
    json.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or_default().to_owned()
}

/// The whole event: the stored object with further members at its end.
#[must_use]
pub fn with_members<'a>(stored: &'a str, added: &str) -> Cow<'a, str> {
    match stored.strip_suffix('}') {
        Some(open) if !added.is_empty() => Cow::Owned(format!("{open},{added}}}")),
        Some(_) | None => Cow::Borrowed(stored),
    }
}

impl StreamEvent {
    /// The event as JSON, in its two parts.
    #[must_use]
    pub fn into_text(mut self) -> EventText {
        let added = self.take_members();
        EventText { stored: serde_json::to_string(&self).unwrap_or_default(), added }
    }

    /// Takes the members out that stand in rows.
    fn take_members(&mut self) -> String {
        match self {
            Self::ToolStatus { params, result, is_error, .. } => {
                let (params, result) = (params.take(), result.take());
                members(&CallMembers {
                    params: params.as_deref(),
                    result: result.as_deref(),
                    is_error: is_error.take(),
                })
            }
            Self::UserMessage { text, .. } => text
                .take()
                .map_or_else(String::new, |text| members(&MessageMembers { text: &text })),
            Self::StreamEnd { stop_reason, turn_id, usage, cost, persisted, .. } => {
                let (Some(stop_reason), Some(turn_id)) = (stop_reason.take(), turn_id.take())
                else {
                    return String::new();
                };
                members(&OutcomeMembers {
                    stop_reason: stop_reason.as_str(),
                    turn_id: &turn_id,
                    usage: usage.take().unwrap_or_default(),
                    cost: cost.take(),
                    persisted: persisted.take_if(|persisted| *persisted),
                    kind: None,
                    retryable: None,
                })
            }
            Self::StreamError {
                stop_reason,
                turn_id,
                usage,
                cost,
                persisted,
                kind,
                retryable,
                ..
            } => {
                let (Some(stop_reason), Some(turn_id)) = (stop_reason.take(), turn_id.take())
                else {
                    return String::new();
                };
                members(&OutcomeMembers {
                    stop_reason: stop_reason.as_str(),
                    turn_id: &turn_id,
                    usage: usage.take().unwrap_or_default(),
                    cost: cost.take(),
                    persisted: persisted.take_if(|persisted| *persisted),
                    kind: kind.take().map(crate::AgentErrorKind::as_str),
                    retryable: retryable.take(),
                })
            }
            Self::StreamStart { .. }
            | Self::Token { .. }
            | Self::Reasoning { .. }
            | Self::ModelSwitch { .. }
            | Self::Waiting { .. }
            | Self::CacheBreak { .. }
            | Self::ToolProgress { .. }
            | Self::ToolInputDelta { .. }
            | Self::Usage { .. }
            | Self::Retry { .. }
            | Self::Compaction { .. }
            | Self::Approval { .. } => String::new(),
        }
    }
}

/// The parts of a stored event that a reference is made of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    status: Option<ToolStatus>,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    r#final: bool,
    #[serde(default)]
    persisted: Option<bool>,
}

/// What the event with this stored text refers to; `None` for one that is whole.
#[must_use]
pub fn reference_of(stored: &str) -> Option<EventReference> {
    let kind = stored.strip_prefix(r#"{"type":""#)?.split('"').next()?;
    if !matches!(kind, "tool_status" | "user_message" | "stream_end" | "stream_error") {
        return None;
    }
    let head: Head = serde_json::from_str(stored).ok()?;
    let unpersisted = head.persisted == Some(false);
    match kind {
        "tool_status" => {
            Some(EventReference::Call { call_id: head.call_id?, status: head.status? })
        }
        "user_message" => Some(EventReference::Message(head.message_id?)),
        "stream_error" => Some(EventReference::Outcome { failed: true, unpersisted }),
        _ => head.r#final.then_some(EventReference::Outcome { failed: false, unpersisted }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentErrorKind, StopReason};

    fn raw(json: &str) -> Option<Box<RawValue>> {
        RawValue::from_string(json.to_owned()).ok()
    }

    fn status(status: ToolStatus) -> StreamEvent {
        let ended = status != ToolStatus::Started;
        StreamEvent::ToolStatus {
            tool_name: "t".to_owned(),
            tool_call_id: "p".to_owned(),
            status,
            call_id: "c".to_owned(),
            summary: None,
            duration_ms: ended.then_some(3),
            params: if ended { None } else { raw(r#"{"a":"\"}"}"#) },
            result: if ended { raw("[1]") } else { None },
            is_error: ended.then_some(false),
            message_id: "m".to_owned(),
            seq: 4,
        }
    }

    fn error(persisted: bool) -> StreamEvent {
        StreamEvent::StreamError {
            error: r#"no "persisted":false"#.to_owned(),
            partial: true,
            retry_after_ms: Some(9),
            stop_reason: Some(StopReason::Error),
            turn_id: Some("t".to_owned()),
            usage: Some(TokenUsage::default()),
            cost: None,
            persisted: Some(persisted),
            kind: Some(AgentErrorKind::RateLimit),
            retryable: Some(true),
            seq: 7,
        }
    }

    fn user_message() -> StreamEvent {
        let text = Some("hi\n".to_owned());
        StreamEvent::UserMessage { message_id: "m".to_owned(), text, seq: 2 }
    }

    #[test]
    fn an_event_and_its_parts_put_together_are_the_same_value() {
        for event in [
            status(ToolStatus::Started),
            status(ToolStatus::Completed),
            error(true),
            error(false),
            user_message(),
        ] {
            let whole = serde_json::to_value(&event).unwrap();
            let EventText { stored, added } = event.into_text();
            let together = with_members(&stored, &added);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&together).unwrap(), whole);
        }
    }

    #[test]
    fn the_stored_part_has_no_value_of_a_row_and_refers_to_it() {
        let stored = |event: StreamEvent| event.into_text().stored;
        let started = stored(status(ToolStatus::Started));
        assert_eq!(
            started,
            r#"{"type":"tool_status","toolName":"t","toolCallId":"p","status":"started","callId":"c","messageId":"m","seq":4}"#
        );
        let call = |status| Some(EventReference::Call { call_id: "c".to_owned(), status });
        assert_eq!(reference_of(&started), call(ToolStatus::Started));
        assert_eq!(reference_of(&stored(status(ToolStatus::Failed))), call(ToolStatus::Failed));
        assert_eq!(stored(user_message()), r#"{"type":"user_message","messageId":"m","seq":2}"#);
        assert_eq!(
            reference_of(&stored(user_message())),
            Some(EventReference::Message("m".to_owned()))
        );
        let outcome = |unpersisted| Some(EventReference::Outcome { failed: true, unpersisted });
        assert_eq!(reference_of(&stored(error(true))), outcome(false));
        assert_eq!(reference_of(&stored(error(false))), outcome(true));
        for whole in
            [r#"{"type":"stream_end","runId":"r","final":false,"seq":1}"#, "{}", "not JSON"]
        {
            assert_eq!(reference_of(whole), None);
        }
    }
}
