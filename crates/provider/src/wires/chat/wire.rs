//! The shapes of a chat completion on the wire, read leniently and borrowed from the event's bytes.
//!
//! A field of the wrong type counts as absent, because one server's oddity must not end a turn. It must never interpret a
//! field.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::members::with_members;

/// One event of a stream, or a whole response.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) object: Text<'a>,
    #[serde(borrow, default)]
    pub(super) choices: FirstChoice<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) x_groq: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// `choices`: only the one with index 0 counts.
#[derive(Debug, Default)]
pub(super) struct FirstChoice<'a> {
    /// Whether the field was an array.
    pub(super) present: bool,
    pub(super) first: Option<Choice<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) delta: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A `delta` or a `message`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallPiece<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionPiece<'a>>,
}

with_members! {
    pub(super) struct CallPiece<'a> {
        pub(super) index: Count = "index",
        pub(super) id: Text<'a> = "id",
        pub(super) kind: Text<'a> = "type",
        pub(super) function: Option<FunctionPiece<'a>> = "function",
    }
}

with_members! {
    pub(super) struct FunctionPiece<'a> {
        pub(super) name: Text<'a> = "name",
        arguments: Option<&'a RawValue> = "arguments",
    }
}

impl FunctionPiece<'_> {
    /// The arguments as JSON text: the content of the string, or an object as raw text.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let Some(raw) = self.arguments.map(RawValue::get) else { return Cow::Borrowed("") };
        if raw.starts_with('"') {
            serde_json::from_str::<Text<'_>>(raw).map_or(Cow::Borrowed(""), |text| text.0)
        } else if raw.starts_with(['{', '[']) {
            Cow::Borrowed(raw)
        } else {
            Cow::Borrowed("")
        }
    }
}

/// `content`: a text, or Mistral's list of parts.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub text: Text<'a>,
    /// Mistral: `thinking: [{type: text, text}]`.
    #[serde(borrow, default)]
    pub(super) thinking: Content<'a>,
}

/// A text; a number becomes its digits, anything else is empty.
#[derive(Debug, Default, Clone)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A count; `None` for anything else.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Content::Parts(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::None)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct FirstChoiceVisitor;

impl<'de> Visitor<'de> for FirstChoiceVisitor {
    type Value = FirstChoice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(FirstChoice::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut first = None;
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            if first.is_none() && choice.index.0.unwrap_or(0) == 0 {
                first = Some(choice);
            }
        }
        Ok(FirstChoice { present: true, first })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstChoiceVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // With the text visitor: a count in quotes is valid, a negative or broken one is not.
        Ok(Self(deserializer.deserialize_any(TextVisitor)?.0.parse().ok()))
    }
}
