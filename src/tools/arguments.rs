//! From the model's text to a JSON object, strictly and within bounds (docs/rules/faults.md#input-bounds).
//!
//! It must never guess at broken JSON: what cannot be read is answered to the model.

use std::borrow::Cow;

use serde_json::Value;

use model::repair_text;

/// The longest arguments in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Keys in all objects together.
const MAX_KEYS: usize = 10_000;

/// Parsed arguments beside the text they came from.
pub(super) struct Arguments<'a> {
    /// What the tool gets if the value is valid as it is: byte for byte what the model wrote.
    pub(super) text: Cow<'a, str>,
    /// The object.
    pub(super) value: Value,
}

/// Parses arguments. No text at all is `{}`: providers send nothing for a call without arguments (docs/rules/wire/openai-chat.md#compatible-servers).
pub(super) fn parse(text: &str) -> Result<Arguments<'_>, String> {
    if text.len() > MAX_BYTES {
        return Err(format!(
            "the arguments are {} bytes long; at most {MAX_BYTES} are allowed",
            text.len()
        ));
    }
    if text.trim().is_empty() || text.trim() == "null" {
        return Ok(Arguments {
            text: Cow::Borrowed("{}"),
            value: Value::Object(Default::default()),
        });
    }
    // serde_json refuses more than 128 levels.
    let (text, value) = match serde_json::from_str::<Value>(text) {
        Ok(value) => (Cow::Borrowed(text), value),
        Err(error) => {
            let repaired = repair_text(text);
            match serde_json::from_str(&repaired) {
                Ok(value) => (repaired, value),
                Err(_) => return Err(format!("the arguments are not valid JSON: {error}")),
            }
        }
    };
    if !value.is_object() {
        return Err("the arguments are not a JSON object".to_owned());
    }
    if keys(&value) > MAX_KEYS {
        return Err(format!("the arguments have more than {MAX_KEYS} keys"));
    }
    Ok(Arguments { text, value })
}

fn keys(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(keys).sum::<usize>(),
        Value::Array(items) => items.iter().map(keys).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
