//! Redaction: what may be said of an error. It must never let a key through.
//!
//! Two passes, both linear: exact live keys in every form they travel in, then the shapes keys have.

mod live;
mod shapes;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;

pub(crate) use live::LiveKeys;

/// What stands where a secret stood.
pub(crate) const MARK: &str = "[***]";

/// A shorter "key" (`none`, `ollama`) is a placeholder for servers that want no key: to replace it would wreck the text.
const SHORTEST_KEY: usize = 8;

/// `text` without `live_keys` (also in hex, base64, URL-encoded and JSON-escaped) and without anything that looks like a key.
///
/// Live keys shorter than 8 bytes are not secrets and are left alone. The result never contains a live key.
pub(crate) fn redact(text: &str, live_keys: &[&str]) -> String {
    let keys: Vec<&str> =
        live_keys.iter().map(|key| key.trim()).filter(|key| key.len() >= SHORTEST_KEY).collect();
    let mut out = text.to_owned();
    for key in &keys {
        for form in forms(key) {
            out = replace_all(&out, &form);
        }
    }
    let out = shapes::redact_shapes(&out);
    // A replacement can join what stood left and right of it into a key; then nothing of the text is safe to tell.
    if keys.iter().any(|key| memmem::find(out.as_bytes(), key.as_bytes()).is_some()) {
        return MARK.to_owned();
    }
    out
}

/// `text` in one line of at most `limit` characters, cut only where no key can be cut in two.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit * 4));
    let mut count = 0_usize;
    let mut gap = false;
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            gap = !line.is_empty();
            continue;
        }
        if gap {
            line.push(' ');
            count += 1;
            gap = false;
        }
        if count >= limit {
            // A key cut in two is a key the exact match no longer finds: drop the word the cut falls into.
            while line.chars().next_back().is_some_and(is_key_character) {
                line.pop();
            }
            let kept = line.trim_end().len();
            line.truncate(kept);
            line.push('…');
            break;
        }
        line.push(character);
        count += 1;
    }
    line
}

fn is_key_character(character: char) -> bool {
    character.is_ascii() && !matches!(character, ' ' | ',' | ';' | '(' | ')' | '<' | '>')
}

/// The key as it may appear, longest first, so that no form is broken by a shorter one.
fn forms(key: &str) -> Vec<String> {
    let bytes = key.as_bytes();
    let mut forms = vec![key.to_owned()];
    for upper in [true, false] {
        forms.push(bytes.iter().flat_map(|byte| nibbles(*byte, upper)).collect());
    }
    for keep in ["", "-_.~", "-_.~!'()*"] {
        for upper in [true, false] {
            forms.push(percent_encoded(bytes, keep, upper));
        }
    }
    if let Ok(quoted) = serde_json::to_string(key) {
        let escaped = quoted.trim_matches('"').to_owned();
        forms.push(escaped.replace('/', "\\/"));
        forms.push(escaped);
    }
    // Base64 of the key at each of the three positions it can have in a longer text (`user:key`): the characters that
    // also depend on its neighbours are left out.
    for lead in 0..3_usize {
        let mut padded = vec![0_u8; lead];
        padded.extend_from_slice(bytes);
        let first = (lead * 8).div_ceil(6);
        let whole = padded.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            if let Some(stable) = encoded.get(first..whole.min(encoded.len())) {
                forms.push(stable.to_owned());
            }
        }
    }
    forms.retain(|form| form.len() >= SHORTEST_KEY);
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// A byte in hex.
fn nibbles(byte: u8, upper: bool) -> [char; 2] {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [byte >> 4, byte & 15]
        .map(|nibble| char::from(digits.get(usize::from(nibble)).copied().unwrap_or(b'0')))
}

fn percent_encoded(bytes: &[u8], keep: &str, upper: bool) -> String {
    let mut out = String::with_capacity(bytes.len() * 3);
    for &byte in bytes {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || (byte.is_ascii() && keep.contains(character)) {
            out.push(character);
        } else {
            out.push('%');
            out.extend(nibbles(byte, upper));
        }
    }
    out
}

fn replace_all(text: &str, needle: &str) -> String {
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
