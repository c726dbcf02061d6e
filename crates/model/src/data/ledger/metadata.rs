//! The host's own data on sessions and turns: one JSON object, and conditions on its keys.
//!
//! A value is stored in one form, so that equal values have equal texts. It must never be sent to a provider.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::InputError;

/// The host's metadata of a session or a turn: the text of a JSON object, without spaces, its keys in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata(String);

impl Metadata {
    /// The longest text in bytes.
    pub const MAX_BYTES: usize = 16 << 10;
    /// The longest key in bytes.
    const MAX_KEY_BYTES: usize = 256;

    /// The metadata that a JSON text is.
    ///
    /// # Errors
    /// For what is no object, for a key that is empty or long, for a text that is too long.
    pub fn parse(path: &str, json: &str) -> Result<Self, InputError> {
        if !json.trim_start().starts_with('{') {
            return Err(InputError::new(path, "is not an object; pass a JSON object"));
        }
        let fields: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| InputError::new(path, format!("is not usable JSON: {error}")))?;
        Self::of(path, &fields)
    }

    fn of(path: &str, fields: &Map<String, Value>) -> Result<Self, InputError> {
        for key in fields.keys() {
            if key.is_empty() {
                return Err(InputError::new(path, "has an empty key; name it"));
            }
            if key.len() > Self::MAX_KEY_BYTES {
                let message = format!(
                    "has a key of {} bytes; at most {} are allowed",
                    key.len(),
                    Self::MAX_KEY_BYTES
                );
                return Err(InputError::new(path, message));
            }
        }
        // A map of parsed values always has a text.
        let text = serde_json::to_string(fields).unwrap_or_default();
        if text.len() > Self::MAX_BYTES {
            let message = format!(
                "has {} bytes as JSON; at most {} are allowed",
                text.len(),
                Self::MAX_BYTES
            );
            return Err(InputError::new(path, message));
        }
        Ok(Self(text))
    }

    /// Metadata that the ledger has stored.
    #[must_use]
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        Self::of("metadata", &fields).map_err(|error| Error::custom(error.message))
    }
}

/// What becomes of metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[cfg_attr(feature = "testing", ts(type = "Readonly<Record<string, unknown>> | null"))]
pub enum MetadataChange {
    /// It stays.
    #[default]
    None,
    /// It is removed.
    Remove,
    /// It is replaced.
    Replace(Metadata),
}

impl<'de> Deserialize<'de> for MetadataChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Remove, Self::Replace))
    }
}

/// A key of metadata that filters, reports and indexes name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataKey(String);

impl MetadataKey {
    /// A key of the characters that every path of a key may have.
    ///
    /// # Errors
    /// For any other name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let usable = (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
        if usable {
            Ok(Self(name.to_owned()))
        } else {
            Err("is not a key that can be looked up; use 1 to 64 of A-Z a-z 0-9 _ - . :".to_owned())
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The values that keys of metadata must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataFilter(Vec<(MetadataKey, String)>);

impl MetadataFilter {
    /// The most keys of a filter.
    const MAX_KEYS: usize = 8;

    /// The keys with the JSON texts of their values, in order.
    #[must_use]
    pub fn conditions(&self) -> &[(MetadataKey, String)] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for MetadataFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = BTreeMap::<String, Value>::deserialize(deserializer)?;
        if given.is_empty() || given.len() > Self::MAX_KEYS {
            return Err(Error::custom(format!(
                "has {} keys; pass 1 to {}",
                given.len(),
                Self::MAX_KEYS
            )));
        }
        let mut conditions = Vec::with_capacity(given.len());
        for (name, value) in given {
            let key = MetadataKey::parse(&name)
                .map_err(|why| Error::custom(format!("a key of it {why}")))?;
            match value {
                Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                    conditions.push((key, value.to_string()));
                }
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(Error::custom(format!(
                        "`{name}` is not a value to compare with; pass a string, a number or a boolean"
                    )));
                }
            }
        }
        Ok(Self(conditions))
    }
}

#[cfg(test)]
mod tests {
    use super::{Metadata, MetadataFilter};

    #[test]
    fn metadata_is_an_object_of_named_keys_up_to_16_kib() {
        let wrong = |json: &str| Metadata::parse("metadata", json).unwrap_err().message;
        assert_eq!(wrong("[1]"), "is not an object; pass a JSON object");
        assert_eq!(wrong(r#"{"": 1}"#), "has an empty key; name it");
        let long = format!(r#"{{"{}": 1}}"#, "k".repeat(257));
        assert_eq!(wrong(&long), "has a key of 257 bytes; at most 256 are allowed");
        let large = format!(r#"{{"k": "{}"}}"#, "x".repeat(Metadata::MAX_BYTES));
        assert_eq!(wrong(&large), "has 16392 bytes as JSON; at most 16384 are allowed");
    }

    #[test]
    fn equal_metadata_has_one_text() {
        let one = Metadata::parse("metadata", r#"{ "b": 1, "a": { "x": [true, null] } }"#).unwrap();
        let other = Metadata::parse("metadata", r#"{"a":{"x":[true,null]},"b":1}"#).unwrap();
        assert_eq!((one.as_str(), &one), (r#"{"a":{"x":[true,null]},"b":1}"#, &other));
        assert_eq!(serde_json::to_string(&one).unwrap(), one.as_str());
    }

    #[test]
    fn a_filter_names_keys_and_plain_values() {
        for (json, wrong) in [
            ("{}", "has 0 keys; pass 1 to 8"),
            (r#"{"a'b": 1}"#, "a key of it is not a key that can be looked up"),
            (r#"{"a": null}"#, "`a` is not a value to compare with"),
            (r#"{"a": [1]}"#, "`a` is not a value to compare with"),
        ] {
            let error = serde_json::from_str::<MetadataFilter>(json).unwrap_err().to_string();
            assert!(error.contains(wrong), "{json}: {error}");
        }
        let filter: MetadataFilter =
            serde_json::from_str(r#"{"n": 1, "a.b": "x", "t": true}"#).unwrap();
        let found: Vec<_> =
            filter.conditions().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a.b", "\"x\""), ("n", "1"), ("t", "true")]);
    }
}
