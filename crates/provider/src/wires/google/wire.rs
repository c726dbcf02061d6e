//! The shapes of a `GenerateContentResponse` on the wire, borrowed from the event's bytes.
//!
//! Only used fields are listed; parts stay raw, because unknown ones are sent back unchanged. It must never interpret a
//! field.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Count, Text};
use crate::members::with_members;

/// One event of a stream, or a whole response.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow, default)]
    pub(super) usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) model_version: Text<'a>,
    #[serde(borrow, default)]
    pub(super) response_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    /// Only the first candidate counts.
    pub(super) fn candidate(&mut self) -> Option<Candidate<'a>> {
        let candidates = self.candidates.take()?;
        candidates.into_iter().find(|candidate| candidate.index.0.unwrap_or(0) == 0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Text<'a>,
}

with_members! {
    /// The known fields of a part.
    pub(super) struct Part<'a> {
        pub text: Option<Text<'a>> = "text",
        pub(super) thought: Option<bool> = "thought",
        pub(super) thought_signature: Text<'a> = "thoughtSignature",
        pub(super) function_call: Option<FunctionCall<'a>> = "functionCall",
    }
}

with_members! {
    pub(super) struct FunctionCall<'a> {
        pub(super) id: Text<'a> = "id",
        pub(super) name: Text<'a> = "name",
        pub(super) args: Option<&'a RawValue> = "args",
        pub(super) partial_args: Option<Vec<PartialArg<'a>>> = "partialArgs",
        pub(super) will_continue: Option<bool> = "willContinue",
    }
}

/// The call of a provider-run result.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
}

/// A piece of streamed arguments: one value, or a part of a string, at one path.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow, default)]
    pub(super) json_path: Text<'a>,
    #[serde(borrow, default)]
    pub(super) string_value: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) number_value: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) bool_value: Option<bool>,
}
