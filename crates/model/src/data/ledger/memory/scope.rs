//! Who may see what is remembered: a scope, and what is known of a session to find the scopes that it sees.
//!
//! It must never decide which scope a session has.

use serde::{Deserialize, Serialize};

use crate::SessionKind;
use crate::data::broker::names;

/// How far something that is remembered reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum MemoryScopeKind {
    /// One session.
    Session,
    /// The private sessions of a persona: its main session, and direct messages of its owner.
    Persona,
    /// All sessions of an agent.
    Agent,
    /// All sessions.
    Global,
}

names!(MemoryScopeKind {
    Session = "session",
    Persona = "persona",
    Agent = "agent",
    Global = "global",
});

/// Where something that is remembered belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryScope {
    /// How far it reaches.
    pub kind: MemoryScopeKind,
    /// The session's label, the persona or the agent; left out for `global`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "testing", ts(as = "Option<String>"))]
    pub id: String,
}

impl MemoryScope {
    /// The scope of this kind and id.
    #[must_use]
    pub fn new(kind: MemoryScopeKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// What decides the scope of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionIdentity {
    /// Its label; of a session that works for another one, the label of the session at the top.
    pub label: String,
    /// What kind of session that is.
    pub kind: SessionKind,
    /// The other person of a direct conversation.
    pub peer: Option<String>,
    /// Its persona.
    pub persona: String,
    /// Its agent.
    pub agent: String,
}
