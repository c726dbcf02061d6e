//! Parses one event, or a whole body, into chunks, and repairs them where that needs no guess.
//!
//! It must never skip invalid bytes: they may have been a part of the answer.

use serde_json::value::RawValue;

use super::wire::Chunk;
use crate::Failure;
use crate::classify::{parse_error, payload_failure};
use crate::json::{object_of, repair_surrogates};
use crate::wire::MALFORMED_EVENT;
use model::FailureKind;

/// Reads the chunks of a body: one, or a list of them (the API's answer without a stream).
pub(super) fn read(
    data: &[u8],
    take: &mut dyn FnMut(Chunk<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = match try_read(data) {
        Ok(chunks) => return chunks.into_iter().try_for_each(take),
        Err(error) => error,
    };
    // Invalid UTF-8 and lone surrogates, which JavaScript accepts, become U+FFFD.
    let text = String::from_utf8_lossy(data);
    let repaired = repair_surrogates(text.as_bytes());
    if let Ok(chunks) = try_read(&repaired) {
        return chunks.into_iter().try_for_each(take);
    }
    // Of repeated keys the last one counts, as usual in JSON.
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&repaired) {
        let text = value.to_string();
        if let Ok(chunks) = try_read(text.as_bytes()) {
            return chunks.into_iter().try_for_each(take);
        }
        if let Some(payload) = parse_error(text.as_bytes()) {
            return Err(payload_failure(&payload));
        }
    }
    if first.is_eof() {
        return Err(truncated());
    }
    Err(Failure::new(
        FailureKind::ServerError,
        MALFORMED_EVENT,
        format!(
            "the provider sent `{}` bytes that are no response (line {}, column {}); try again",
            data.len(),
            first.line(),
            first.column()
        ),
    ))
}

fn try_read(data: &[u8]) -> Result<Vec<Chunk<'_>>, serde_json::Error> {
    if data.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice(data)
    } else {
        serde_json::from_slice(data).map(|chunk| vec![chunk])
    }
}

/// The failure of an `error` object.
pub(super) fn reported(error: &RawValue) -> Failure {
    let body = object_of("error", error.get());
    payload_failure(&parse_error(body.as_bytes()).unwrap_or_default())
}

/// The response ended before its `finishReason`.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before the provider's `finishReason`; try again",
    )
}
