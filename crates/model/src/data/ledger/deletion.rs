//! What a host deletes from a ledger, and how much of it went.
//!
//! Public types of the package. It must never be read as a whole ledger: a selection names at least one condition.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{EndedStatus, MetadataFilter};

/// What is deleted.
#[derive(Debug, Clone)]
pub enum Deletion {
    /// A session, and with `turns` what only it reaches.
    Session(String, DeleteSessionOptions),
    /// The turns of a selection.
    Turns(TurnSelection, DeleteTurnsOptions),
    /// What is old.
    Prune(PruneOptions),
}

impl Deletion {
    /// Whether nothing is deleted, only counted.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        match self {
            Self::Session(_, options) => options.dry_run,
            Self::Turns(_, options) => options.dry_run,
            Self::Prune(options) => options.dry_run,
        }
    }

    /// Whether what was deleted is overwritten.
    #[must_use]
    pub fn secure(&self) -> bool {
        match self {
            Self::Session(_, options) => options.secure,
            Self::Turns(_, options) => options.secure,
            Self::Prune(options) => options.secure,
        }
    }
}

/// Options of a deleted session.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteSessionOptions {
    /// Also its turns, where no other session reaches them. Default false: they stay, in no session.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub turns: bool,
    /// Counts, and deletes nothing. Default false.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub dry_run: bool,
    /// Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub secure: bool,
}

/// Options of deleted turns.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteTurnsOptions {
    /// Also every turn that follows them. Default false: a turn that another turn follows stays with it.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub followers: bool,
    /// Counts, and deletes nothing. Default false.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub dry_run: bool,
    /// Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub secure: bool,
}

/// What is old.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PruneOptions {
    /// Sessions that were last used before this time: Unix milliseconds.
    pub before: i64,
    /// The number of newest sessions that stay whatever their age. Default 0.
    #[serde(default)]
    pub keep: u32,
    /// Counts, and deletes nothing. Default false.
    #[serde(default)]
    pub dry_run: bool,
    /// Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false.
    #[serde(default)]
    pub secure: bool,
}

/// The turns that are deleted: those that match every condition. At least one is given.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[cfg_attr(feature = "testing", ts(rename_all = "camelCase"))]
pub struct TurnSelection {
    /// Those with these ids, at most 1,000.
    pub ids: Option<Vec<String>>,
    /// Those that were run in a session.
    pub session_label: Option<String>,
    /// Those that ended so.
    #[cfg_attr(feature = "testing", ts(type = "'completed' | 'aborted' | 'failed'", optional))]
    pub status: Option<EndedStatus>,
    /// Those that began at this time or later: Unix milliseconds.
    pub since: Option<i64>,
    /// Those that began before this time: Unix milliseconds.
    pub until: Option<i64>,
    /// Those whose metadata has these values, by key: at most 8.
    #[cfg_attr(
        feature = "testing",
        ts(type = "Readonly<Record<string, string | number | boolean>>", optional)
    )]
    pub metadata: Option<MetadataFilter>,
}

impl TurnSelection {
    /// The most ids.
    const MAX_IDS: usize = 1_000;
}

impl<'de> Deserialize<'de> for TurnSelection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            ids: Option<Vec<String>>,
            #[serde(default)]
            session_label: Option<String>,
            #[serde(default)]
            status: Option<EndedStatus>,
            #[serde(default)]
            since: Option<i64>,
            #[serde(default)]
            until: Option<i64>,
            #[serde(default)]
            metadata: Option<MetadataFilter>,
        }
        let Fields { ids, session_label, status, since, until, metadata } =
            Fields::deserialize(deserializer)?;
        if ids.as_ref().is_some_and(|ids| ids.len() > Self::MAX_IDS) {
            return Err(D::Error::custom(format!(
                "has more than {} `ids`; call it more than once",
                Self::MAX_IDS
            )));
        }
        let is_empty = ids.is_none()
            && session_label.is_none()
            && status.is_none()
            && since.is_none()
            && until.is_none()
            && metadata.is_none();
        if is_empty {
            return Err(D::Error::custom(
                "has no condition, and would select every turn; pass `ids`, `sessionLabel`, `status`, `since`, \
                 `until` or `metadata`",
            ));
        }
        Ok(Self { ids, session_label, status, since, until, metadata })
    }
}

/// How much was deleted, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerDeletion {
    /// Sessions.
    pub sessions: u64,
    /// Turns, compactions included.
    pub turns: u64,
    /// Their messages.
    pub messages: u64,
    /// Their tool calls.
    pub tool_calls: u64,
    /// Runs whose events were stored.
    pub runs: u64,
    /// Values over 64 KiB that nothing else uses.
    pub blobs: u64,
    /// Selected turns that stay, because a turn that stays follows them or a session needs them.
    pub retained_turns: u64,
    /// True where the deleted data was overwritten; always false without `secure`.
    pub overwritten: bool,
}
