//! Thought signatures that Gemini requires and a transcript cannot have (docs/rules/wire/google.md#signatures).
//!
//! It must never replace a signature: a real one stays byte for byte.

use serde_json::Value;

use super::Target;
use model::{Api, Block};

/// The documented value in place of the signature of another model's call.
const ESCAPE: &str = r#"{"thoughtSignature":"skip_thought_signature_validator"}"#;

/// Adds the documented value to the first call of an answer, if the model refuses answers with unsigned calls.
pub(super) fn fill(target: &Target, blocks: &mut [Block]) {
    if target.api != Api::GoogleGenerativeAi || !demands_signatures(&target.model) {
        return;
    }
    let first = blocks.iter_mut().find_map(|block| match block {
        Block::ToolCall { provider_data, .. } => Some(provider_data),
        Block::Text { .. }
        | Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => None,
    });
    if let Some(provider_data) = first
        && !provider_data.as_deref().is_some_and(has_signature)
    {
        *provider_data = Some(with_escape(provider_data.as_deref()));
    }
}

/// The documented value beside the other provider data of the call.
fn with_escape(stored: Option<&str>) -> String {
    let beside = stored.map(str::trim).and_then(|json| json.strip_suffix('}'));
    match beside.filter(|open| open.trim() != "{" && has_no_signature(open)) {
        Some(open) => {
            let escape = ESCAPE.strip_prefix('{').unwrap_or_default();
            format!("{open},{escape}")
        }
        None => ESCAPE.to_owned(),
    }
}

/// Whether an object that is not closed yet has no signature, not even an empty one.
fn has_no_signature(open: &str) -> bool {
    let data: Option<Value> = serde_json::from_str(&format!("{open}}}")).ok();
    data.is_some_and(|data| data.is_object() && data.get("thoughtSignature").is_none())
}

/// Gemini requires it since version 3; a name without a version is treated as a new one.
fn demands_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gemini-") else { return false };
    let major: String = version.chars().take_while(char::is_ascii_digit).collect();
    major.parse::<u32>().map_or(true, |major| major >= 3)
}

fn has_signature(provider_data: &str) -> bool {
    let data: Option<Value> = serde_json::from_str(provider_data).ok();
    let signature = data.as_ref().and_then(|data| data.get("thoughtSignature"));
    signature.and_then(Value::as_str).is_some_and(|signature| !signature.is_empty())
}
