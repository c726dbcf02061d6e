//! The layers of a context: what a broker put together for a message, as it is recorded with that message.
//!
//! It must never hold a text of a layer: the blocks of the message and the system prompt do.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::memory::search::{MemoryKind, MemoryWhy};

/// The layers of a context, in the order of docs/rules/prompts.md#layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LayerName {
    /// The folder in which the agent works, and its files.
    Workspace,
    /// Who the agent is, and what it may do.
    Persona,
    /// The conversation so far.
    Session,
    /// What a memory returned for the message.
    Cortex,
    /// The event that the message came with.
    Event,
}

/// A part of a context, as it is recorded: without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct RecordedLayer {
    /// The layer that it belongs to.
    pub name: LayerName,
    /// Where it came from: the path of a file, the id of an event, the name of a memory.
    pub source: String,
    /// The estimated tokens of its text.
    #[cfg_attr(feature = "testing", ts(type = "number"))]
    pub tokens: u64,
    /// The hash of its text: two layers with one hash had the same text.
    pub hash: String,
    /// What a memory found for it; left out for other layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<Box<RecalledLayer>>,
    /// Ignored: a host may pass on what it was given.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "testing", ts(skip))]
    text: Ignored,
}

impl RecordedLayer {
    /// A layer that was measured.
    #[must_use]
    pub const fn new(name: LayerName, source: String, tokens: u64, hash: String) -> Self {
        Self { name, source, tokens, hash, recalled: None, text: Ignored }
    }
}

/// What a memory has found for a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct RecalledLayer {
    /// What is in the text, in its order.
    pub hits: Vec<RecalledHit>,
    /// Why the embedder's vectors were not searched, or why nothing was. Null where nothing failed.
    #[serde(default)]
    pub problem: Option<String>,
}

/// Something that a memory has put into a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct RecalledHit {
    /// What it is of.
    pub kind: MemoryKind,
    /// The id of the turn, or of the fact.
    pub id: String,
    /// Why it was found. A fact that conflicts with one that was found comes for the same reason.
    pub why: MemoryWhy,
}

/// Any value, which is not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// The layers of a message of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageLayers {
    /// The message.
    pub message_id: String,
    /// A list of [`RecordedLayer`]s: JSON.
    pub json: String,
}
