//! How much work a schema can make of a value. The validator explains a refusal by trying every alternative, so that
//! references can multiply: both bounds here are known before any argument comes (FAULTS §2.5).
//!
//! It must never follow a reference out of the schema.

use std::collections::HashMap;

use serde_json::Value;

/// Subschemas with all references written out.
const MAX_EXPANDED: u64 = 100_000;
/// Levels of subschemas and references: compiling recurses into them.
const MAX_LEVELS: usize = 256;
/// Alternatives that explaining one refusal may try.
const MAX_TRIED: usize = 4_096;

/// How deep a value may be for its refusal to be explained; `None` where any depth is cheap.
pub(super) type ExplainDepth = Option<usize>;

/// Measures a schema.
///
/// # Errors
/// Where it is too deep, or its references multiply beyond use.
pub(super) fn measure(schema: &Value) -> Result<ExplainDepth, String> {
    let mut names = HashMap::new();
    collect_names(schema, &mut names);
    let mut walk = Walk { root: schema, names, seen: HashMap::new(), recursive: false, widest: 1 };
    let expanded = walk.expanded(schema, 0)?;
    if expanded > MAX_EXPANDED {
        return Err(format!(
            "comes to more than {MAX_EXPANDED} subschemas when its references are followed"
        ));
    }
    if !walk.recursive || walk.widest < 2 {
        return Ok(None);
    }
    // Each level of the value tries every alternative of the level above once more.
    let depth = std::iter::successors(Some(walk.widest), |tried| tried.checked_mul(walk.widest))
        .take_while(|&tried| tried <= MAX_TRIED)
        .count();
    Ok(Some(depth.max(1)))
}

/// The levels of arrays and objects in a value.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// What references may name beside pointers: TypeBox writes `{"$id": "Node"}` and `{"$ref": "Node"}`.
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

struct Walk<'a> {
    root: &'a Value,
    names: HashMap<&'a str, &'a Value>,
    /// By address: the size of a subschema, or `None` while it is being measured.
    seen: HashMap<*const Value, Option<u64>>,
    recursive: bool,
    /// The most alternatives at one place.
    widest: usize,
}

impl<'a> Walk<'a> {
    fn expanded(&mut self, node: &'a Value, level: usize) -> Result<u64, String> {
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
                        return Ok(0);
                    }
                    None => {}
                }
                self.seen.insert(address, None);
                let mut total: u64 = 1;
                let mut alternatives = 0;
                for (key, value) in fields {
                    let inner = match (key.as_str(), value) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                            self.target(reference)
                        }
                        // Not schemas, or only reached by reference.
                        (
                            "enum" | "const" | "default" | "examples" | "$defs" | "definitions",
                            _,
                        ) => None,
                        ("anyOf" | "oneOf" | "allOf", Value::Array(items)) => {
                            alternatives += items.len();
                            Some(value)
                        }
                        _ => Some(value),
                    };
                    if let Some(inner) = inner {
                        total = total.saturating_add(self.expanded(inner, level + 1)?);
                    }
                }
                self.widest = self.widest.max(alternatives);
                self.seen.insert(address, Some(total));
                Ok(total)
            }
            Value::Array(items) => items.iter().try_fold(0_u64, |sum, item| {
                Ok(sum.saturating_add(self.expanded(item, level + 1)?))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(0),
        }
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
