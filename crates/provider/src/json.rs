//! JSON at the byte level, shared by all wires. It must never build a tree.
//!
//! The encoders write the keys of a message themselves and its values with these functions: they run over the whole
//! conversation, and its stored JSON (arguments, schemas, opaque blocks) must be sent byte for byte.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use model::repair_surrogates;

#[cfg(test)]
mod tests;

/// Writes a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    // Neither a string nor writing to a vector can fail.
    let _ = serde_json::to_writer(out, text);
}

/// Splices JSON text. APIs refuse a body with lone surrogates, even those they sent.
pub(crate) fn write_raw(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(&repair_surrogates(json.as_bytes()));
}

/// Splices the arguments of a call as an object. A call with other arguments has an error result; its replay must still be
/// an object.
pub(crate) fn write_arguments(out: &mut Vec<u8>, json: &str) {
    if is_object(json) {
        write_raw(out, json);
    } else {
        out.extend_from_slice(b"{}");
    }
}

/// A JSON list being written: puts the commas between its items.
pub(crate) struct List<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) any: bool,
}

impl List<'_> {
    pub(crate) fn item(&mut self) -> &mut Vec<u8> {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        self.out
    }
}

/// Repairs what strict JSON refuses but JavaScript accepts: lone surrogates and invalid UTF-8 become U+FFFD.
pub(crate) fn repair(data: &[u8]) -> Cow<'_, str> {
    match repair_surrogates(data) {
        Cow::Borrowed(data) => String::from_utf8_lossy(data),
        Cow::Owned(data) => Cow::Owned(String::from_utf8_lossy(&data).into_owned()),
    }
}

/// Whether a text is one JSON object. Scans without building anything.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The fields of a JSON object, in order, each as raw text; `None` where the text is no object.
pub(crate) fn fields_of(object: &str) -> Option<Vec<(Text<'_>, &RawValue)>> {
    struct Fields;
    impl<'de> Visitor<'de> for Fields {
        type Value = Vec<(Text<'de>, &'de RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(field) = map.next_entry()? {
                fields.push(field);
            }
            Ok(fields)
        }
    }
    serde_json::Deserializer::from_str(object).deserialize_map(Fields).ok()
}

/// An object with one field; its value is JSON text, unchanged.
pub(crate) fn object_of(name: &str, value: &str) -> String {
    let mut out = Vec::with_capacity(name.len() + value.len() + 5);
    out.push(b'{');
    write_string(&mut out, name);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// An object's JSON with one field replaced or added, every other field unchanged; `None` where the text is no object.
pub(crate) fn with_field(object: &str, name: &str, value: &str) -> Option<String> {
    let mut out = Vec::with_capacity(object.len() + name.len() + value.len());
    let mut replaced = false;
    let mut write = |field: &str, value: &str| {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_string(&mut out, field);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    };
    for (field, old) in fields_of(object)? {
        let is_it = field.as_str() == name;
        replaced |= is_it;
        write(field.as_str(), if is_it { value } else { old.get() });
    }
    if !replaced {
        write(name, value);
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}

/// A string, borrowed from the input where it has no escapes; empty for null and, with `#[serde(default)]`, where absent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or null")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A token count; `None` for null and for invalid counts, because a wrong figure must never fail an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl Visitor<'_> for CountVisitor {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or null")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Count, E> {
                Ok(Count(Some(count)))
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(count).ok()))
            }

            fn visit_f64<E: Error>(self, count: f64) -> Result<Count, E> {
                // `12.0` is a count that was converted to a float; its text gives the exact count.
                Ok(Count(format!("{count:.0}").parse().ok()))
            }

            fn visit_unit<E: Error>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}
