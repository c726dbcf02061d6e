//! Arguments in pieces (`partialArgs`): builds one object from values at JSON paths.
//!
//! It must never guess: an invalid path makes the whole call unusable.

use serde_json::{Map, Value};

use super::wire::PartialArg;

/// The maximum depth of a path and the highest index: more is not plausible for a tool (docs/rules/faults.md#input-bounds).
const MAX_DEPTH: usize = 100;
const MAX_INDEX: usize = 10_000;

/// The arguments so far.
#[derive(Debug)]
pub(super) struct Partial {
    /// The call's block.
    pub(super) block: u32,
    arguments: Value,
    broken: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Partial {
    pub(super) fn new(block: u32) -> Self {
        Self { block, arguments: Value::Object(Map::new()), broken: false }
    }

    /// Adds the pieces of one part, and returns their bytes.
    pub(super) fn take(&mut self, pieces: &[PartialArg<'_>]) -> usize {
        let mut bytes = 0;
        for piece in pieces {
            bytes += piece.json_path.as_str().len()
                + piece.string_value.as_ref().map_or(0, |text| text.as_str().len())
                + piece.number_value.map_or(0, |number| number.get().len());
            let put = steps(piece.json_path.as_str())
                .and_then(|steps| target(&mut self.arguments, steps))
                .is_some_and(|target| put(target, piece));
            self.broken |= !put;
        }
        bytes
    }

    /// The whole arguments as JSON text; `None` where a piece was invalid.
    pub(super) fn finish(self) -> Option<String> {
        (!self.broken).then(|| self.arguments.to_string())
    }
}

/// Sets a value at its path: a string grows, other values are whole.
fn put(target: &mut Value, piece: &PartialArg<'_>) -> bool {
    let value = if let Some(text) = &piece.string_value {
        if let Value::String(so_far) = target {
            so_far.push_str(text.as_str());
            return true;
        }
        Value::String(text.as_str().to_owned())
    } else if let Some(number) = piece.number_value {
        match serde_json::from_str::<Value>(number.get()) {
            Ok(number @ Value::Number(_)) => number,
            Ok(_) | Err(_) => return false,
        }
    } else {
        // `nullValue` is an enum with one name; null is also an absent value.
        piece.bool_value.map_or(Value::Null, Value::Bool)
    };
    *target = value;
    true
}

/// The value at a path, created if it does not exist yet.
fn target(root: &mut Value, steps: Vec<Step>) -> Option<&mut Value> {
    let mut target = root;
    for step in steps {
        target = match step {
            Step::Key(key) => {
                if target.is_null() {
                    *target = Value::Object(Map::new());
                }
                target.as_object_mut()?.entry(key).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if target.is_null() {
                    *target = Value::Array(Vec::new());
                }
                let items = target.as_array_mut()?;
                if items.len() <= index {
                    items.resize(index + 1, Value::Null);
                }
                items.get_mut(index)?
            }
        };
    }
    Some(target)
}

/// Reads `$.a[0]['b c']`; `None` for anything but a path to one value below the root.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, tail) = after.split_at_checked(end)?;
            if key.is_empty() || key == "*" {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            rest = tail;
        } else {
            let after = rest.strip_prefix('[')?;
            if let Some(quote @ ('\'' | '"')) = after.chars().next() {
                let (key, tail) = quoted(after.get(1..)?, quote)?;
                steps.push(Step::Key(key));
                rest = tail.strip_prefix(']')?;
            } else {
                let (index, tail) = after.split_once(']')?;
                steps.push(Step::Index(index.parse().ok().filter(|index| *index <= MAX_INDEX)?));
                rest = tail;
            }
        }
        if steps.len() > MAX_DEPTH {
            return None;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// A quoted key and the text after its quote.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return Some((key, text.get(at + 1..)?));
        }
        key.push(if letter == '\\' { letters.next()?.1 } else { letter });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pieces: &str) -> Option<String> {
        let pieces: Vec<PartialArg<'_>> = serde_json::from_str(pieces).unwrap();
        let mut partial = Partial::new(0);
        // One by one gives the same as all together.
        let bytes: usize =
            pieces.iter().map(|piece| partial.take(std::slice::from_ref(piece))).sum();
        let mut at_once = Partial::new(0);
        assert_eq!(at_once.take(&pieces), bytes);
        let finished = partial.finish();
        assert_eq!(finished, at_once.finish());
        finished
    }

    #[test]
    fn values_and_pieces_of_strings_become_one_object() {
        let pieces = r#"[{"jsonPath":"$.ops[0].do","stringValue":"a","willContinue":true},
            {"jsonPath":"$.ops[0].do","stringValue":"dd"},{"jsonPath":"$.ops[1]['n m']","numberValue":1.50},
            {"jsonPath":"$.ok","boolValue":true},{"jsonPath":"$.none","nullValue":"NULL_VALUE"}]"#;
        let expected = r#"{"none":null,"ok":true,"ops":[{"do":"add"},{"n m":1.5}]}"#;
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&whole(pieces).unwrap()), value(expected));
        assert_eq!(whole("[]").as_deref(), Some("{}"));
    }

    #[test]
    fn an_invalid_path_makes_the_call_unusable() {
        for path in ["", "a", "$", "$..a", "$.*", "$[x]", "$.a[99999]", "$['a", "$[0]"] {
            let pieces = format!(r#"[{{"jsonPath":"{path}","stringValue":"x"}}]"#);
            assert_eq!(whole(&pieces), None, "{path}");
        }
        let clash = r#"[{"jsonPath":"$.a","numberValue":1},{"jsonPath":"$.a.b","numberValue":1}]"#;
        assert_eq!(whole(clash), None);
    }
}
