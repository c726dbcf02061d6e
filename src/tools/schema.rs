//! One tool's JSON Schema, compiled (FAULTS §2.5).
//!
//! Nothing is fetched, and a pattern runs in linear time wherever it can. It must never accept a schema it cannot check.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{
    Draft, PatternOptions, ReferencingError, ValidationError, ValidationOptions, Validator,
};
use serde_json::Value;

use super::complexity::{self, Cost};
use super::explain::short;

/// The largest schema in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// The largest compiled pattern in bytes; nested repeats grow past it and are refused.
const MAX_PATTERN_BYTES: usize = 4 * 1024 * 1024;
/// Steps of a pattern that needs look-around or back references, and so cannot run in linear time.
const MAX_BACKTRACKS: usize = 50_000;

/// Characters of a refusal.
const MAX_WHY: usize = 200;

/// A compiled schema, and what explaining its refusals costs.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) validator: Validator,
    pub(super) cost: Cost,
}

/// Compiles a schema.
pub(super) fn compile(json: &str) -> Result<Schema, String> {
    if json.len() > MAX_BYTES {
        return Err(format!("is {} bytes long; at most {MAX_BYTES} are allowed", json.len()));
    }
    // serde_json refuses more than 128 levels.
    let schema: Value =
        serde_json::from_str(json).map_err(|error| format!("is not usable JSON: {error}"))?;
    if !schema.is_object() {
        return Err("is not a JSON Schema object".to_owned());
    }
    let cost = complexity::measure(&schema)?;
    let base = options(&schema);
    let linear =
        PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let bounded = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_BACKTRACKS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    base.clone()
        .with_pattern_options(linear)
        .build(&schema)
        .or_else(|_| base.with_pattern_options(bounded).build(&schema))
        .map(|validator| Schema { validator, cost })
        .map_err(|error| refusal(&error))
}

fn refusal(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => format!(
            "refers to `{}`, which is outside it and never fetched; put the definition into `$defs`",
            short(uri, MAX_WHY)
        ),
        // The path in the schema is the instance path here: the schema is what was checked.
        _ => format!(
            "is not JSON Schema at `#{}`: {}",
            error.instance_path().as_str(),
            short(&error.to_string(), MAX_WHY)
        ),
    }
}

/// 2020-12, unless the schema names its draft or uses words that an older draft spells otherwise: TypeBox writes tuples
/// as draft 7 does. Formats are checked, as pi does.
fn options(schema: &Value) -> ValidationOptions<'static> {
    let options = jsonschema::options().should_validate_formats(true);
    if schema.get("$schema").is_some() {
        return options;
    }
    match dialect(schema) {
        Dialect::Current => options.with_draft(Draft::Draft202012),
        Dialect::Seven => options.with_draft(Draft::Draft7),
        Dialect::Four => options.with_draft(Draft::Draft4),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    Current,
    Seven,
    Four,
}

fn dialect(schema: &Value) -> Dialect {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => Dialect::Four,
                ("items", Value::Array(_)) => dialect(value).max(Dialect::Seven),
                _ => dialect(value),
            })
            .max()
            .unwrap_or(Dialect::Current),
        Value::Array(items) => items.iter().map(dialect).max().unwrap_or(Dialect::Current),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Dialect::Current,
    }
}
