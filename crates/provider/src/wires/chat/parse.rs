//! Parses one event, and repairs it where that needs no guess.
//!
//! It must never skip invalid bytes: they may have been a part of the answer.

use super::wire::Chunk;
use crate::Failure;
use crate::classify::{parse_error, payload_failure};
use crate::json::repair;
use model::FailureKind;

/// The code of bytes that are no chat completion.
pub(super) const MALFORMED: &str = "malformed_event";

/// Parses one event, repairs it where that needs no guess, and passes it on.
pub(super) fn read<T>(data: &[u8], take: impl FnOnce(Chunk<'_>) -> T) -> Result<T, Failure> {
    let first = match serde_json::from_slice::<Chunk<'_>>(data) {
        Ok(chunk) => return Ok(take(chunk)),
        Err(error) => error,
    };
    let repaired = repair(data);
    if let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(&repaired) {
        return Ok(take(chunk));
    }
    match serde_json::from_str::<serde_json::Value>(&repaired) {
        // Of repeated keys the last one counts, as usual in JSON.
        Ok(value @ serde_json::Value::Object(_)) => {
            let text = value.to_string();
            if let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(&text) {
                return Ok(take(chunk));
            }
        }
        // Some gateways answer with a list that has the error.
        Ok(value) => {
            if let Some(payload) = parse_error(value.to_string().as_bytes()) {
                return Err(payload_failure(&payload));
            }
        }
        Err(_) => {}
    }
    Err(Failure::new(
        FailureKind::ServerError,
        MALFORMED,
        format!(
            "the provider sent `{}` bytes that are no chat completion (line {}, column {}); try again",
            data.len(),
            first.line(),
            first.column()
        ),
    ))
}
