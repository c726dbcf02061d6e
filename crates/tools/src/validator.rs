//! The validator of a schema, with the pattern engines of this crate.
//!
//! Nothing is fetched, and a pattern runs in linear time wherever it can. It must never accept a schema it cannot check.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{
    Draft, Keyword, PatternOptions, ReferencingError, Retrieve, ValidationError, ValidationOptions,
    Validator,
};
use serde_json::Value;

use super::explain::short;
use super::instance::{Instance, Metered};
use super::pattern::{self, Pattern};

/// The maximum number of instructions of all patterns of a schema.
const MAX_PATTERNS: u64 = 1_000_000;

/// The maximum characters of an error.
const MAX_WHY: usize = 200;

/// The validator of a schema with linear patterns of names.
pub(super) fn build(
    schema: &Value,
    patterns: &Arc<Patterns>,
) -> Result<Validator<Metered>, String> {
    let linear =
        PatternOptions::regex().size_limit(pattern::MAX_BYTES).dfa_size_limit(pattern::MAX_BYTES);
    let patterns = Arc::clone(patterns);
    options(schema)
        .with_pattern_options(linear)
        .with_keyword("pattern", move |_, value, _| keyword(&patterns, value))
        .build(schema)
        .map_err(|error| refusal(&error))
}

/// The compiled patterns of one schema, each once.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: Mutex<HashMap<String, Arc<Pattern>>>,
}

impl Patterns {
    pub(super) fn compile(&self, source: &str) -> Result<Arc<Pattern>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pattern) = known.get(source) {
            return Ok(Arc::clone(pattern));
        }
        let named = |why: String| format!("the pattern `{}` {why}", short(source, MAX_WHY));
        let pattern = Arc::new(Pattern::compile(source).map_err(named)?);
        let all: u64 = known.values().map(|pattern| pattern.weight()).sum();
        if all.saturating_add(pattern.weight()) > MAX_PATTERNS {
            return Err(format!("its patterns come to more than {MAX_PATTERNS} steps"));
        }
        known.insert(source.to_owned(), Arc::clone(&pattern));
        Ok(pattern)
    }
}

/// `pattern`, on the engines of this crate.
struct PatternKeyword {
    pattern: Arc<Pattern>,
    source: Box<str>,
}

fn keyword<'a>(
    patterns: &Patterns,
    value: &'a Value,
) -> Result<Box<dyn for<'i> Keyword<'i, Metered>>, ValidationError<'a>> {
    // The meta-schema has refused anything but a text.
    let source = value.as_str().unwrap_or_default();
    let pattern = patterns.compile(source).map_err(ValidationError::custom)?;
    Ok(Box::new(PatternKeyword { pattern, source: source.into() }))
}

impl<'i> Keyword<'i, Metered> for PatternKeyword {
    fn validate(&self, instance: Instance<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("must match pattern \"{}\"", self.source)))
    }

    fn is_valid(&self, instance: Instance<'i>) -> bool {
        instance.0.as_str().is_none_or(|text| self.pattern.is_match(text))
    }
}

fn refusal(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => format!(
            "refers to `{}`, which is outside it and never fetched; put the definition into `$defs`",
            short(uri, MAX_WHY)
        ),
        // The path in the schema is the instance path here, because the schema is the checked value.
        _ => format!(
            "is not JSON Schema at `#{}`: {}",
            error.instance_path().as_str(),
            short(&error.to_string(), MAX_WHY)
        ),
    }
}

/// 2020-12, unless the schema names its draft or uses keywords of an older draft: TypeBox writes tuples of draft 7. Formats
/// are checked, as in pi.
fn options(schema: &Value) -> ValidationOptions<'static, Arc<dyn Retrieve>, Metered> {
    let options = jsonschema::options_for::<Metered>().should_validate_formats(true);
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
