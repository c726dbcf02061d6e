//! The statistics of a ledger.
//!
//! It must never count a turn that still runs as ended.

use std::path::Path;

use rusqlite::Connection;

use crate::rows::session_rows::IS_SESSION;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::{Fields, FromFields};
use crate::sqlite::schema::{self, Stamp};
use crate::sqlite::{file, sql};
use model::{BlobCounts, LedgerStats, TokenUsage, TurnCounts};

const TURNS: &str = "SELECT
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'completed'),
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'aborted'),
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'failed'),
    (SELECT count(*) FROM runs WHERE in_journal = 1 AND ended_at IS NULL AND epoch IS NOT NULL),
    count(*) FILTER (WHERE turn_type = 'compaction'),
    coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_input_tokens), 0),
    coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(total_tokens), 0),
    total(cost), count(*) FILTER (WHERE cost IS NULL AND total_tokens > 0), min(started_at), max(started_at)
  FROM turns";

/// The row of [`TURNS`].
struct Turns {
    counts: TurnCounts,
    usage: TokenUsage,
    cost: f64,
    unpriced: u64,
    first_at: Option<i64>,
    last_at: Option<i64>,
}

impl<'r> FromFields<'r> for Turns {
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
        Ok(Self {
            counts: TurnCounts {
                completed: fields.next()?,
                aborted: fields.next()?,
                failed: fields.next()?,
                open: fields.next()?,
                compactions: fields.next()?,
            },
            usage: fields.next()?,
            cost: fields.next()?,
            unpriced: fields.next()?,
            first_at: fields.next()?,
            last_at: fields.next()?,
        })
    }
}

pub(crate) fn stats(connection: &Connection, path: &Path) -> Stored<LedgerStats> {
    let doing = "count what is in the ledger";
    let count = |select: &str| sql::one::<u64>(connection, select, (), doing);
    let Stamp { ledger_id, created_at, engine_version } = schema::stamp_of(connection)?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let messages = count("SELECT count(*) FROM message_rows")?;
    let tool_calls = count("SELECT count(*) FROM call_rows")?;
    let sessions = count(&format!("SELECT count(*) FROM sessions WHERE {}", *IS_SESSION))?;
    let stored_bytes = count("SELECT coalesce(sum(length(data)), 0) FROM blobs")?;
    let named = count(
        "SELECT coalesce(sum(b.size), 0) FROM blob_references r CROSS JOIN blobs b ON b.hash = r.hash",
    )?;
    let blobs = BlobCounts {
        count: count("SELECT count(*) FROM blobs")?,
        bytes: count("SELECT coalesce(sum(size), 0) FROM blobs")?,
        stored_bytes,
        saved_bytes: named.saturating_sub(stored_bytes),
    };
    let free = count("PRAGMA freelist_count")?.saturating_mul(count("PRAGMA page_size")?);
    let turns: Turns = sql::one(connection, TURNS, (), doing)?;
    Ok(LedgerStats {
        turns: turns.counts,
        usage: turns.usage,
        cost: turns.cost,
        unpriced_turns: turns.unpriced,
        first_turn_at: turns.first_at,
        last_turn_at: turns.last_at,
        ledger_id,
        created_at,
        engine_version,
        schema_version: u64::try_from(schema::MIGRATIONS.len()).unwrap_or(u64::MAX),
        path: path.to_string_lossy().into_owned(),
        file_bytes: size(path),
        log_bytes: size(&file::companion(path, "-wal")),
        free_bytes: free,
        sessions,
        messages,
        tool_calls,
        blobs,
    })
}
