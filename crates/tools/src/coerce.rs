//! The coercions of pi: `"5"` to 5, `"true"` to true, 7 to `"7"` (docs/rules/pi.md#validation-and-coercion, ajv's
//! `coerceTypes`).
//!
//! It starts from the errors of the validator, so that `$ref`, `allOf` and nesting have the same meaning. It must never
//! change a valid value.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::{Number, Value};

use super::instance::{Instance, Metered};

/// The maximum number of rounds: a coercion may allow another (of an alternative's inner value).
const MAX_ROUNDS: usize = 8;
/// The maximum number of tried alternatives, over all rounds.
const MAX_TRIALS: usize = 32;
/// The maximum number of changed values in one round.
const MAX_FIXES: usize = 10_000;

/// One value to replace.
struct Fix {
    pointer: String,
    value: Value,
}

/// The possible fixes of one error.
enum Remedy {
    /// None.
    None,
    /// One.
    One(Vec<Fix>),
    /// One of several: the alternatives of an `anyOf` or `oneOf`, in order.
    Any(Vec<Vec<Fix>>),
}

/// Coerces `value` in place as far as the schema allows; true where anything changed.
pub(super) fn coerce(validator: &Validator<Metered>, value: &mut Value) -> bool {
    let mut changed = false;
    let mut trials = MAX_TRIALS;
    for _ in 0..MAX_ROUNDS {
        let errors: Vec<ValidationError<'_>> =
            validator.iter_errors(Instance(value)).take(MAX_FIXES).collect();
        if errors.is_empty() {
            break;
        }
        let remedies: Vec<(String, Remedy)> = errors
            .iter()
            .map(|error| (error.instance_path().as_str().to_owned(), remedy(error)))
            .collect();
        drop(errors);
        let mut progress = false;
        for (at, remedy) in remedies {
            match remedy {
                Remedy::None => {}
                Remedy::One(fixes) => progress |= apply(value, fixes),
                Remedy::Any(ways) => {
                    for fixes in ways {
                        let Some(left) = trials.checked_sub(1) else { break };
                        trials = left;
                        let mut trial = value.clone();
                        if apply(&mut trial, fixes)
                            && !validator
                                .iter_errors(Instance(&trial))
                                .any(|error| covers(&at, error.instance_path().as_str()))
                        {
                            *value = trial;
                            progress = true;
                            break;
                        }
                    }
                }
            }
        }
        if !progress {
            break;
        }
        changed = true;
    }
    changed
}

/// Whether `path` is `at` or below it.
fn covers(at: &str, path: &str) -> bool {
    path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn apply(value: &mut Value, fixes: Vec<Fix>) -> bool {
    let mut changed = false;
    for fix in fixes {
        if let Some(slot) = value.pointer_mut(&fix.pointer)
            && *slot != fix.value
        {
            *slot = fix.value;
            changed = true;
        }
    }
    changed
}

fn remedy(error: &ValidationError<'_>) -> Remedy {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Type { kind } => match scalar(error.instance(), kind) {
            Some(value) => Remedy::One(vec![Fix { pointer: pointer.to_owned(), value }]),
            None => Remedy::None,
        },
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let ways: Vec<Vec<Fix>> = context.iter().filter_map(|errors| branch(errors)).collect();
            match ways.len() {
                0 => Remedy::None,
                1 => Remedy::One(ways.into_iter().flatten().collect()),
                _ => Remedy::Any(ways),
            }
        }
        // Only types are coerced; other errors stay.
        _ => Remedy::None,
    }
}

/// The fixes that would remove the errors of one alternative, or `None` where coercion cannot.
fn branch(errors: &[ValidationError<'static>]) -> Option<Vec<Fix>> {
    let mut fixes: Vec<Fix> = Vec::new();
    for error in errors {
        match remedy(error) {
            Remedy::One(more) => fixes.extend(more),
            // Alternatives inside an alternative: the first that can be coerced is used.
            Remedy::Any(ways) => fixes.extend(ways.into_iter().next()?),
            Remedy::None => {}
        }
    }
    // A constant or an enumeration is satisfied if the coerced value equals it.
    errors
        .iter()
        .all(|error| {
            let fixed = |wanted: &dyn Fn(&Value) -> bool| {
                let pointer = error.instance_path().as_str();
                fixes.iter().any(|fix| fix.pointer == pointer && wanted(&fix.value))
            };
            match error.kind() {
                ValidationErrorKind::Constant { expected_value } => {
                    fixed(&|value| *value == **expected_value)
                }
                ValidationErrorKind::Enum { options } => {
                    fixed(&|value| options.as_array().is_some_and(|all| all.contains(value)))
                }
                _ => !matches!(remedy(error), Remedy::None),
            }
        })
        .then_some(fixes)
}

/// ajv's table: the first of the wanted types that the value can become.
fn scalar(value: &Value, kind: &TypeKind) -> Option<Value> {
    // The set has no order; numbers are first, because they preserve most of the meaning.
    const ORDER: [JsonType; 5] =
        [JsonType::Integer, JsonType::Number, JsonType::Boolean, JsonType::String, JsonType::Null];
    ORDER
        .into_iter()
        .filter(|wanted| match kind {
            TypeKind::Single(one) => one == wanted,
            TypeKind::Multiple(many) => many.contains(*wanted),
        })
        .find_map(|wanted| match wanted {
            JsonType::Integer => number(value).filter(is_whole),
            JsonType::Number => number(value),
            JsonType::Boolean => boolean(value),
            JsonType::String => string(value),
            JsonType::Null => null(value),
            JsonType::Array | JsonType::Object => None,
        })
}

fn number(value: &Value) -> Option<Value> {
    let number = match value {
        Value::Null | Value::Bool(false) => Number::from(0),
        Value::Bool(true) => Number::from(1),
        Value::String(text) => {
            let text = text.trim();
            let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
            if let Ok(whole) = text.parse::<i64>() {
                Number::from(whole)
            } else if let Ok(whole) = text.parse::<u64>() {
                Number::from(whole)
            } else if plain {
                Number::from_f64(text.parse().ok()?)?
            } else {
                return None;
            }
        }
        Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Value::Number(number))
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn boolean(value: &Value) -> Option<Value> {
    match value {
        Value::Null => Some(false),
        Value::String(text) if text == "false" => Some(false),
        Value::String(text) if text == "true" => Some(true),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::Bool(_)
        | Value::String(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
    .map(Value::Bool)
}

fn string(value: &Value) -> Option<Value> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(flag) => Some(flag.to_string()),
        // As in JavaScript: 5.0 is "5".
        Value::Number(number) => Some(match number.as_f64() {
            Some(n) if number.is_f64() && n.fract() == 0.0 && n.abs() < 1e15 => format!("{n:.0}"),
            _ => number.to_string(),
        }),
        Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
    .map(Value::String)
}

fn null(value: &Value) -> Option<Value> {
    let empty = match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    empty.then_some(Value::Null)
}
