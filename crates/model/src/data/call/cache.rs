//! What is known of a session's prompt cache: the chain of hashes of its last call, and the report of a break.
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
    /// The attempt of the run whose answer showed it, from 1.
    pub attempt: u32,
    /// What it is put down to.
    pub cause: CacheBreakCause,
    /// The first part of the request that is another one; null where none is.
    pub part: Option<CachePart>,
    /// What became of it.
    pub change: Option<CacheChange>,
    /// The name of the tool or of the setting.
    pub name: Option<String>,
    /// The place of the tool among the tools or of the message in the conversation as it is sent, from 0.
    pub index: Option<u32>,
    /// The message's id; null for one that is not there any more.
    pub message_id: Option<String>,
    /// Whose message it is, or was.
    pub role: Option<Role>,
    /// Tokens that the provider was expected to read from its cache.
    pub expected_tokens: u64,
    /// Tokens that it read.
    pub read_tokens: u64,
    /// Tokens that were paid anew for it.
    pub tokens: u64,
    /// What these cost, in US dollars; null where a price is unknown.
    pub cost: Option<f64>,
    /// Milliseconds since the call before.
    pub idle_ms: u64,
}

/// What a broken cache is put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CacheBreakCause {
    /// The request does not begin as the one before.
    Prefix,
    /// It does, and the cache's time was up.
    Expired,
    /// It does, and it was not: the provider, or an `onRequest` that changed the body.
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
    /// Something else that is part of some providers' cache keys: `thinkingConfig`, `toolChoice`.
    Setting,
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CacheChange {
    /// Its content differs.
    Changed,
    /// It was not there.
    Inserted,
    /// It is not there any more.
    Removed,
    /// It is there, at another place.
    Reordered,
}

/// The chain of a session's last call: a hash for each part of its request, and what its provider reported of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheChain {
    /// The turn that made the call.
    pub turn_id: String,
    /// Who was asked: API, provider, model.
    pub who: u64,
    /// With which profile, and how his cache is used.
    pub way: u64,
    /// The compaction that the conversation began with; 0 for none.
    pub base: u64,
    /// When the call was made, in Unix milliseconds.
    pub called_at: i64,
    /// The system prompt.
    pub system: u64,
    /// How it was to think, and to choose tools.
    pub settings: [u64; 2],
    /// The tools, by name, in order.
    pub tools: Arc<[(String, u64)]>,
    /// A link for each message.
    pub links: Vec<u64>,
    /// So many of them are sent again unchanged: fewer than all where the turn was interrupted, or sent shortened.
    pub comparable: usize,
    /// Prompt tokens: neither read nor written, read, and written.
    pub tokens: [u64; 3],
    /// Whether the provider has ever reported tokens in its cache.
    pub reported: bool,
}

/// What a turn leaves of the cache.
#[derive(Debug, Clone)]
pub struct CacheStep {
    /// The chain of its last call, if one was answered. Written where the session's pointer comes to the turn.
    pub chain: Option<Arc<CacheChain>>,
    /// Whose chain is thought to stand there, and how many of its links are those of `chain`.
    pub known: Option<(String, usize)>,
    /// What broke in it.
    pub breaks: Vec<CacheBreak>,
}
