//! Reads a field of a parsed JSON object: a text, a flag, a time.
//!
//! It must never turn a value of one type into another: a wrong type is an error with the field's path.

use serde_json::Value;

use crate::data::input::field::{InputError, Parsed, missing};

pub(super) fn text(value: Option<&Value>, path: &str) -> Parsed<String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(InputError::new(path, "is not a string")),
        None => Err(missing(path)),
    }
}

/// An optional text.
pub(super) fn checked_text(value: Option<&Value>, path: &str) -> Parsed<Option<String>> {
    match value {
        Some(Value::Null) | None => Ok(None),
        some => text(some, path).map(Some),
    }
}

pub(super) fn optional_text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(ToOwned::to_owned)
}

/// Unix milliseconds; a fraction, as `performance` returns it, is cut off.
pub(super) fn unix_ms(value: Option<&Value>, path: &str) -> Parsed<Option<i64>> {
    match value {
        Some(Value::Null) | None => Ok(None),
        Some(Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.to_string().split('.').next()?.parse().ok())
            .map(Some)
            .ok_or_else(|| InputError::new(path, "is not a time in Unix milliseconds")),
        Some(_) => Err(InputError::new(path, "is not a number of Unix milliseconds")),
    }
}

pub(super) fn flag(value: Option<&Value>, path: &str) -> Parsed<bool> {
    match value {
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::Null) | None => Ok(false),
        Some(_) => Err(InputError::new(path, "is not true or false")),
    }
}
