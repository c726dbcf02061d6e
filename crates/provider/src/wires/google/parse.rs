//! The bytes of one event, or of a whole body, to chunks, repairing what can be repaired without guessing.
//!
//! It must never skip what it cannot read: that may have been a part of the answer.

use serde_json::value::RawValue;

use super::wire::Chunk;
use crate::Failure;
use crate::classify::{parse_error, payload_failure};
use crate::json::{object_of, repair_surrogates};
use crate::wire::MALFORMED_EVENT;
use model::FailureKind;

/// Reads the chunks of a body: one, or a list of them (what the API sends where it was not asked for a stream).
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
    // A second key of the same name: the last one counts, as everywhere in JSON.
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
            "the provider sent `{}` bytes that are no response (line {}, column {}); ask again",
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

/// The failure that an `error` object describes.
pub(super) fn reported(error: &RawValue) -> Failure {
    let body = object_of("error", error.get());
    payload_failure(&parse_error(body.as_bytes()).unwrap_or_default())
}

/// The response ended before its protocol did.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before the provider's `finishReason`; ask again",
    )
}
