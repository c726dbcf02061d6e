//! A small matcher for the rules: substrings with `*` (anything, nearby) and `#` (a number).
//!
//! It must never match an unbounded text, because the cost is rules × text: the caller cuts it.

/// The maximum distance between the two sides of `*`, in bytes.
const NEAR: usize = 160;

/// Lower case, `_` and `-` as blanks, each run of white space as one blank.
pub(super) fn normalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let character = match character {
            '_' | '-' => ' ',
            '’' => '\'',
            other => other,
        };
        if character.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.extend(character.to_lowercase());
        }
    }
    out
}

/// Whether a normalised text contains one of the patterns.
pub(super) fn contains_any(text: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| contains(text, pattern))
}

/// Whether a normalised code is the pattern; a pattern that ends in `*` is a prefix.
pub(super) fn is_code(code: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => code.starts_with(prefix),
        None => code == pattern,
    }
}

fn contains(text: &str, pattern: &str) -> bool {
    let (head, tail) = split(pattern);
    let mut rest = text;
    while let Some(at) = rest.find(head) {
        let after = rest.get(at + head.len()..).unwrap_or("");
        if matches_tail(after, tail) {
            return true;
        }
        let step =
            at + rest.get(at..).and_then(|here| here.chars().next()).map_or(1, char::len_utf8);
        rest = rest.get(step..).unwrap_or("");
    }
    false
}

/// The literal before the first wildcard, and the rest.
fn split(pattern: &str) -> (&str, &str) {
    pattern.find(['*', '#']).map_or((pattern, ""), |at| pattern.split_at(at))
}

fn matches_tail(text: &str, tail: &str) -> bool {
    if let Some(tail) = tail.strip_prefix('*') {
        let mut end = text.len().min(NEAR);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        return contains(text.get(..end).unwrap_or(""), tail);
    }
    if let Some(tail) = tail.strip_prefix('#') {
        let digits =
            text.bytes().take_while(|byte| byte.is_ascii_digit() || b".,".contains(byte)).count();
        let is_number = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        return is_number && contains_at(text.get(digits..).unwrap_or(""), tail);
    }
    true
}

/// Whether `text` begins with `pattern`.
fn contains_at(text: &str, pattern: &str) -> bool {
    let (head, tail) = split(pattern);
    text.strip_prefix(head).is_some_and(|after| matches_tail(after, tail))
}
