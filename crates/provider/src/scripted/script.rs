//! The shape of a script: replies, one per call, each a few fields or an exact list of steps.
//!
//! ```json
//! [
//!   { "thinking": "two tools", "toolCalls": [{ "name": "add", "arguments": { "a": 1, "b": 2 } }] },
//!   { "steps": [{ "text": "The sum" }, { "gate": "later" }, { "text": " is 3." }, { "usage": { "outputTokens": 5 } }] },
//!   { "error": { "status": 529, "message": "Overloaded" } },
//!   "a reply that is only text"
//! ]
//! ```
//!
//! It must never run anything.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::{ReportedUsage, Stop};
use model::FailureKind;

/// The replies of a scripted provider: one per call, in order.
#[derive(Clone)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(untagged))]
pub enum Script {
    /// The replies.
    Replies(Vec<ScriptedReply>),
    /// The replies, and whether they repeat.
    Whole(ScriptedReplies),
}

/// The replies, and whether they repeat.
#[derive(Clone, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedReplies {
    /// The replies.
    pub replies: Vec<ScriptedReply>,
    /// True: start again after the last. Otherwise further calls fail with `script_exhausted`.
    #[serde(default)]
    pub repeat: Option<bool>,
}

/// One reply.
#[derive(Clone)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(untagged))]
pub enum ScriptedReply {
    /// Only visible text.
    Text(String),
    /// Its parts.
    Parts(Box<ScriptedParts>),
}

/// The parts of a reply, in the order of these fields; `steps` instead defines an exact order.
#[derive(Default, Clone, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ScriptedParts {
    /// Waits at this gate first, until the test opens it.
    pub gate: Option<String>,
    /// Waits this long, in milliseconds.
    pub delay_ms: Option<u64>,
    /// Shown reasoning.
    pub thinking: Option<String>,
    /// Its signature.
    pub signature: Option<String>,
    /// Visible text.
    pub text: Option<String>,
    /// Tool calls.
    pub tool_calls: Option<Vec<ScriptedCall>>,
    /// The reported usage; none where absent.
    pub usage: Option<ScriptedUsage>,
    /// Fails here.
    pub error: Option<ScriptedError>,
    /// Why it stops; `tool_use` with tool calls, else `end_turn`.
    pub stop_reason: Option<ScriptedStop>,
    /// The size of the deltas of text, thinking and arguments in characters; whole where absent.
    pub chunk_size: Option<u32>,
    /// An exact order; only `chunkSize` may be set beside it.
    pub steps: Option<Vec<ScriptedStep>>,
}

/// One step of a reply. Consecutive texts belong to one block, also with waits between them.
#[derive(Clone)]
#[cfg_attr(
    feature = "testing",
    derive(ts_rs::TS),
    ts(untagged, rename_all_fields = "camelCase", optional_fields)
)]
pub enum ScriptedStep {
    /// More visible text.
    Text {
        /// The text.
        text: String,
    },
    /// More shown reasoning.
    Thinking {
        /// The text.
        thinking: String,
        /// The block's signature.
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolCall {
        /// The call.
        tool_call: ScriptedCall,
    },
    /// Waits.
    Delay {
        /// Milliseconds.
        delay_ms: u64,
    },
    /// Waits until the test opens the gate.
    Gate {
        /// The gate.
        gate: String,
    },
    /// Reports usage so far.
    Usage {
        /// The counts.
        usage: ScriptedUsage,
    },
    /// Ends the reply.
    Stop {
        /// Why.
        stop: ScriptedStop,
    },
    /// Fails.
    Fail {
        /// How.
        error: ScriptedError,
    },
    /// The connection ends here, before the end of the reply.
    Truncate {
        /// Always `true`.
        #[cfg_attr(feature = "testing", ts(type = "true"))]
        truncate: bool,
    },
}

/// A call of a tool.
#[derive(Clone, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedCall {
    /// The provider's id of the call; `call_1`, `call_2`, … where absent.
    #[serde(default)]
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments; `{}` where absent.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(optional, type = "unknown"))]
    pub arguments: Option<Box<RawValue>>,
    /// The arguments as text, sent as it is, so that it need not be JSON.
    #[serde(default)]
    pub arguments_text: Option<String>,
}

/// Token counts, as `TokenUsage` names them; 0 where absent.
#[derive(Default, Clone, Copy, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ScriptedUsage {
    /// Prompt tokens outside the cache.
    pub input_tokens: Option<u64>,
    /// Generated tokens, reasoning included.
    pub output_tokens: Option<u64>,
    /// Read from the cache.
    pub cached_input_tokens: Option<u64>,
    /// Written to the cache.
    pub cache_write_tokens: Option<u64>,
    /// The reasoning part of the output.
    pub reasoning_tokens: Option<u64>,
}

/// A failure, by its kind or by an HTTP status.
#[derive(Default, Clone, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ScriptedError {
    /// The kind; else `status` decides, else `server_error`.
    pub kind: Option<FailureKind>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// A stable code.
    pub code: Option<String>,
    /// Its text.
    pub message: Option<String>,
    /// The wait that it requests, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// Why a reply stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words of `Stop`, each explained there")]
pub enum ScriptedStop {
    EndTurn,
    StopSequence,
    ToolUse,
    MaxTokens,
    ContextFull,
    Refusal,
    ContentFilter,
    Pause,
    MalformedToolCall,
    Error,
    Other,
}

impl ScriptedStop {
    /// The stop, and its raw name.
    pub(super) fn stop(self) -> (Stop, &'static str) {
        match self {
            Self::EndTurn => (Stop::EndTurn, "end_turn"),
            Self::StopSequence => (Stop::StopSequence, "stop_sequence"),
            Self::ToolUse => (Stop::ToolUse, "tool_use"),
            Self::MaxTokens => (Stop::MaxTokens, "max_tokens"),
            Self::ContextFull => (Stop::ContextFull, "context_full"),
            Self::Refusal => (Stop::Refusal, "refusal"),
            Self::ContentFilter => (Stop::ContentFilter, "content_filter"),
            Self::Pause => (Stop::Pause, "pause"),
            Self::MalformedToolCall => (Stop::MalformedToolCall, "malformed_tool_call"),
            Self::Error => (Stop::Error, "error"),
            Self::Other => (Stop::Other, "other"),
        }
    }
}

impl From<ScriptedUsage> for ReportedUsage {
    fn from(usage: ScriptedUsage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cached: usage.cached_input_tokens.unwrap_or(0),
            cache_write: usage.cache_write_tokens.unwrap_or(0),
            cache_write_hour: 0,
            reasoning: usage.reasoning_tokens,
        }
    }
}

/// A reply as it is played.
pub(super) struct Reply {
    pub(super) steps: Vec<ScriptedStep>,
    pub(super) chunk_size: Option<u32>,
}

impl From<ScriptedReply> for Reply {
    fn from(reply: ScriptedReply) -> Self {
        let mut parts = match reply {
            ScriptedReply::Text(text) => ScriptedParts { text: Some(text), ..Default::default() },
            ScriptedReply::Parts(parts) => *parts,
        };
        let chunk_size = parts.chunk_size;
        let steps = parts.steps.take().unwrap_or_else(|| parts.into_steps());
        Self { steps, chunk_size }
    }
}

impl ScriptedParts {
    /// The fields in their order, except `steps`.
    fn into_steps(self) -> Vec<ScriptedStep> {
        let parts = self;
        let mut steps = Vec::new();
        steps.extend(parts.gate.map(|gate| ScriptedStep::Gate { gate }));
        steps.extend(parts.delay_ms.map(|delay_ms| ScriptedStep::Delay { delay_ms }));
        if parts.thinking.is_some() || parts.signature.is_some() {
            let thinking = parts.thinking.unwrap_or_default();
            steps.push(ScriptedStep::Thinking { thinking, signature: parts.signature });
        }
        steps.extend(parts.text.map(|text| ScriptedStep::Text { text }));
        let calls = parts.tool_calls.into_iter().flatten();
        steps.extend(calls.map(|tool_call| ScriptedStep::ToolCall { tool_call }));
        steps.extend(parts.usage.map(|usage| ScriptedStep::Usage { usage }));
        steps.extend(parts.error.map(|error| ScriptedStep::Fail { error }));
        steps.extend(parts.stop_reason.map(|stop| ScriptedStep::Stop { stop }));
        steps
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct StepFields {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    tool_call: Option<ScriptedCall>,
    delay_ms: Option<u64>,
    gate: Option<String>,
    usage: Option<ScriptedUsage>,
    stop: Option<ScriptedStop>,
    error: Option<ScriptedError>,
    truncate: Option<bool>,
}

impl<'de> Deserialize<'de> for ScriptedStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = StepFields::deserialize(deserializer)?;
        let signature = fields.signature;
        if signature.is_some() && fields.thinking.is_none() {
            return Err(de::Error::custom("has a `signature` without `thinking`"));
        }
        let mut found = Vec::with_capacity(1);
        found.extend(fields.text.map(|text| Self::Text { text }));
        found.extend(fields.thinking.map(|thinking| Self::Thinking { thinking, signature }));
        found.extend(fields.tool_call.map(|tool_call| Self::ToolCall { tool_call }));
        found.extend(fields.delay_ms.map(|delay_ms| Self::Delay { delay_ms }));
        found.extend(fields.gate.map(|gate| Self::Gate { gate }));
        found.extend(fields.usage.map(|usage| Self::Usage { usage }));
        found.extend(fields.stop.map(|stop| Self::Stop { stop }));
        found.extend(fields.error.map(|error| Self::Fail { error }));
        let truncate = fields.truncate.filter(|yes| *yes);
        found.extend(truncate.map(|truncate| Self::Truncate { truncate }));
        match (found.pop(), found.is_empty()) {
            (Some(step), true) => Ok(step),
            _ => Err(de::Error::custom(
                "is not one step; pass exactly one of `text`, `thinking`, `toolCall`, `delayMs`, `gate`, `usage`, \
                 `stop`, `error` and `truncate: true`",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Script {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScriptVisitor;

        impl<'de> Visitor<'de> for ScriptVisitor {
            type Value = Script;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of replies or `{ replies, repeat }`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Script, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Script::Replies)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Script, A::Error> {
                ScriptedReplies::deserialize(MapAccessDeserializer::new(map)).map(Script::Whole)
            }
        }

        deserializer.deserialize_any(ScriptVisitor)
    }
}

impl<'de> Deserialize<'de> for ScriptedReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReplyVisitor;

        impl<'de> Visitor<'de> for ReplyVisitor {
            type Value = ScriptedReply;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or the parts of a reply")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ScriptedReply, E> {
                Ok(ScriptedReply::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScriptedReply, A::Error> {
                let parts = ScriptedParts::deserialize(MapAccessDeserializer::new(map))?;
                if parts.chunk_size == Some(0) {
                    return Err(de::Error::custom("`chunkSize` is 0; pass at least 1"));
                }
                if parts.steps.is_some() && !parts.clone().into_steps().is_empty() {
                    return Err(de::Error::custom(
                        "has `steps` beside other parts; put them into `steps`",
                    ));
                }
                Ok(ScriptedReply::Parts(Box::new(parts)))
            }
        }

        deserializer.deserialize_any(ReplyVisitor)
    }
}
