//! The reports of an export and an import: counts, and each line that could not be taken.
//!
//! It must never repeat a word of what a line held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A format of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LedgerFormat {
    /// Our own JSONL, which holds all of a ledger: see docs/jsonl.md.
    #[default]
    Ledger,
    /// A session file of pi, versions 1 to 3; version 3 is written.
    Pi,
    /// A session file of MyClaw.
    Myclaw,
}

/// Why something was not taken as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TransferCode {
    /// The line is no JSON, or no UTF-8, or longer than 64 MiB.
    DamagedLine,
    /// The line is JSON, but not of a shape that the format has.
    InvalidLine,
    /// The schema or the content refuses the line.
    Refused,
    /// What it follows is lost; it follows the nearest that is left.
    Reattached,
    /// What it names is lost, and it goes without.
    LostReference,
    /// A session of that label is there already, and stays as it is.
    SessionExists,
    /// The session's own line is lost; it was made of its turns.
    Rebuilt,
    /// A turn of the ledger cannot be read, and is not in the file.
    Unreadable,
}

/// Something that was not taken as it stands. Everything else was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TransferProblem {
    /// The number of the line, from 1; null where no line is meant.
    pub line: Option<u64>,
    /// Why.
    pub code: TransferCode,
    /// What became of it, without a word of its content.
    pub message: String,
}

/// What `ledger.import(path)` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerImport {
    /// The labels of the sessions that it made.
    pub sessions: Vec<String>,
    /// Turns it added.
    pub turns: u64,
    /// Messages it added.
    pub messages: u64,
    /// Tool calls it added.
    pub tool_calls: u64,
    /// Turns that were there already, by their id.
    pub skipped_turns: u64,
    /// What was not taken as it stands, at most 1,000 entries.
    pub problems: Vec<TransferProblem>,
    /// True when there is more than `problems` names.
    pub truncated: bool,
    /// Entries of kinds that have no place here, by kind.
    pub left_out: BTreeMap<String, u64>,
}

/// What `ledger.export(path)` wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerExport {
    /// Where it stands, with links and folders resolved.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// The sessions in it.
    pub sessions: u64,
    /// The turns in it.
    pub turns: u64,
    /// Turns that still run, and are not in it.
    pub open_turns: u64,
    /// What could not be read, at most 1,000 entries.
    pub problems: Vec<TransferProblem>,
    /// True when there is more than `problems` names.
    pub truncated: bool,
    /// Parts of messages that the format has no place for, by kind.
    pub left_out: BTreeMap<String, u64>,
}
