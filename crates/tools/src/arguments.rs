//! Parses the model's text as a JSON object, strictly and within limits (docs/rules/faults.md#input-bounds).
//!
//! It must never repair invalid JSON: the model reads the error.

use std::borrow::Cow;

use serde_json::Value;

use model::repair_text;

/// The longest arguments in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of keys in all objects together.
const MAX_KEYS: usize = 10_000;

/// Parsed arguments with their text.
pub(super) struct Arguments<'a> {
    /// The text of the model, which the tool receives byte for byte if the value is valid.
    pub(super) text: Cow<'a, str>,
    /// The object.
    pub(super) value: Value,
}

/// Parses arguments. An empty text is `{}`: providers send nothing for a call without arguments
/// (docs/rules/wire/openai-chat.md#compatible-servers).
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
