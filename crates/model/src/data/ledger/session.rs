//! Sessions as a host reads them: their rows and filters, the log of their pointers, their aliases and personas.
//!
//! These are public types of the package. They must never be written back.

use serde::{Deserialize, Serialize};

use crate::{Limit, Metadata, MetadataChange, MetadataFilter};

/// A session: a label that points at a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// The label, which is the key.
    pub label: String,
    /// Its head, which the next turn follows; null until the first turn.
    pub thread_id: Option<String>,
    /// The persona; `default` where none was inherited.
    pub persona_id: String,
    /// The agent to which the session's usage counts: the one in the label, else that of the turn it began at, else the persona.
    #[serde(default)]
    pub agent_id: String,
    /// True for the session of a subagent.
    pub is_subagent: bool,
    /// The session that spawned this one.
    pub parent_session_label: Option<String>,
    /// The turn in which it was spawned.
    pub parent_turn_id: Option<String>,
    /// The tool call that spawned it.
    pub spawn_tool_call_id: Option<String>,
    /// The task of the subagent.
    pub task_description: Option<String>,
    /// The status of the subagent.
    #[cfg_attr(
        feature = "testing",
        ts(type = "'pending' | 'running' | 'completed' | 'failed' | 'aborted' | null")
    )]
    pub task_status: Option<String>,
    /// The routing data of its messages.
    pub routing_key: Option<String>,
    /// What created the session, where it was not a run.
    pub origin: Option<String>,
    /// The session's id in the system it came from.
    pub origin_session_id: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
    /// Its status.
    #[cfg_attr(feature = "testing", ts(type = "'active' | 'archived'"))]
    pub status: String,
    /// The host's own data; null where there is none.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown> | null"))]
    pub metadata: Option<Metadata>,
}

/// What a host sets on a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionChange {
    /// The host's own data, which replaces what is there: a JSON object of at most 16 KiB. Null removes it.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<MetadataChange>"))]
    pub metadata: MetadataChange,
}

/// The filter of a list of sessions.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionFilter {
    /// Those of an agent: see `SessionRow.agentId`.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Those of a persona.
    #[serde(default)]
    pub persona_id: Option<String>,
    /// Those spawned by this session.
    #[serde(default)]
    pub parent_session_label: Option<String>,
    /// Those with this prefix of the label.
    #[serde(default)]
    pub prefix: Option<String>,
    /// Active or archived ones.
    #[serde(default)]
    pub status: Option<SessionStatus>,
    /// Only sessions of subagents, or only others.
    #[serde(default)]
    pub is_subagent: Option<bool>,
    /// Those whose metadata has these values, by key: at most 8.
    #[serde(default)]
    #[cfg_attr(
        feature = "testing",
        ts(type = "Readonly<Record<string, string | number | boolean>>", optional)
    )]
    pub metadata: Option<MetadataFilter>,
    /// The `next` of the previous page: a label.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of sessions: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// In use.
    Active,
    /// Archived; a run makes it active again.
    Archived,
}

impl SessionStatus {
    /// The value of the column.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
        }
    }
}

/// A move of a session's pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SessionMove {
    /// Its number in the ledger.
    pub id: i64,
    /// The session.
    pub session_label: String,
    /// The turn it points at since then.
    pub thread_id: String,
    /// Unix milliseconds.
    pub changed_at: i64,
}

/// Another name of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct AliasRow {
    /// The name.
    pub alias: String,
    /// The session's label, or another alias.
    pub session_label: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
}

/// An identity with its main session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct PersonaRow {
    /// The persona.
    pub id: String,
    /// The label of its main session, which may not exist yet.
    pub main_session_label: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
}
