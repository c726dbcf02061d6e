//! Patterns of property names with look-around. The validator evaluates `patternProperties` and `additionalProperties`, which
//! reads the same patterns, with its own regex engine. So each such pattern is matched with the engine of this crate against
//! the names of the value, and the schema is rebuilt with the matched names instead.
//!
//! Rare. It must never change which names a pattern matches.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::instance::Metered;
use super::meter::charge;
use super::pattern::Pattern;
use super::validator::{Patterns, build};

/// The keyword.
const KEYWORD: &str = "patternProperties";
/// The maximum bytes of names that one pattern may match.
const MAX_NAMES: usize = 64 * 1024;
/// The steps per byte of rebuilding a schema.
const PER_BYTE: u64 = 16;

/// A schema with such patterns.
#[derive(Debug)]
pub(super) struct NamePatterns {
    schema: Value,
    bytes: u64,
    looking: HashMap<String, Arc<Pattern>>,
    patterns: Arc<Patterns>,
}

impl NamePatterns {
    /// The parts of a schema to rebuild; none where all patterns of names are linear.
    pub(super) fn of(schema: &Value, patterns: &Arc<Patterns>) -> Result<Option<Self>, String> {
        let mut looking = HashMap::new();
        collect(schema, patterns, &mut looking)?;
        Ok((!looking.is_empty()).then(|| Self {
            bytes: u64::try_from(schema.to_string().len()).unwrap_or(u64::MAX),
            schema: schema.clone(),
            looking,
            patterns: Arc::clone(patterns),
        }))
    }

    /// The schema for a value without names.
    pub(super) fn without(&self) -> Value {
        self.rewritten(&BTreeSet::new())
    }

    /// The validator for the names of this value.
    pub(super) fn validator(&self, value: &Value) -> Result<Validator<Metered>, String> {
        let mut names = BTreeSet::new();
        collect_names(value, &mut names);
        charge(self.bytes.saturating_mul(PER_BYTE));
        build(&self.rewritten(&names), &self.patterns)
    }

    fn rewritten(&self, names: &BTreeSet<&str>) -> Value {
        let taken: HashMap<&str, String> = self
            .looking
            .iter()
            .enumerate()
            .filter_map(|(index, (source, pattern))| {
                Some((
                    source.as_str(),
                    alternation(
                        index,
                        names.iter().copied().filter(|name| pattern.is_match(name)),
                    )?,
                ))
            })
            .collect();
        let mut schema = self.schema.clone();
        rewrite(&mut schema, &self.looking, &taken);
        schema
    }
}

fn collect(
    node: &Value,
    patterns: &Patterns,
    looking: &mut HashMap<String, Arc<Pattern>>,
) -> Result<(), String> {
    match node {
        Value::Object(fields) => {
            if let Some(Value::Object(named)) = fields.get(KEYWORD) {
                for source in named.keys() {
                    // An invalid pattern is refused where the schema is built, with its path.
                    let Ok(pattern) = Pattern::compile(source) else { continue };
                    if !pattern.is_linear() {
                        looking.insert(source.clone(), patterns.compile(source)?);
                    }
                }
            }
            fields.values().try_for_each(|value| collect(value, patterns, looking))
        }
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, patterns, looking)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn collect_names<'a>(value: &'a Value, names: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name);
                collect_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rewrite(
    node: &mut Value,
    looking: &HashMap<String, Arc<Pattern>>,
    taken: &HashMap<&str, String>,
) {
    match node {
        Value::Object(fields) => {
            if let Some(Value::Object(named)) = fields.get_mut(KEYWORD)
                && named.keys().any(|source| looking.contains_key(source))
            {
                *named = std::mem::take(named)
                    .into_iter()
                    .filter_map(|(source, schema)| {
                        if !looking.contains_key(&source) {
                            return Some((source, schema));
                        }
                        taken.get(source.as_str()).map(|names| (names.clone(), schema))
                    })
                    .collect::<Map<String, Value>>();
            }
            fields.values_mut().for_each(|value| rewrite(value, looking, taken));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, looking, taken)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A pattern of exactly these names; one without matches if there are none. The index separates two patterns with the same
/// names.
fn alternation<'a>(index: usize, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut all = String::new();
    for name in names {
        if all.len() > MAX_NAMES {
            super::meter::spend();
        }
        if !all.is_empty() {
            all.push('|');
        }
        all.push_str("(?:");
        for c in name.chars() {
            if c.is_ascii_alphanumeric() || !c.is_ascii() {
                all.push(c);
            } else {
                let _ = write!(all, "\\x{:02x}", u32::from(c));
            }
        }
        all.push(')');
    }
    (!all.is_empty()).then(|| format!("^(?:{all})(?:){{{index}}}$"))
}
