//! Thought signatures that Gemini asks for and a transcript cannot have (WIRE §4).
//!
//! It must never put a value where a signature is: a real one is kept byte for byte.

use serde_json::Value;

use super::Target;
use crate::model::{Api, Block};

/// The documented value that stands for the signature of a call which another model made.
const ESCAPE: &str = r#"{"thoughtSignature":"skip_thought_signature_validator"}"#;

/// Gives the first call of an answer the escape value, where the model refuses an answer whose calls have no signature.
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
        *provider_data = Some(ESCAPE.to_owned());
    }
}

/// Gemini does so since version 3; a name without a version is taken for a new one.
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
