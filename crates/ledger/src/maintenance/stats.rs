//! What is in a ledger, in numbers.
//!
//! It must never count a turn as ended that still runs.

use std::path::Path;

use rusqlite::Connection;

use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::{file, schema};
use model::{BlobCounts, LedgerStats, TokenUsage, TurnCounts};

const TURNS: &str = "SELECT
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'completed'),
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'aborted'),
    count(*) FILTER (WHERE turn_type = 'normal' AND status = 'failed'),
    count(*) FILTER (WHERE status IN ('pending', 'streaming')),
    count(*) FILTER (WHERE turn_type = 'compaction'),
    coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_input_tokens), 0),
    coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(total_tokens), 0),
    total(cost), count(*) FILTER (WHERE cost IS NULL AND total_tokens > 0), min(started_at), max(started_at)
  FROM turns";

pub(crate) fn stats(connection: &Connection, path: &Path) -> Stored<LedgerStats> {
    let failed = |error| sqlite("count what is in the ledger", &error);
    let count = |sql: &str| {
        connection
            .query_row(sql, (), |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
            .map_err(failed)
    };
    let (ledger_id, created_at, engine_version) = connection
        .query_row("SELECT ledger_id, created_at, engine_version FROM schema_meta", (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(failed)?;
    let of_ended = |table: &str| {
        count(&format!(
            "SELECT (SELECT count(*) FROM {table})
               - (SELECT count(*) FROM {table} r JOIN open_turns o ON o.turn_id = r.turn_id)"
        ))
    };
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let (messages, tool_calls) = (of_ended("messages")?, of_ended("tool_calls")?);
    let sessions = count("SELECT count(*) FROM sessions WHERE opening = 0")?;
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
    connection
        .query_row(TURNS, (), |row| {
            let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
            Ok(LedgerStats {
                turns: TurnCounts {
                    completed: number(0)?,
                    aborted: number(1)?,
                    failed: number(2)?,
                    open: number(3)?,
                    compactions: number(4)?,
                },
                usage: TokenUsage {
                    input_tokens: number(5)?,
                    output_tokens: number(6)?,
                    cached_input_tokens: number(7)?,
                    cache_write_tokens: number(8)?,
                    reasoning_tokens: number(9)?,
                    total_tokens: number(10)?,
                },
                cost: row.get(11)?,
                unpriced_turns: number(12)?,
                first_turn_at: row.get(13)?,
                last_turn_at: row.get(14)?,
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
        })
        .map_err(failed)
}
