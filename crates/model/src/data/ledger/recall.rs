//! What a session's context no longer holds, as it is asked for and found again.
//!
//! It must never name another session's thread: a search stays among the ancestors of the head.

use crate::Role;

/// The name of the tool that looks for it.
pub const RECALL: &str = "recall";

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// The session whose thread is looked through.
    pub session_label: String,
    /// The turn it begins at, while it has none of its own.
    pub parent_turn_id: Option<String>,
    /// The words.
    pub query: String,
    /// Messages at most.
    pub limit: usize,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Whether the context lacks anything of the conversation: without a compaction it lacks nothing.
    pub compacted: bool,
    /// Whether no message holds all the words, so that these hold some of them; those with the most stand first.
    pub loosely: bool,
    /// Whether there was more to look through than is looked through.
    pub partial: bool,
    /// The messages, newest first.
    pub messages: Vec<RecalledMessage>,
}

/// A message that holds what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledMessage {
    /// Whose it is.
    pub role: Role,
    /// The tool, where it is a tool's result.
    pub tool_name: Option<String>,
    /// Its turn.
    pub turn_id: String,
    /// When it was written: `2025-11-20T23:33:50.805Z`.
    pub said_at: String,
    /// What stands around the first word that was found, `…` where something was left out.
    pub excerpt: String,
}
