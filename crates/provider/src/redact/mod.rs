//! Redaction of error texts. It must never leave a key in a text.
//!
//! Two passes, both linear: exact live keys in every form, then texts that look like keys.

mod forms;
mod known;
mod live;
mod shapes;

#[cfg(test)]
mod tests;

pub use known::KnownKeys;

pub(crate) use forms::MARK;
#[cfg(all(test, target_os = "linux"))]
pub(crate) use forms::forms as forms_of;
pub(crate) use live::LiveKeys;

use memchr::memmem;

use forms::{SHORTEST_KEY, forms, replace_all};

/// `text` without `live_keys` (also in hex, base64, URL-encoded and JSON-escaped) and without anything that looks like a key.
///
/// Live keys shorter than 8 bytes are not secrets and stay. The result never contains a longer live key.
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
    // A replacement can join the text before and after it into a key; then no part of the text is safe to show.
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
            // The exact match does not find a key cut in two, so the word at the cut is dropped.
            while line.chars().next_back().is_some_and(is_key_character) {
                line.pop();
            }
            let end = line.trim_end().len();
            line.truncate(end);
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
