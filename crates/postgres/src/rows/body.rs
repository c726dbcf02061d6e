//! A body: a value as JSON, compressed where that saves a tenth, with a checksum of the JSON.
//!
//! A body that is not as it was written is never returned.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::connect::error::{Stored, damaged};

/// A text for a column that is read by the server: PostgreSQL stores no text with the character U+0000.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// The first byte of a body.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
/// A shorter text is not worth compressing.
const SHORT: usize = 256;

/// A body with its checksum.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: i64,
}

/// The body of a value.
pub(crate) fn encode(value: &impl Serialize) -> Stored<Body> {
    let json = serde_json::to_vec(value).map_err(|_| damaged("a value has no JSON"))?;
    let checksum = xxh3_64(&json).cast_signed();
    if json.len() >= SHORT {
        let packed = lz4_flex::compress_prepend_size(&json);
        if packed.len() < json.len() / 10 * 9 {
            let mut bytes = Vec::with_capacity(packed.len() + 1);
            bytes.push(COMPRESSED);
            bytes.extend(packed);
            return Ok(Body { bytes, checksum });
        }
    }
    let mut bytes = Vec::with_capacity(json.len() + 1);
    bytes.push(PLAIN);
    bytes.extend(json);
    Ok(Body { bytes, checksum })
}

/// The value of a body; `what` names its row.
///
/// # Errors
/// `ledger_corrupt` for a body that is not as it was written.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], checksum: i64, what: &str) -> Stored<T> {
    let altered = || damaged(format_args!("{what} is not as it was written"));
    let json = unpack(bytes).ok_or_else(altered)?;
    if xxh3_64(&json).cast_signed() != checksum {
        return Err(altered());
    }
    serde_json::from_slice(&json).map_err(|_| altered())
}

/// The JSON of a body.
fn unpack(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    match bytes.split_first()? {
        (&PLAIN, json) => Some(Cow::Borrowed(json)),
        (&COMPRESSED, packed) => lz4_flex::decompress_size_prepended(packed).ok().map(Cow::Owned),
        _ => None,
    }
}

/// Both bodies of a turn, under one checksum: that of the header, with that of the outcome once the turn has ended.
pub(crate) fn decode_both<A: DeserializeOwned, B: DeserializeOwned + Default>(
    header: &[u8],
    outcome: Option<&[u8]>,
    checksum: i64,
    what: &str,
) -> Stored<(A, B)> {
    let altered = || damaged(format_args!("{what} is not as it was written"));
    let header = unpack(header).ok_or_else(altered)?;
    let outcome = outcome.map(|it| unpack(it).ok_or_else(altered)).transpose()?;
    let sum = xxh3_64(&header).cast_signed();
    let sum = outcome.as_ref().map_or(sum, |outcome| sum ^ xxh3_64(outcome).cast_signed());
    if sum != checksum {
        return Err(altered());
    }
    let header = serde_json::from_slice(&header).map_err(|_| altered())?;
    let outcome =
        outcome.map(|it| serde_json::from_slice(&it).map_err(|_| altered())).transpose()?;
    Ok((header, outcome.unwrap_or_default()))
}
