//! A JSON value with counted access: every read of the validator costs a step. Every keyword, combination and recursion of a
//! schema reads the value, so that all work is counted.
//!
//! It must never behave differently from the value itself.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson, cmp};
use serde_json::{Map, Number, Value};

use super::meter::charge;

/// The bytes of a text that count as one step: formats read a text once.
const TEXT: u64 = 16;

/// The representation.
pub(super) struct Metered;

/// One value of it.
#[derive(Clone, Copy)]
pub(super) struct Instance<'a>(pub(super) &'a Value);

pub(super) struct Members<'a>(&'a Map<String, Value>);
pub(super) struct Items<'a>(&'a [Value]);

impl Json for Metered {
    type Node<'a> = Instance<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    const KEYS_PER_LOOKUP: usize = SerdeJson::KEYS_PER_LOOKUP;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(Instance<'_>) -> T,
    ) -> T {
        charge(text(string));
        *buffer = Value::String(string.to_owned());
        f(Instance(buffer))
    }
}

/// The steps of reading a text once.
fn text(text: &str) -> u64 {
    1 + u64::try_from(text.len()).unwrap_or(u64::MAX) / TEXT
}

/// The steps of reading everything in a value.
fn whole(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| text(key) + whole(value)).sum::<u64>() + 1
        }
        Value::Array(items) => items.iter().map(whole).sum::<u64>() + 1,
        Value::String(string) => text(string),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

impl<'a> Node<'a, Metered> for Instance<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        charge(1);
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        charge(1);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let string = self.0.as_str();
        charge(string.map_or(1, text));
        string.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        charge(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        charge(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        charge(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        charge(1);
        JsonType::from(self.0)
    }

    fn string_length(&self) -> Option<u64> {
        charge(self.0.as_str().map_or(1, text));
        Node::<SerdeJson>::string_length(&self.0)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        // A comparison ends at the first difference, so its cost is bounded by the expected value.
        charge(whole(expected));
        cmp::equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        charge(1);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Node::<SerdeJson>::identity(&self.0)
    }
}

/// Names with their values.
pub(super) struct MembersIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Instance<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        charge(text(name));
        Some((name, Instance(value)))
    }
}

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Instance<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Instance<'a>> {
        charge(1);
        self.0.get(key).map(Instance)
    }

    fn members(&self) -> MembersIter<'a> {
        charge(1);
        MembersIter(self.0.iter())
    }
}

/// The values of an array.
pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Instance<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        charge(1);
        self.0.next().map(Instance)
    }
}

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Instance<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        charge(self.0.iter().map(whole).sum::<u64>().saturating_mul(2));
        // By their text, which differs for different values: with a hash of the leaves only, a model could write thousands of
        // colliding items.
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0.iter().all(|item| {
            let mut text = String::new();
            canonical(item, &mut text);
            seen.insert(text)
        })
    }
}

/// The same text for equal values only. Numbers are equal by value; keys are sorted.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => number_text(number, out),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (key, value) in fields {
                let _ = write!(out, "{key:?}:");
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

fn number_text(number: &Number, out: &mut String) {
    let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
    let _ = match whole {
        // Whole floats are written like integers; negative zero is zero.
        Some(float) => write!(out, "{:.0}", if float == 0.0 { 0.0 } else { float }),
        None => write!(out, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Instance, Metered};
    use crate::meter::metered;
    use jsonschema::json::{Array, Node};

    fn is_unique(value: &serde_json::Value) -> bool {
        metered(u64::MAX, None, || Node::<Metered>::as_array(&Instance(value)).unwrap().is_unique())
            .unwrap()
    }

    #[test]
    fn items_are_compared_by_value() {
        for same in [
            json!([1, 1.0]),
            json!([0, -0.0]),
            json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
            json!([1e20, 100_000_000_000_000_000_000_u128 as f64]),
            json!([null, 1, 2, null]),
        ] {
            assert!(!is_unique(&same), "{same}");
        }
        for different in [
            json!([1, "1", true, "true", null, "null"]),
            json!([[1, 2], [[1], 2], [1, [2]], [[1, 2]], [[[]]], [[]], []]),
            json!([9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64]),
            json!([0.1, 0.2, 1.5]),
            json!([{"a": 1}, {"a": "1"}, {"b": 1}, {}]),
            json!(["a\",", "a\"", "[a]", ["a"]]),
        ] {
            assert!(is_unique(&different), "{different}");
        }
    }
}
