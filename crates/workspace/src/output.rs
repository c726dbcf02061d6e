//! The result of a tool in pi's shape: blocks for the model, and details for the host.

use serde::Serialize;
use serde_json::Value;

/// What a tool returns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Output {
    /// What the model reads.
    pub content: Vec<Block>,
    /// What the host may show; the model does not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A block of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// A text.
    Text {
        /// The text itself.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Its bytes in base64.
        data: String,
        /// `image/png` and its like.
        mime_type: &'static str,
    },
}

/// Whether a call in doubt happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did, and this is its result.
    Done(Output),
    /// It had no effect.
    NotDone,
    /// The files do not say.
    Unknown,
}

impl Output {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::Text { text: text.into() }], details: None }
    }

    pub(crate) fn with_details(self, details: Option<Value>) -> Self {
        Self { details, ..self }
    }
}
