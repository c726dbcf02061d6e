//! The shapes of a response on the wire, borrowed from their bytes. It must never interpret them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Count, Text};

/// Any event of the stream. One flat shape, so that the most frequent event (a delta) is parsed once; other parts stay raw.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(default)]
    pub(super) content_index: Count,
    #[serde(default)]
    pub(super) summary_index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Anything with a type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
}

/// The call of a result item.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Output<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Text<'a>,
}

/// A response object: whole or partial.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseBody<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
}

impl ResponseBody<'_> {
    /// Why it is incomplete; empty without a reason.
    pub(super) fn cut_by(&self) -> &str {
        self.incomplete_details.as_ref().map_or("", |details| details.reason.as_str())
    }

    /// Whether it has a reason for being incomplete.
    pub(super) fn is_cut(&self) -> bool {
        !self.cut_by().is_empty()
    }
}

/// Why a response is incomplete.
#[derive(Debug, Default, Deserialize)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Text<'a>,
}

/// An output item of a known type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemBody<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<&'a RawValue>>,
}

impl<'a> ItemBody<'a> {
    /// An item of an unknown type: only its id, if it has a valid one.
    pub(super) fn identified(raw: &'a RawValue) -> Self {
        #[derive(Deserialize)]
        struct Identified<'a> {
            #[serde(borrow, default)]
            id: Text<'a>,
        }
        let id = serde_json::from_str::<Identified<'a>>(raw.get()).map(|item| item.id);
        Self { id: id.unwrap_or_default(), ..Self::default() }
    }
}

impl ItemBody<'_> {
    /// The arguments as JSON text: the content of the string, or an object as raw text.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let Some(raw) = self.arguments.map(RawValue::get) else { return Cow::Borrowed("") };
        if raw.starts_with('"') {
            serde_json::from_str::<Text<'_>>(raw).map_or(Cow::Borrowed(""), |text| text.0)
        } else if raw.starts_with('{') {
            Cow::Borrowed(raw)
        } else {
            Cow::Borrowed("")
        }
    }

    /// The id that results refer to; servers with only one id per call mean that one.
    pub(super) fn call_id(&self) -> &str {
        if self.call_id.as_str().is_empty() { self.id.as_str() } else { self.call_id.as_str() }
    }
}

/// One part of a message's content, of a reasoning item's summary, or of its content.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PartBody<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
}

impl PartBody<'_> {
    pub(super) fn is_refusal(&self) -> bool {
        self.kind.as_str() == "refusal"
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        if self.is_refusal() { self.refusal.as_str() } else { self.text.as_str() }
    }
}
