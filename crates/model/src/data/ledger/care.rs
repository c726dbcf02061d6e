//! The reports of a ledger's care: what was checked, copied, counted and given back.
//!
//! It must never repeat a word of a message.

use serde::Serialize;

use crate::TokenUsage;

/// What was checked. The last eleven are the invariants of the schema, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LedgerCheck {
    /// SQLite's own: pages, trees, indexes, types, the rules of the columns.
    Integrity,
    /// Every reference names a row that is there.
    References,
    /// 1. Every row is as it was written, every message has its content, and its blocks can be read.
    Checksum,
    /// 2. A turn is one deeper than its parent, a root has depth 0: no thread is a circle.
    Tree,
    /// 3. A turn's thread tokens are its parent's and its own.
    ThreadTokens,
    /// 4. A turn is marked as having children when it has some, and only then.
    Children,
    /// 5. A session points at a turn that has ended, and the last entry of its log agrees.
    Pointer,
    /// 6. The turns that run are those of the journal; every other has ended, with its reason. Leases end after they began.
    OpenTurns,
    /// 7. What a turn names as its question and its answer are messages of it.
    Messages,
    /// 8. A turn has as many tool calls as it records, with readable arguments and results.
    ToolCalls,
    /// 9. A compaction has its summary as a message, and the turns that it refers to are of its own thread.
    Compactions,
    /// 10. Every blob has the content of its hash, is named by a row, and every name finds it.
    Blobs,
    /// 11. The index of words has the words of every message it lists.
    Search,
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerProblem {
    /// What was checked.
    pub check: LedgerCheck,
    /// What names the row: a session's label, the id of a turn, message or call, a blob's hash, the name of a table; null where the file as a whole is meant.
    pub subject: Option<String>,
    /// What is wrong, without a word of any message.
    pub message: String,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerChecked {
    /// Sessions.
    pub sessions: u64,
    /// Turns, also those that run.
    pub turns: u64,
    /// Messages whose checksum was compared.
    pub messages: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Values over 64 KiB, each of which stands once.
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
    /// How much was looked at.
    pub checked: LedgerChecked,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// What `ledger.backup(path)` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerBackup {
    /// Where it stands, with links and folders resolved.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Turns by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnCounts {
    /// Ended by themselves, or at a cap; without compactions.
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

/// Values over 64 KiB, which stand apart from their rows, each distinct one once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BlobCounts {
    /// How many there are.
    pub count: u64,
    /// Their bytes as texts.
    pub bytes: u64,
    /// The bytes that the file has of them: compressed where that saves a tenth.
    pub stored_bytes: u64,
    /// What the file would have more of if each stood in every row that names it, in bytes.
    pub saved_bytes: u64,
}

/// The answer of `ledger.stats()`.
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
    /// Where it is, with links and folders resolved.
    pub path: String,
    /// The file's bytes, without its log.
    pub file_bytes: u64,
    /// The bytes of the log beside it.
    pub log_bytes: u64,
    /// What `ledger.vacuum()` would give back, in bytes.
    pub free_bytes: u64,
    /// Sessions that readers see.
    pub sessions: u64,
    /// Turns by how they ended.
    pub turns: TurnCounts,
    /// Messages of turns that have ended.
    pub messages: u64,
    /// Tool calls of turns that have ended.
    pub tool_calls: u64,
    /// What is over 64 KiB: texts, arguments, results, images.
    pub blobs: BlobCounts,
    /// The sum over all turns that have ended, compactions too.
    pub usage: TokenUsage,
    /// US dollars, over the turns whose price is known.
    pub cost: f64,
    /// Turns that used tokens at a price nobody knows.
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
    /// The file's bytes after. While a read is under way the file stays as it was until the next checkpoint.
    pub bytes_after: u64,
}
