//! A session's prompt cache: the chain of hashes of its last call, and the report of a break.
//!
//! Plain data. It must never hold a text of the conversation: a hash names a block, and reveals nothing of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Role;

/// How a prompt cache broke: emitted as an event, and stored in the result and in the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CacheBreak {
    /// The number of the attempt that showed it, from 1.
    pub attempt: u32,
    /// The cause.
    pub cause: CacheBreakCause,
    /// The first part of the request that changed; null where none did.
    pub part: Option<CachePart>,
    /// How it changed.
    pub change: Option<CacheChange>,
    /// The name of the tool or of the setting.
    pub name: Option<String>,
    /// The index of the tool among the tools, or of the message in the conversation as it is sent, from 0.
    pub index: Option<u32>,
    /// The message's id; null for one that was removed.
    pub message_id: Option<String>,
    /// The role of the message.
    pub role: Option<Role>,
    /// Tokens that the provider was expected to read from its cache.
    pub expected_tokens: u64,
    /// Tokens that it read.
    pub read_tokens: u64,
    /// Tokens that were paid again because of it.
    pub tokens: u64,
    /// Their cost in US dollars; null where a price is unknown.
    pub cost: Option<f64>,
    /// Milliseconds since the previous call.
    pub idle_ms: u64,
}

/// The cause of a broken cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CacheBreakCause {
    /// The request does not begin with the previous one.
    Prefix,
    /// It does, and the cache entry had expired.
    Expired,
    /// It does, and the entry had not expired: the provider dropped it, or an `onRequest` changed the body.
    Unexplained,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CachePart {
    /// The system prompt.
    System,
    /// A tool.
    Tool,
    /// A message.
    Message,
    /// A setting that is part of some providers' cache keys: `thinkingConfig`, `toolChoice`.
    Setting,
}

/// How a part changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CacheChange {
    /// Its content differs.
    Changed,
    /// It was added.
    Inserted,
    /// It was removed.
    Removed,
    /// It moved to another index.
    Reordered,
}

/// The chain of a session's last call: a hash for each part of its request, and the cache tokens its provider reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheChain {
    /// The turn that made the call.
    pub turn_id: String,
    /// API, provider and model of the call.
    pub who: u64,
    /// The profile, and the settings of its cache.
    pub way: u64,
    /// The compaction that the conversation began with; 0 for none.
    pub base: u64,
    /// When the call was made, in Unix milliseconds.
    pub called_at: i64,
    /// The system prompt.
    pub system: u64,
    /// The settings of thinking and tool choice.
    pub settings: [u64; 2],
    /// The tools, by name, in order.
    pub tools: Arc<[(String, u64)]>,
    /// A link for each message.
    pub links: Vec<u64>,
    /// How many of them are sent again unchanged: fewer than all where the turn was interrupted, or sent shortened.
    pub comparable: usize,
    /// Prompt tokens: neither read nor written, read, and written.
    pub tokens: [u64; 3],
    /// Whether the provider has ever reported tokens in its cache.
    pub reported: bool,
}

/// What a turn stores about the cache.
#[derive(Debug, Clone)]
pub struct CacheStep {
    /// The chain of its last answered call. Written when the session's pointer moves to the turn.
    pub chain: Option<Arc<CacheChain>>,
    /// The turn whose chain should be stored now, and how many of its links equal those of `chain`.
    pub known: Option<(String, usize)>,
    /// The breaks of the cache in this turn.
    pub breaks: Vec<CacheBreak>,
}
