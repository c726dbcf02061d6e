//! One field of the host's JSON as a value, or the error that names the field's path.
//!
//! It must never quote a value that may be a secret.

use serde::de::{Deserialize, DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::data::input::error_path::{error_path, position_path, reason};
use crate::data::input::quote::quoted;
use crate::data::input::type_words;

/// An invalid input, and its path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {message}")]
pub struct InputError {
    /// The field: `history[3].content[0].type`.
    pub path: String,
    /// What is wrong and what to pass instead.
    pub message: String,
}

impl InputError {
    /// An error at a path, with a message.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

pub(super) type Parsed<T> = Result<T, InputError>;

pub(super) fn missing(path: &str) -> InputError {
    InputError::new(path, "is missing")
}

pub(super) fn value(path: &str, raw: &RawValue) -> Parsed<Value> {
    serde_json::from_str(raw.get())
        .map_err(|error| InputError::new(path, format!("is not usable JSON: {error}")))
}

/// The value at `path` as a `T`, or where in it the input is wrong.
pub fn typed<T: DeserializeOwned>(path: &str, raw: &RawValue) -> Parsed<T> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let inner = error_path::<T>(raw.get(), &error);
        let path = match inner.as_str() {
            "." => path.to_owned(),
            inner if inner.starts_with('[') => format!("{path}{inner}"),
            inner => format!("{path}.{inner}"),
        };
        input_error(path, &error)
    })
}

/// JSON text as a `T`, or where in it the input is wrong; the whole of it is at `.`.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    serde_json::from_str(text).map_err(|error| input_error(error_path::<T>(text, &error), &error))
}

/// As [`from_json`], for a type that refers to the text.
pub fn borrowed_from_json<'t, T: Deserialize<'t>>(text: &'t str) -> Parsed<T> {
    serde_json::from_str(text).map_err(|error| input_error(position_path(text, &error), &error))
}

/// The error of serde for the value at `path`, with the name of a missing field in the path.
fn input_error(path: String, error: &serde_json::Error) -> InputError {
    let text = plain(error);
    match text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        // The path of the whole text.
        Some(field) if path == "." => missing(field),
        Some(field) => missing(&format!("{path}.{field}")),
        None => InputError::new(path, text),
    }
}

/// The longest unknown value that an error repeats, with its backticks.
const LONGEST_REPEATED_VALUE: usize = 22;

/// serde's message without the position, and without the value it quotes (it may be a secret).
fn plain(error: &serde_json::Error) -> String {
    let reason = reason(error);
    let text = reason.as_str();
    let expected = match text.rsplit_once(", expected ") {
        Some((_, name)) => format!(", expected {}", type_words::expected(name)),
        None => String::new(),
    };
    let names = |what: &str| text.strip_prefix(what).filter(|_| !expected.is_empty());
    if text.contains("surrogate in hex escape") || text == "unexpected end of hex escape" {
        return "has half of a surrogate pair, as a cut through a character leaves it; pass whole text"
            .to_owned();
    }
    if let Some((given, expected)) =
        text.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "))
    {
        return format!("unknown field {}, expected {expected}", quoted(given));
    }
    if let Some(kind) = names("invalid type: ") {
        let kind = kind.split([' ', ',']).next().unwrap_or_default();
        format!("is {}{expected}", type_words::given(kind))
    } else if names("invalid length ").is_some() {
        format!("has the wrong length{expected}")
    } else if names("invalid value: ").is_some() {
        format!("has a value that cannot be used{expected}")
    } else if let Some(given) = names("unknown variant ") {
        // A short value is repeated, because it may be a typo; one longer than any known value may be a misplaced key.
        let given = given.split(", expected ").next().unwrap_or_default();
        let word = given.len() <= LONGEST_REPEATED_VALUE
            && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"`-_".contains(&byte));
        format!("{} is not known{expected}", if word { given } else { "this value" })
    } else {
        text.to_owned()
    }
}

/// As [`typed`], for a required field.
pub fn required<T: DeserializeOwned>(path: &str, raw: Option<&RawValue>) -> Parsed<T> {
    typed(path, raw.ok_or_else(|| missing(path))?)
}

/// As [`typed`], for an optional field.
pub fn optional<T: DeserializeOwned>(path: &str, raw: Option<&RawValue>) -> Parsed<Option<T>> {
    raw.filter(|raw| raw.get() != "null").map(|raw| typed(path, raw)).transpose()
}

pub(super) fn positive(path: &str, raw: Option<&RawValue>) -> Parsed<Option<u64>> {
    match optional(path, raw)? {
        Some(0) => Err(InputError::new(path, "`0` is not usable; pass at least 1 or leave it out")),
        other => Ok(other),
    }
}

pub(super) fn non_empty(path: &str, raw: Option<&RawValue>) -> Parsed<String> {
    let text: String = required(path, raw)?;
    if text.is_empty() { Err(InputError::new(path, "is empty")) } else { one_line(path, text) }
}

/// Checks a name or an id. A line break or a NUL in it would end a header, a URL or a log line early.
pub fn one_line(path: &str, text: String) -> Parsed<String> {
    if text.chars().any(char::is_control) {
        return Err(InputError::new(path, "has a control character; remove it"));
    }
    Ok(text)
}

pub(super) fn optional_id(path: &str, raw: Option<&RawValue>) -> Parsed<Option<String>> {
    optional::<String>(path, raw)?.map(|id| one_line(path, id)).transpose()
}

/// Whether all APIs accept a text as a name.
pub(super) fn usable_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
