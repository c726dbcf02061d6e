//! Recall: a search for messages that a compaction removed from a session's context.
//!
//! It must never return messages of another session's thread: a search stays among the ancestors of the head.

use crate::Role;

/// The name of the tool.
pub const RECALL: &str = "recall";

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// The session of the thread that is searched.
    pub session_label: String,
    /// The turn it begins at, while the session has no turn yet.
    pub parent_turn_id: Option<String>,
    /// The words.
    pub query: String,
    /// The limit of messages.
    pub limit: usize,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Whether a compaction removed anything from the context.
    pub compacted: bool,
    /// True where no message has all the words: then these have some of them, and those with the most are first.
    pub loosely: bool,
    /// Whether the search stopped at its limit of messages searched.
    pub partial: bool,
    /// The messages, newest first.
    pub messages: Vec<RecalledMessage>,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledMessage {
    /// Its role.
    pub role: Role,
    /// The tool, for a tool result.
    pub tool_name: Option<String>,
    /// Its turn.
    pub turn_id: String,
    /// When it was written: `2025-11-20T23:33:50.805Z`.
    pub said_at: String,
    /// The text around the first word that was found, `…` where something was left out.
    pub excerpt: String,
}
