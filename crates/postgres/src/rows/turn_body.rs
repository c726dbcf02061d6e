//! The parts of a turn that no filter reads: what its opening wrote, what its end wrote, and what a take-over needs.
//!
//! It must never hold a value that has a column.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::connect::error::{Stored, damaged};
use model::{
    Attempt, CompactionUsage, Metadata, TurnEnd, TurnError, TurnHeader, TurnOpening, TurnSettings,
    query_message_ids,
};

/// What the opening of a turn wrote.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct HeaderBody {
    pub(crate) toolset_name: Option<String>,
    pub(crate) tools_available: Vec<String>,
    pub(crate) permissions_granted: Option<Box<RawValue>>,
    pub(crate) query_message_ids: Vec<String>,
    pub(crate) source_event_id: Option<String>,
    pub(crate) workspace_path: Option<String>,
    pub(crate) metadata: Option<String>,
}

impl HeaderBody {
    pub(crate) fn of(
        header: &TurnHeader,
        settings: &TurnSettings,
        query_message_ids: Vec<String>,
    ) -> Stored<Self> {
        Ok(Self {
            toolset_name: Some(header.toolset_name.clone()),
            tools_available: settings.tools_available.clone(),
            permissions_granted: Some(raw(&settings.permissions_granted)?),
            query_message_ids,
            source_event_id: header.source_event_id.clone(),
            workspace_path: Some(header.workspace_path.clone()),
            metadata: settings.metadata.as_ref().map(|it| it.as_str().to_owned()),
        })
    }

    pub(crate) fn of_opening(opening: &TurnOpening) -> Stored<Self> {
        Self::of(&opening.header, &opening.settings, query_message_ids(&opening.messages))
    }

    /// The header of a compaction's turn.
    pub(crate) fn of_compaction(header: &TurnHeader) -> Stored<Self> {
        Ok(Self {
            toolset_name: Some(header.toolset_name.clone()),
            permissions_granted: Some(raw("[]")?),
            source_event_id: header.source_event_id.clone(),
            workspace_path: Some(header.workspace_path.clone()),
            ..Self::default()
        })
    }

    pub(crate) fn metadata(&self) -> Option<Metadata> {
        self.metadata.clone().map(Metadata::stored)
    }
}

/// What the end of a turn wrote.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct OutcomeBody {
    pub(crate) usage_estimated: bool,
    pub(crate) context_tokens: Option<i64>,
    pub(crate) query_message_ids: Vec<String>,
    pub(crate) response_message_id: Option<String>,
    pub(crate) error: Option<TurnError>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) permissions_used: Option<Box<RawValue>>,
}

impl OutcomeBody {
    pub(crate) fn of(turn: &TurnEnd) -> Stored<Self> {
        Ok(Self {
            usage_estimated: turn.usage_estimated,
            context_tokens: turn.context_tokens.map(integer),
            query_message_ids: turn.query_message_ids.clone(),
            response_message_id: turn.response_message_id.clone(),
            error: turn.error.as_ref().map(|error| TurnError {
                kind: error.kind.as_str().to_owned(),
                message: error.message.clone(),
                retryable: error.retryable,
                code: error.detail.code.clone(),
            }),
            attempts: turn.attempts.clone(),
            permissions_used: turn.permissions_used.as_deref().map(raw).transpose()?,
        })
    }

    pub(crate) fn of_compaction(used: &CompactionUsage) -> Self {
        Self { usage_estimated: used.estimated, attempts: used.attempts.clone(), ..Self::default() }
    }
}

/// What a process needs that takes an open turn over.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpeningBody {
    pub(crate) context: String,
    pub(crate) target: Option<String>,
}

/// PostgreSQL's integers are signed; a larger count is a provider's mistake, and becomes the largest integer.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn raw(json: &str) -> Stored<Box<RawValue>> {
    RawValue::from_string(json.to_owned())
        .map_err(|_| damaged("the permissions of a turn are no JSON"))
}
