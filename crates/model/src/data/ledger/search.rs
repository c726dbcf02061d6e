//! A search over the messages of the ledger: the filter and the hits.
//!
//! Plain data: the backend defines how it searches.

use serde::{Deserialize, Serialize};

use crate::Limit;

/// The filter of a search.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchOptions {
    /// Only messages of turns that were run in this session.
    #[serde(default)]
    pub session_label: Option<String>,
    /// The `next` of the previous page.
    #[serde(default)]
    pub after: Option<i64>,
    /// The limit of hits: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// A message that has every word of the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The message.
    pub message_id: String,
    /// Its turn.
    pub turn_id: String,
    /// The session the turn was run in.
    pub session_label: String,
    /// The role of its author.
    #[cfg_attr(feature = "testing", ts(type = "'user' | 'assistant' | 'system'"))]
    pub role: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The text around the first word that was found: at most 160 characters, `…` where something was left out.
    pub excerpt: String,
}
