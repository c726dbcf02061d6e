//! What JavaScript accepts as JSON and serde does not: lone surrogates.
//!
//! Pure text. It must never change a text that is already valid.

use std::borrow::Cow;

/// Replaces the escapes of lone surrogates (`"\ud83d"`) by U+FFFD, so that the text parses (WIRE §9).
pub(crate) fn repair_surrogates(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    let bytes = json.as_bytes();
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = at + found;
        let Some(unit) = unit(json, escape) else {
            at = escape + 2;
            continue;
        };
        let next = escape + 6;
        match unit {
            0xD800..=0xDBFF if matches!(self::unit(json, next), Some(0xDC00..=0xDFFF)) => {
                at = next + 6;
            }
            0xD800..=0xDFFF => {
                out.push_str(json.get(kept..escape).unwrap_or_default());
                out.push_str("\\ufffd");
                kept = next;
                at = next;
            }
            _ => at = next,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

/// The UTF-16 unit of a `\uXXXX` escape that begins at `at`.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::repair_surrogates;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for kept in [r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\\ud83d"}"#, r#"{"a":"x"}"#, "\\", "\\u1"]
        {
            assert!(matches!(repair_surrogates(kept), Cow::Borrowed(same) if same == kept));
        }
        assert_eq!(
            repair_surrogates(r#"{"a":"\ud83d","b":"\ud83d\ud83d\ude00x\udc00"}"#),
            r#"{"a":"\ufffd","b":"\ufffd\ud83d\ude00x\ufffd"}"#
        );
    }
}
