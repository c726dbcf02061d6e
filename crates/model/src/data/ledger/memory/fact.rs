//! A fact: something that is known of an entity, since when and from where.
//!
//! A fact is superseded and never overwritten. It must never interpret the content.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Limit, MemoryScope};

/// The origin of a fact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FactSource {
    /// The turn it was learned in. With that turn it is deleted.
    #[serde(default)]
    pub turn_id: Option<String>,
    /// The tool call it was learned from.
    #[serde(default)]
    pub call_id: Option<String>,
}

/// A fact that is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryFact {
    /// Its ULID.
    pub id: String,
    /// What it is about: a person, a project, a tool.
    pub entity: String,
    /// What kind of fact it is: `preference`, `address`, `tool_observation`.
    pub r#type: String,
    /// What is known.
    #[cfg_attr(feature = "testing", ts(type = "any"))]
    pub content: Box<RawValue>,
    /// Where it belongs.
    pub scope: MemoryScope,
    /// Where it comes from.
    pub source: FactSource,
    /// How sure it is: 0 to 1.
    pub confidence: f64,
    /// Since when it holds, in Unix milliseconds.
    pub valid_from: i64,
    /// Until when it held. Null while it holds.
    pub valid_to: Option<i64>,
    /// The fact that has replaced it.
    pub superseded_by: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A fact to store.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewFact {
    /// What it is about: 1 to 512 bytes.
    pub entity: String,
    /// What kind of fact it is: 1 to 128 bytes.
    pub r#type: String,
    /// What is known: any JSON of at most 64 KiB.
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub content: Box<RawValue>,
    /// The session it belongs to: the fact gets the scope of that session. Either this or `scope`.
    #[serde(default)]
    pub session: Option<String>,
    /// Where it belongs.
    #[serde(default)]
    pub scope: Option<MemoryScope>,
    /// Where it comes from.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<FactSource>"))]
    pub source: FactSource,
    /// How sure it is: 0 to 1. Default 1.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Since when it holds, in Unix milliseconds. Default: now.
    #[serde(default)]
    pub valid_from: Option<i64>,
}

/// Which facts are listed.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FactFilter {
    /// Those that this session may see. One of `session`, `scopes` and `all` is needed.
    #[serde(default)]
    pub session: Option<String>,
    /// Those of these scopes.
    #[serde(default)]
    pub scopes: Option<Vec<MemoryScope>>,
    /// Those of every scope.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub all: bool,
    /// The one with this id.
    #[serde(default)]
    pub id: Option<String>,
    /// Those about this entity.
    #[serde(default)]
    pub entity: Option<String>,
    /// Those of this type.
    #[serde(default)]
    pub r#type: Option<String>,
    /// Also those that were superseded.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub superseded: bool,
    /// The `next` of the previous page.
    #[serde(default)]
    pub after: Option<i64>,
    /// The limit of items: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}
