//! The unknown members of a provider's block: stored unchanged, and written back to the same provider.
//!
//! A gateway may need them again (a signature, a cache handle). A null member has no meaning, and some servers refuse it. It
//! must never contain a member that a decoder interprets.

use std::fmt;

use serde_json::value::RawValue;

use super::json::{Text, fields_of, write_raw, write_string};

/// The unknown members of one object, in order.
#[derive(Default)]
pub(crate) struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of an object, except the known ones.
    pub(crate) fn of(object: &'a str, is_known: impl Fn(&str) -> bool) -> Self {
        let mut members = Self::default();
        for (name, value) in fields_of(object).unwrap_or_default() {
            if !is_known(name.as_str()) {
                members.push(name, value);
            }
        }
        members
    }

    pub(crate) fn push(&mut self, name: Text<'a>, value: &'a RawValue) {
        if value.get() != "null" {
            self.0.push((name, value));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| *value)
    }

    /// The members as the text of an object, after the members in `first`; `None` if there are none.
    pub(crate) fn object(&self, first: &str) -> Option<String> {
        if self.is_empty() && first.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(first.len() + 64);
        out.push(b'{');
        out.extend_from_slice(first.as_bytes());
        for (position, (name, value)) in self.0.iter().enumerate() {
            if position > 0 || !first.is_empty() {
                out.push(b',');
            }
            write_string(&mut out, name.as_str());
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
        out.push(b'}');
        String::from_utf8(out).ok()
    }

    /// Writes the members, each after a comma.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            out.push(b',');
            write_string(out, name.as_str());
            out.push(b':');
            // The API refuses lone surrogates, even those it sent.
            write_raw(out, value.get());
        }
    }
}

/// Shows the names only: the values are the provider's.
impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name.as_str())).finish()
    }
}

/// Writes the stored members of a block, except those that the caller writes itself.
pub(crate) fn write_stored(
    out: &mut Vec<u8>,
    provider_data: Option<&str>,
    is_known: impl Fn(&str) -> bool,
) {
    if let Some(stored) = provider_data {
        Members::of(stored, is_known).write(out);
    }
}

/// A struct read from a JSON object in one pass, with its unknown members in `more`. The last value of a repeated key
/// counts.
macro_rules! with_members {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident<$life:lifetime> {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty = $key:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name<$life> {
            $($(#[$field_meta])* $field_vis $field: $type,)*
            /// The unknown members.
            $vis more: $crate::members::Members<$life>,
        }

        impl<'de: $life, $life> serde::Deserialize<'de> for $name<$life> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<'de> serde::de::Visitor<'de> for Reader {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut out = $name::default();
                        while let Some(key) = map.next_key::<$crate::json::Text<'de>>()? {
                            match key.as_str() {
                                $($key => out.$field = map.next_value()?,)*
                                _ => out.more.push(key, map.next_value()?),
                            }
                        }
                        Ok(out)
                    }
                }
                deserializer.deserialize_map(Reader)
            }
        }
    };
}

pub(crate) use with_members;
