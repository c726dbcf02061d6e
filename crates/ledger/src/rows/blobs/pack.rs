//! A blob's text as bytes, compressed if that saves a tenth, and its hash.
//!
//! Pure. It must never return a text with another hash.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The size of the largest text before compression, which is that of the largest row.
pub(super) const LONGEST: usize = 64 << 20;

/// A text as its row stores it.
pub(crate) struct Packed<'a> {
    pub(crate) size: i64,
    pub(crate) codec: &'static str,
    pub(crate) data: Cow<'a, [u8]>,
}

impl<'a> Packed<'a> {
    /// An image is base64, which compresses badly and is a third longer than its bytes.
    pub(crate) fn of(text: &'a str) -> Self {
        let raw = text.as_bytes();
        let mut best = ("lz4", lz4_flex::block::compress(raw));
        // The decoder accepts only what the encoder writes: padding and last bits are checked.
        if let Ok(bytes) = STANDARD.decode(raw)
            && bytes.len() < best.1.len()
        {
            best = ("base64", bytes);
        }
        let (codec, data) = best;
        let size = i64::try_from(raw.len()).unwrap_or(i64::MAX);
        if data.len() <= raw.len() / 10 * 9 {
            Self { size, codec, data: Cow::Owned(data) }
        } else {
            Self { size, codec: "raw", data: Cow::Borrowed(raw) }
        }
    }
}

/// The text of a row; `None` if its hash differs.
pub(crate) fn unpack(hash: &str, size: i64, codec: &str, data: &[u8]) -> Option<String> {
    let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST)?;
    let text = match codec {
        "raw" => data.to_vec(),
        "lz4" => lz4_flex::block::decompress(data, size).ok()?,
        "base64" => STANDARD.encode(data).into_bytes(),
        _ => return None,
    };
    let text = String::from_utf8(text).ok()?;
    (text.len() == size && self::hash(&text) == hash).then_some(text)
}

/// SHA-256 in hex: texts are untrusted, so a collision must not be constructible.
pub(crate) fn hash(text: &str) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
