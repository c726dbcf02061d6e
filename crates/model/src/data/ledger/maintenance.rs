//! The reports of a ledger's maintenance: verify, backup, statistics, vacuum.
//!
//! It must never repeat any text of a message.

use serde::Serialize;

use crate::TokenUsage;

/// Which check failed. The last eleven are the invariants of the schema, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LedgerCheck {
    /// SQLite's own: pages, trees, indexes, types, the rules of the columns.
    Integrity,
    /// Every reference names an existing row.
    References,
    /// 1. Every row is unchanged, every message has its content, and its blocks can be read.
    Checksum,
    /// 2. A turn is one deeper than its parent, a root has depth 0: no thread is a circle.
    Tree,
    /// 3. A turn's thread tokens are the sum of its parent's and its own.
    ThreadTokens,
    /// 4. A turn is marked as having children when it has some, and only then.
    Children,
    /// 5. A session points at a turn that has ended, as does the last entry of its log.
    Pointer,
    /// 6. The running turns are those of the journal; every other has ended, with its reason. Leases end after they began.
    OpenTurns,
    /// 7. The messages that a turn names as its question and its answer belong to it.
    Messages,
    /// 8. A turn has as many tool calls as it records, with readable arguments and results.
    ToolCalls,
    /// 9. A compaction has its summary as a message, and refers only to turns of its own thread.
    Compactions,
    /// 10. Every blob has the content of its hash and a row that refers to it, and every reference has its blob.
    Blobs,
    /// 11. The search index has the words of every message it lists.
    Search,
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerProblem {
    /// Which check.
    pub check: LedgerCheck,
    /// The key of the row: a session's label, the id of a turn, message or call, a blob's hash, the name of a table; null for
    /// the file as a whole.
    pub subject: Option<String>,
    /// What is wrong, without any text of a message.
    pub message: String,
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerChecked {
    /// Sessions.
    pub sessions: u64,
    /// Turns, running ones included.
    pub turns: u64,
    /// Messages whose checksum was compared.
    pub messages: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Values over 64 KiB, each distinct one once.
    pub blobs: u64,
}

/// What `ledger.verify()` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// True when nothing is wrong.
    pub ok: bool,
    /// What is wrong, at most 1,000 entries.
    pub problems: Vec<LedgerProblem>,
    /// True when there is more than `problems` names.
    pub truncated: bool,
    /// How much was checked.
    pub checked: LedgerChecked,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// What `ledger.backup(path)` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerBackup {
    /// Its path, with links and folders resolved.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Turns by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnCounts {
    /// Completed, or ended at a cap; without compactions.
    pub completed: u64,
    /// Aborted.
    pub aborted: u64,
    /// Failed or timed out.
    pub failed: u64,
    /// Running, or interrupted.
    pub open: u64,
    /// Summaries of earlier turns.
    pub compactions: u64,
}

/// Values over 64 KiB, which are stored apart from their rows, each distinct one once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BlobCounts {
    /// Their number.
    pub count: u64,
    /// Their bytes before compression.
    pub bytes: u64,
    /// Their bytes in the file: compressed where that saves a tenth.
    pub stored_bytes: u64,
    /// The bytes saved because each is stored once and not in every row that refers to it.
    pub saved_bytes: u64,
}

/// The result of `ledger.stats()`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerStats {
    /// The ledger's own ULID.
    pub ledger_id: String,
    /// When it was created, in Unix milliseconds.
    pub created_at: i64,
    /// The version of the package that created it.
    pub engine_version: String,
    /// The version of its schema.
    pub schema_version: u64,
    /// Its path, with links and folders resolved.
    pub path: String,
    /// The file's bytes, without its log.
    pub file_bytes: u64,
    /// The bytes of the log beside it.
    pub log_bytes: u64,
    /// The bytes that `ledger.vacuum()` would free.
    pub free_bytes: u64,
    /// Sessions that are visible to readers.
    pub sessions: u64,
    /// Turns by how they ended.
    pub turns: TurnCounts,
    /// Messages of turns that have ended.
    pub messages: u64,
    /// Tool calls of turns that have ended.
    pub tool_calls: u64,
    /// Values over 64 KiB: texts, arguments, results, images.
    pub blobs: BlobCounts,
    /// The sum over all turns that have ended, compactions included.
    pub usage: TokenUsage,
    /// US dollars, over the turns whose price is known.
    pub cost: f64,
    /// Turns that used tokens at an unknown price.
    pub unpriced_turns: u64,
    /// When the first turn began, in Unix milliseconds; null without a turn.
    pub first_turn_at: Option<i64>,
    /// When the last turn began; null without a turn.
    pub last_turn_at: Option<i64>,
}

/// What `ledger.vacuum()` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerVacuum {
    /// The file's bytes before.
    pub bytes_before: u64,
    /// The file's bytes after. While a read is under way, the file shrinks only at the next checkpoint.
    pub bytes_after: u64,
}
