//! The shapes of secrets: key prefixes, credentials after the name of a header or field, values in URLs.
//!
//! One pass over the bytes, each read a bounded number of times. It must never know a particular key.

use super::forms::MARK;

/// Prefixes of keys, and how many key characters must follow.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-", 6),
    ("sk_", 8),
    ("pk-", 8),
    ("rk_", 8),
    ("gsk_", 8),
    ("csk-", 8),
    ("xai-", 8),
    ("hf_", 8),
    ("nvapi-", 8),
    ("pplx-", 8),
    ("fw_", 8),
    ("r8_", 8),
    ("AIza", 8),
    ("AKIA", 8),
    ("ASIA", 12),
    ("ya29.", 8),
    ("ghp_", 8),
    ("gho_", 8),
    ("github_pat_", 8),
    ("eyJ", 12),
];

/// Names whose value is a secret up to the next delimiter.
const FIELDS: &[&str] = &[
    "x-goog-api-key",
    "x-api-key",
    "api-key",
    "api_key",
    "apikey",
    "api key provided",
    "access_token",
    "refresh_token",
    "id_token",
    "client_secret",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-credential",
    "password",
];

/// Header names whose value is a secret up to the end of the line or the closing quote.
const HEADERS: &[&str] = &["proxy-authorization", "authorization", "set-cookie", "cookie"];

pub(super) fn redact_shapes(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    let mut at = 0;
    while at < bytes.len() {
        if let Some((start, end)) = secret_at(bytes, at) {
            out.push_str(text.get(from..start).unwrap_or(""));
            out.push_str(MARK);
            from = end;
            at = end.max(at + 1);
        } else {
            at += 1;
        }
    }
    out.push_str(text.get(from..).unwrap_or(""));
    out
}

/// The range of the secret after a name or prefix that begins at `at`.
fn secret_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let byte = *bytes.get(at)?;
    match byte {
        b'?' | b'&' => return query_value(bytes, at + 1),
        b':' => return user_info(bytes, at),
        _ if !byte.is_ascii_alphabetic() => return None,
        _ => {}
    }
    let word_start = at == 0 || !bytes.get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
    if !word_start {
        return None;
    }
    for (prefix, least) in PREFIXES {
        if starts_with(bytes, at, prefix, false) {
            let end = run(bytes, at + prefix.len(), is_key_byte);
            if end - at - prefix.len() >= *least {
                return Some((at, end));
            }
        }
    }
    if starts_with(bytes, at, "bearer ", true) {
        return bearer_token(bytes, at + "bearer ".len());
    }
    for name in HEADERS {
        if starts_with(bytes, at, name, true)
            && let Some((start, quote)) = value_start(bytes, at + name.len())
        {
            let end = run(bytes, start, |byte| {
                !matches!(byte, b'\n' | b'\r') && quote.is_none_or(|quote| byte != quote)
            });
            return (end > start).then_some((start, end));
        }
    }
    for name in FIELDS {
        if starts_with(bytes, at, name, true)
            && let Some((start, quote)) = value_start(bytes, at + name.len())
        {
            let end = match quote {
                Some(quote) => run(bytes, start, |byte| byte != quote),
                None => run(bytes, start, is_value_byte),
            };
            return (end > start).then_some((start, end));
        }
    }
    None
}

/// After a name: `:` or `=`, with at most a few blanks and quotes around it. Returns the value's start and its quote.
fn value_start(bytes: &[u8], mut at: usize) -> Option<(usize, Option<u8>)> {
    let skip = |mut at: usize| {
        let mut quote = None;
        for _ in 0..4 {
            match bytes.get(at) {
                Some(b' ' | b'\t' | b'\\') => at += 1,
                Some(&byte @ (b'"' | b'\'' | b'`')) => {
                    quote = Some(byte);
                    at += 1;
                }
                _ => break,
            }
        }
        (at, quote)
    };
    (at, _) = skip(at);
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return None;
    }
    Some(skip(at + 1))
}

/// `?name=value` and `&name=value`.
fn query_value(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let name_end =
        run(bytes, at, |byte| byte.is_ascii_alphanumeric() || b"_-.%[]$".contains(&byte));
    if name_end == at || bytes.get(name_end) != Some(&b'=') {
        return None;
    }
    let end = run(bytes, name_end + 1, |byte| {
        !byte.is_ascii_whitespace() && !b"&#\"'`<>),".contains(&byte)
    });
    (end > name_end + 1).then_some((name_end + 1, end))
}

/// The `user:password` of `scheme://user:password@host`.
fn user_info(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    if !starts_with(bytes, at, "://", false) {
        return None;
    }
    let start = at + 3;
    let end =
        run(bytes, start, |byte| !byte.is_ascii_whitespace() && !b"@/?#\"'`<>".contains(&byte));
    (end > start && bytes.get(end) == Some(&b'@')).then_some((start, end))
}

/// The text after `Bearer`, unless it is an ordinary word ("missing bearer authentication").
fn bearer_token(bytes: &[u8], start: usize) -> Option<(usize, usize)> {
    let end = run(bytes, start, is_value_byte);
    let token = bytes.get(start..end)?;
    let plain_word = token.len() < 20
        && token.iter().all(|byte| byte.is_ascii_alphabetic() || b".:!?".contains(byte));
    (!token.is_empty() && !plain_word).then_some((start, end))
}

fn starts_with(bytes: &[u8], at: usize, name: &str, ignore_case: bool) -> bool {
    bytes.get(at..at + name.len()).is_some_and(|part| {
        if ignore_case {
            part.eq_ignore_ascii_case(name.as_bytes())
        } else {
            part == name.as_bytes()
        }
    })
}

fn run(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes
        .get(from..)
        .map_or(from, |rest| from + rest.iter().take_while(|byte| wanted(**byte)).count())
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.*~+/=".contains(&byte)
}

fn is_value_byte(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"'`,;&<>\\".contains(&byte)
}
