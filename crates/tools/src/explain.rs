//! The error that the model reads for invalid arguments: in pi's form, one line per failing path.
//!
//! Everything here is bounded. It must never repeat a long value.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::instance::{Instance, Metered};

/// The maximum number of lines.
const MAX_LINES: usize = 12;
/// The maximum characters of one line.
const MAX_LINE: usize = 240;
/// The maximum characters of the shown arguments.
const MAX_RECEIVED: usize = 400;
/// The maximum number of alternatives in one line.
const MAX_ALTERNATIVES: usize = 4;

/// The error of `value` by `validator`, or `None` where it is valid.
pub(super) fn refusal(
    tool: &str,
    validator: &Validator<Metered>,
    value: &Value,
    received: &str,
) -> Option<String> {
    let lines = lines(validator, value)?;
    let received = short(received, MAX_RECEIVED);
    Some(format!(
        "Validation failed for tool \"{tool}\":{lines}\n\nReceived arguments:\n{received}"
    ))
}

/// A line for each failing path of `value`, or `None` where it is valid.
pub(super) fn lines(validator: &Validator<Metered>, value: &Value) -> Option<String> {
    let mut errors = validator.iter_errors(Instance(value)).peekable();
    errors.peek()?;
    let mut text = String::new();
    for error in errors.by_ref().take(MAX_LINES) {
        let line = format!("{}: {}", path(&error), expected(&error));
        let _ = write!(text, "\n  - {}", short(&line, MAX_LINE));
    }
    let more = errors.count();
    if more > 0 {
        let _ = write!(text, "\n  - and {more} more");
    }
    Some(text)
}

/// An error without a path.
pub(super) fn unusable(tool: &str, why: &str, received: &str) -> String {
    format!(
        "Validation failed for tool \"{tool}\":\n  - root: {why}\n\nReceived arguments:\n{}",
        short(received, MAX_RECEIVED)
    )
}

fn path(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str().trim_start_matches('/');
    match (pointer, error.kind()) {
        ("", ValidationErrorKind::Required { property }) => {
            property.as_str().unwrap_or("root").to_owned()
        }
        ("", _) => "root".to_owned(),
        (pointer, _) => pointer.replace("~1", "/").replace("~0", "~"),
    }
}

fn expected(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Type { kind } => format!("must be {}", types(kind)),
        ValidationErrorKind::Required { property } => {
            format!("must have required property '{}'", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("must NOT have additional properties ('{}')", unexpected.join("', '"))
        }
        ValidationErrorKind::Enum { options } => {
            format!("must be equal to one of the allowed values: {options}")
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("must be equal to {expected_value}")
        }
        ValidationErrorKind::Minimum { limit } => format!("must be >= {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("must be <= {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("must be > {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("must be < {limit}"),
        // The engine's own keyword, `pattern`, has its own message.
        ValidationErrorKind::Custom { message, .. } => message.clone(),
        ValidationErrorKind::Format { format } => format!("must match format \"{format}\""),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            alternatives(&path(error), context)
        }
        // Others are rare; the validator's own message, without the value, names what was expected.
        _ => error.masked().to_string(),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(many) => {
            many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn alternatives(at: &str, branches: &[Vec<ValidationError<'static>>]) -> String {
    let firsts: Vec<String> = branches
        .iter()
        .filter_map(|errors| errors.first())
        .take(MAX_ALTERNATIVES)
        .map(|error| match path(error) {
            path if path == at => expected(error),
            path => format!("{path} {}", expected(error)),
        })
        .collect();
    format!("must match one of the alternatives: {}", firsts.join(", or "))
}

/// At most `max` characters, with a marker if the text was cut.
pub(super) fn short(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((at, _)) => format!(
            "{}… ({} characters in all)",
            text.get(..at).unwrap_or_default(),
            text.chars().count()
        ),
    }
}
