//! The reports of an export and an import: counts, and each line that was not imported as it is.
//!
//! It must never repeat any content of a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A file format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LedgerFormat {
    /// The engine's own JSONL, which has all of a ledger: see docs/jsonl.md.
    #[default]
    Ledger,
    /// A session file of pi, versions 1 to 3; version 3 is written.
    Pi,
    /// A session file of MyClaw.
    Myclaw,
}

/// Why something was changed or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TransferCode {
    /// The line is no JSON, or no UTF-8, or longer than 64 MiB.
    DamagedLine,
    /// The line is JSON, but of no shape of the format.
    InvalidLine,
    /// The line breaks a rule of the schema, or its content is invalid.
    Refused,
    /// Its parent is missing; it follows the nearest ancestor that is present.
    Reattached,
    /// It refers to something that is missing; the reference was removed.
    LostReference,
    /// A session with that label exists already, and is unchanged.
    SessionExists,
    /// The session's own line is missing; it was created from its turns.
    Rebuilt,
    /// A turn of the ledger cannot be read, and is not in the file.
    Unreadable,
    /// It is not the same in the copy.
    Differs,
}

/// Something that was changed or left out. Everything else was transferred as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TransferProblem {
    /// The number of the line, from 1; null for no particular line.
    pub line: Option<u64>,
    /// Why.
    pub code: TransferCode,
    /// What was done with it, without any of its content.
    pub message: String,
}

/// What `ledger.import(path)` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerImport {
    /// The labels of the sessions it created.
    pub sessions: Vec<String>,
    /// Turns it added.
    pub turns: u64,
    /// Messages it added.
    pub messages: u64,
    /// Tool calls it added.
    pub tool_calls: u64,
    /// Turns that existed already, by their id.
    pub skipped_turns: u64,
    /// What was changed or left out, at most 1,000 entries.
    pub problems: Vec<TransferProblem>,
    /// True when there are more than `problems` has.
    pub truncated: bool,
    /// Entries of kinds that a ledger does not store, by kind.
    pub left_out: BTreeMap<String, u64>,
}

/// What `ledger.export(path)` wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerExport {
    /// Its path, with links and folders resolved.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// The sessions in it.
    pub sessions: u64,
    /// The turns in it.
    pub turns: u64,
    /// Running turns, which are not in it.
    pub open_turns: u64,
    /// What could not be read, at most 1,000 entries.
    pub problems: Vec<TransferProblem>,
    /// True when there are more than `problems` has.
    pub truncated: bool,
    /// Parts of messages that the format does not support, by kind.
    pub left_out: BTreeMap<String, u64>,
}

/// What `ledger.copyTo(target)` did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerCopy {
    /// Turns that were copied.
    pub turns: u64,
    /// Turns that the copy had already.
    pub skipped_turns: u64,
    /// Turns that were read from both ledgers, and compared.
    pub compared_turns: u64,
    /// Sessions that point in the copy where they point here.
    pub sessions: u64,
    /// Sessions that have newer turns here: another call copies them.
    pub behind: u64,
    /// Turns that have not ended, which are not copied.
    pub open_turns: u64,
    /// True when every turn and every session that was copied is the same in both ledgers.
    pub verified: bool,
    /// True when this ledger is closed for new turns, and the copy has everything that is copied.
    pub moved: bool,
    /// What this ledger has and the copy has not, by kind: `queueItems`, `deliveries`, `schedules`, `dispatches`, `facts`, `budgets`.
    pub left: BTreeMap<String, u64>,
    /// What was changed or left out, at most 1,000 entries.
    pub problems: Vec<TransferProblem>,
    /// True when there are more than `problems` has.
    pub truncated: bool,
}
