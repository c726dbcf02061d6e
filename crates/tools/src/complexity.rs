//! The maximum work of a schema. The validator explains an error by trying every alternative, so that references can
//! multiply: both limits are checked before any argument is (docs/rules/faults.md#input-bounds).
//!
//! It must never follow a reference out of the schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The maximum number of subschemas with all references expanded.
const MAX_EXPANDED: u64 = 100_000;
/// The maximum depth of subschemas and references: compiling recurses into them.
const MAX_LEVELS: usize = 256;
/// The maximum number of errors in an explanation.
const MAX_ERRORS: usize = 20_000;

/// The cost of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// The maximum number of subschemas that apply to one value, if none refers back to itself.
    fan: usize,
    /// If one does: the maximum number of alternatives at one point. Each level of a value tries all of the level above again.
    recursive: Option<usize>,
}

/// Measures a schema.
///
/// # Errors
/// It is too deep, or its references expand to too many subschemas.
pub(super) fn measure(schema: &Value) -> Result<Cost, String> {
    let mut names = HashMap::new();
    collect_names(schema, &mut names);
    let mut walk = Walk { root: schema, names, seen: HashMap::new(), recursive: false, widest: 1 };
    let Size { expanded, fan } = walk.size(schema, 0)?;
    if expanded > MAX_EXPANDED {
        return Err(format!(
            "comes to more than {MAX_EXPANDED} subschemas when its references are followed"
        ));
    }
    Ok(Cost { fan, recursive: walk.recursive.then_some(walk.widest) })
}

/// Whether a refused value is too large to be coerced and explained.
pub(super) fn is_too_much(value: &Value, cost: Cost) -> bool {
    let (levels, values) = extent(value);
    let levels = u32::try_from(levels).unwrap_or(u32::MAX);
    let again = cost.recursive.map_or(1, |widest| widest.saturating_pow(levels));
    values.saturating_mul(cost.fan).saturating_mul(again) > MAX_ERRORS
}

/// The levels of arrays and objects in a value, and the number of its values.
fn extent(value: &Value) -> (usize, usize) {
    fn inside<'a>(values: impl Iterator<Item = &'a Value>) -> (usize, usize) {
        let (levels, count) = values
            .map(extent)
            .fold((0, 1), |(levels, count), inner| (inner.0.max(levels), inner.1 + count));
        (levels + 1, count)
    }
    match value {
        Value::Object(fields) => inside(fields.values()),
        Value::Array(items) => inside(items.iter()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (0, 1),
    }
}

/// The names of references beside pointers: TypeBox writes `{"$id": "Node"}` and `{"$ref": "Node"}`.
fn collect_names<'a>(node: &'a Value, names: &mut HashMap<&'a str, &'a Value>) {
    match node {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("$id" | "$anchor" | "$dynamicAnchor" | "id", Value::String(name)) => {
                        names.insert(name.trim_start_matches('#'), node);
                    }
                    _ => collect_names(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The size of a subschema with its references expanded.
#[derive(Debug, Clone, Copy)]
struct Size {
    expanded: u64,
    fan: usize,
}

struct Walk<'a> {
    root: &'a Value,
    names: HashMap<&'a str, &'a Value>,
    /// By address; `None` while a subschema is being measured.
    seen: HashMap<*const Value, Option<Size>>,
    recursive: bool,
    /// The maximum number of alternatives at one point.
    widest: usize,
}

impl<'a> Walk<'a> {
    fn size(&mut self, node: &'a Value, level: usize) -> Result<Size, String> {
        if level > MAX_LEVELS {
            return Err(format!("is more than {MAX_LEVELS} levels deep, references included"));
        }
        match node {
            Value::Object(fields) => {
                let address = std::ptr::from_ref(node);
                match self.seen.get(&address) {
                    Some(Some(known)) => return Ok(*known),
                    Some(None) => {
                        self.recursive = true;
                        return Ok(Size { expanded: 0, fan: 0 });
                    }
                    None => {}
                }
                self.seen.insert(address, None);
                let size = self.object(fields, level)?;
                self.seen.insert(address, Some(size));
                Ok(size)
            }
            Value::Array(items) => {
                let mut size = Size { expanded: 0, fan: 0 };
                for item in items {
                    let inner = self.size(item, level + 1)?;
                    size.expanded = size.expanded.saturating_add(inner.expanded);
                    size.fan = size.fan.saturating_add(inner.fan);
                }
                Ok(size)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Size { expanded: 0, fan: 0 })
            }
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, level: usize) -> Result<Size, String> {
        let mut expanded: u64 = 1;
        // Both the adjacent subschemas and those of inner values apply.
        let (mut beside, mut inside) = (0_usize, 1);
        let mut alternatives = 0;
        for (key, value) in fields {
            let key = key.as_str();
            let (same_value, inner) = match (key, value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    (true, self.target(reference))
                }
                // Not schemas, or used only by reference.
                ("enum" | "const" | "default" | "examples" | "$defs" | "definitions", _) => {
                    (false, None)
                }
                ("anyOf" | "oneOf" | "allOf", Value::Array(items)) => {
                    alternatives += items.len();
                    (true, Some(value))
                }
                ("not" | "if" | "then" | "else" | "dependentSchemas", _) => (true, Some(value)),
                _ => (false, Some(value)),
            };
            let Some(inner) = inner else { continue };
            let size = self.size(inner, level + 1)?;
            expanded = expanded.saturating_add(size.expanded);
            if same_value {
                beside = beside.saturating_add(size.fan);
            } else {
                inside = inside.max(size.fan);
            }
        }
        self.widest = self.widest.max(alternatives);
        Ok(Size { expanded, fan: beside.saturating_add(inside) })
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(pointer),
            Some(anchor) => self.names.get(anchor).copied(),
            None => self.names.get(reference).copied(),
        }
    }
}
