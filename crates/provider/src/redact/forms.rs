//! The forms in which a live key may appear in a text, and their replacement.
//!
//! It must never miss a form in which a server can send a key back.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use secrecy::zeroize::Zeroizing;

/// The replacement of a secret.
pub(crate) const MARK: &str = "[***]";

/// A shorter "key" (`none`, `ollama`) is a placeholder for servers without keys: replacing it would damage the text.
pub(super) const SHORTEST_KEY: usize = 8;

/// The key in each form, longest first, so that a shorter form does not break a longer one. Each is overwritten when it is
/// dropped: a text that grew would leave its beginning in the memory, so all are made with their length.
pub(crate) fn forms(key: &str) -> Vec<Zeroizing<String>> {
    let bytes = key.as_bytes();
    let mut forms = vec![Zeroizing::new(key.to_owned())];
    for upper in [true, false] {
        let mut hex = Zeroizing::new(String::with_capacity(bytes.len() * 2));
        hex.extend(bytes.iter().flat_map(|byte| nibbles(*byte, upper)));
        forms.push(hex);
    }
    for unescaped in ["", "-_.~", "-_.~!'()*"] {
        for upper in [true, false] {
            forms.push(percent_encoded(bytes, unescaped, upper));
        }
    }
    // A character has six at most as JSON (`\u001f`), and an escaped slash one more.
    let mut quoted = Zeroizing::new(Vec::with_capacity(bytes.len() * 6 + 2));
    if serde_json::to_writer(&mut *quoted, key).is_ok()
        && let Ok(quoted) = std::str::from_utf8(&quoted)
    {
        let escaped = quoted.trim_matches('"');
        let mut slashes = Zeroizing::new(String::with_capacity(escaped.len() * 2));
        for character in escaped.chars() {
            if character == '/' {
                slashes.push('\\');
            }
            slashes.push(character);
        }
        forms.push(slashes);
        forms.push(Zeroizing::new(escaped.to_owned()));
    }
    // Base64 of the key at each of the three positions it can have in a longer text (`user:key`): the characters that
    // also depend on its neighbours are left out.
    for lead in 0..3_usize {
        let mut padded = Zeroizing::new(Vec::with_capacity(lead + bytes.len()));
        padded.resize(lead, 0);
        padded.extend_from_slice(bytes);
        let first = (lead * 8).div_ceil(6);
        let whole = padded.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = Zeroizing::new(engine.encode(&*padded));
            if let Some(stable) = encoded.get(first..whole.min(encoded.len())) {
                forms.push(Zeroizing::new(stable.to_owned()));
            }
        }
    }
    forms.retain(|form| form.len() >= SHORTEST_KEY);
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.as_str().cmp(b.as_str())));
    forms.dedup();
    forms
}

/// A byte in hex.
fn nibbles(byte: u8, upper: bool) -> [char; 2] {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [byte >> 4, byte & 15]
        .map(|nibble| char::from(digits.get(usize::from(nibble)).copied().unwrap_or(b'0')))
}

fn percent_encoded(bytes: &[u8], unescaped: &str, upper: bool) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(bytes.len() * 3));
    for &byte in bytes {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || (byte.is_ascii() && unescaped.contains(character)) {
            out.push(character);
        } else {
            out.push('%');
            out.extend(nibbles(byte, upper));
        }
    }
    out
}

pub(super) fn replace_all(text: &str, needle: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in memmem::find_iter(text.as_bytes(), needle.as_bytes()) {
        out.push_str(text.get(from..at).unwrap_or(""));
        out.push_str(MARK);
        from = at + needle.len();
    }
    out.push_str(text.get(from..).unwrap_or(""));
    out
}
