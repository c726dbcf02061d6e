//! What JavaScript accepts as JSON and serde does not: lone surrogates.
//!
//! Pure text. It must never change a text that is already valid.

use std::borrow::Cow;

use memchr::memchr;

/// Replaces the escapes of lone surrogates (`"\ud83d"`), which JavaScript accepts and `serde_json` refuses, by
/// `\ufffd`. Borrows where there is none. The length never changes.
#[must_use]
pub fn repair_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        let escape = at + found;
        at = escape
            + match unit(json, escape) {
                Some(0xd800..=0xdbff)
                    if matches!(unit(json, escape + 6), Some(0xdc00..=0xdfff)) =>
                {
                    12
                }
                Some(0xd800..=0xdfff) => {
                    if let Some(hex) = out.to_mut().get_mut(escape + 2..escape + 6) {
                        hex.copy_from_slice(b"fffd");
                    }
                    6
                }
                Some(_) => 6,
                None => 2,
            };
    }
    out
}

/// The UTF-16 unit of the `\uXXXX` escape at `at`, if there is one.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// As [`repair_surrogates`], of a text.
#[must_use]
pub fn repair_text(json: &str) -> Cow<'_, str> {
    match repair_surrogates(json.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(json),
        // Only ASCII bytes were replaced by ASCII bytes.
        Cow::Owned(repaired) => String::from_utf8(repaired).map_or(Cow::Borrowed(json), Cow::Owned),
    }
}
