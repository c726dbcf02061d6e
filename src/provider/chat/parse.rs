//! The bytes of one event to its shape, repairing what can be repaired without guessing.
//!
//! It must never skip what it cannot read: that may have been a part of the answer.

use std::borrow::Cow;

use super::wire::Chunk;
use crate::model::FailureKind;
use crate::provider::Failure;
use crate::provider::classify::{parse_error, payload_failure};

/// The code of bytes that are no chat completion.
pub(super) const MALFORMED: &str = "malformed_event";

/// Parses one event, repairing what can be repaired without guessing, and hands it on.
pub(super) fn read<T>(data: &[u8], take: impl FnOnce(Chunk<'_>) -> T) -> Result<T, Failure> {
    let first = match serde_json::from_slice::<Chunk<'_>>(data) {
        Ok(chunk) => return Ok(take(chunk)),
        Err(error) => error,
    };
    let repaired = repair(data);
    if let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(&repaired) {
        return Ok(take(chunk));
    }
    match serde_json::from_slice::<serde_json::Value>(&repaired) {
        // A second key of the same name: the last one counts, as everywhere in JSON.
        Ok(value @ serde_json::Value::Object(_)) => {
            let text = value.to_string();
            if let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(&text) {
                return Ok(take(chunk));
            }
        }
        // Some gateways answer a list with the error in it.
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
            "the provider sent `{}` bytes that are no chat completion (line {}, column {}); ask again",
            data.len(),
            first.line(),
            first.column()
        ),
    ))
}

/// Bytes serde_json refuses though JavaScript accepts them: invalid UTF-8 and lone surrogates become U+FFFD.
fn repair(data: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(data);
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let code = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let taken = match code(escape) {
            Some(0xD800..=0xDBFF) => {
                let second = escape.get(6..).and_then(code);
                if second.is_some_and(|second| (0xDC00..=0xDFFF).contains(&second)) {
                    out.push_str(escape.get(..12).unwrap_or(""));
                    12
                } else {
                    out.push_str("\\ufffd");
                    6
                }
            }
            Some(0xDC00..=0xDFFF) => {
                out.push_str("\\ufffd");
                6
            }
            _ => {
                // The escaped character goes along, so that `\\ud800` stays a backslash and letters.
                let taken = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
                out.push_str(escape.get(..taken).unwrap_or(""));
                taken
            }
        };
        rest = escape.get(taken..).unwrap_or("");
    }
    out.push_str(rest);
    Cow::Owned(out.into_bytes())
}
