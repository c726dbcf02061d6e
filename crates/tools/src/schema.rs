//! One tool's JSON Schema, compiled.
//!
//! Nothing is fetched, and a pattern runs in linear time wherever it can. It must never accept a schema it cannot check.

use std::borrow::Cow;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::complexity::{self, Cost};
use super::instance::Metered;
use super::name_patterns::NamePatterns;
use super::validator::{Patterns, build};

/// The largest schema in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// A compiled schema, and the cost of explaining its errors.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator<Metered>,
    pub(super) cost: Cost,
    /// For patterns of names with look-around: the parts from which the validator is rebuilt for the names of one value.
    names: Option<NamePatterns>,
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
    let patterns = Arc::new(Patterns::default());
    let names = NamePatterns::of(&schema, &patterns)?;
    let validator = match &names {
        Some(names) => build(&names.without(), &patterns),
        None => build(&schema, &patterns),
    }?;
    Ok(Schema { validator, cost, names })
}

impl Schema {
    /// The validator for this value. Counts its steps.
    pub(super) fn validator(&self, value: &Value) -> Result<Cow<'_, Validator<Metered>>, String> {
        match &self.names {
            None => Ok(Cow::Borrowed(&self.validator)),
            Some(names) => names.validator(value).map(Cow::Owned),
        }
    }
}
