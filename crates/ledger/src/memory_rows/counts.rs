//! The counts of the memory, and the summary of a session. It must never change a row.

use rusqlite::Connection;

use crate::memory_rows::{extraction_rows, usage_rows, vector_rows};
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{EmbeddingCost, MemoryCounts, MemoryModel, MemoryTotals, VectorSearch};

const DOING: &str = "count what the memory has";
/// The last compaction of a thread, by walking up its parents.
pub(crate) const SUMMARY: &str = "WITH RECURSIVE above (id, parent, type) AS (
       SELECT id, parent_turn_id, turn_type FROM turns WHERE id = ?1
       UNION ALL
       SELECT t.id, t.parent_turn_id, t.turn_type FROM above a CROSS JOIN turns t ON t.id = a.parent
       WHERE a.type <> 'compaction')
     SELECT c.summary FROM above a CROSS JOIN compactions c ON c.turn_id = a.id WHERE a.type = 'compaction'";

/// The turns of a thread since its last compaction, with that one, and those before it that it has retained.
pub(crate) const IN_CONTEXT: &str = "WITH RECURSIVE above (id, parent, type) AS (
       SELECT id, parent_turn_id, turn_type FROM turns WHERE id = ?1
       UNION ALL
       SELECT t.id, t.parent_turn_id, t.turn_type FROM above a CROSS JOIN turns t ON t.id = a.parent
       WHERE a.type <> 'compaction'),
     retained (id, parent, first) AS (
       SELECT t.id, t.parent_turn_id, c.first_kept_turn_id FROM above a
       CROSS JOIN compactions c ON c.turn_id = a.id CROSS JOIN turns t ON t.id = a.parent
       WHERE a.type = 'compaction' AND (SELECT n FROM turns WHERE id = c.first_kept_turn_id) < (SELECT n FROM turns WHERE id = a.id)
       UNION ALL
       SELECT t.id, t.parent_turn_id, r.first FROM retained r CROSS JOIN turns t ON t.id = r.parent WHERE r.id <> r.first)
     SELECT id FROM above UNION ALL SELECT id FROM retained LIMIT 4096";

/// The turns that the next context of a session has.
pub(crate) fn turns_in_context(connection: &Connection, label: &str) -> Stored<Vec<String>> {
    let Some(head) = pointers::visible_head(connection, label)?.flatten() else {
        return Ok(Vec::new());
    };
    sql::all(connection, IN_CONTEXT, (head,), "read which turns a context has")
}

/// The counts, with those of a model.
pub(crate) fn counts(connection: &Connection, model: Option<i64>) -> Stored<MemoryCounts> {
    let count = |select: &str| sql::one::<u64>(connection, select, (), DOING);
    let mut totals = MemoryTotals {
        turns: count("SELECT count(*) FROM memory_turns")?,
        chunks: count("SELECT count(*) FROM memory_chunks")?,
        facts: count("SELECT count(*) FROM memory_facts WHERE valid_to IS NULL")?,
        pending_turns: count("SELECT count(*) FROM memory_pending")?,
        clipped_turns: count("SELECT count(*) FROM memory_turns WHERE is_clipped")?,
        forgotten: count("SELECT count(*) FROM memory_forgotten")?,
        ..MemoryTotals::default()
    };
    if let Some(model) = model {
        totals.pending_vectors = sql::one(connection, vector_rows::LEFT, (model,), DOING)?;
        let skipped = "SELECT count(*) FROM memory_skipped WHERE model = ?1";
        totals.skipped = sql::one(connection, skipped, (model,), DOING)?;
        let problem =
            "SELECT problem FROM memory_skipped WHERE model = ?1 ORDER BY chunk DESC LIMIT 1";
        totals.skipped_problem = sql::optional(connection, problem, (model,), DOING)?;
    }
    let models =
        "SELECT n, name, dimensions, (SELECT count(*) FROM memory_vectors v WHERE v.model = m.n)
         FROM memory_models m ORDER BY n";
    type Row = (i64, String, u32, u64);
    let rows: Vec<Row> = sql::all(connection, models, (), DOING)?;
    totals.models = rows
        .into_iter()
        .map(|(n, name, dimensions, vectors)| MemoryModel {
            name,
            dimensions,
            vectors,
            current: model == Some(n),
            search: VectorSearch::Scan,
            search_problem: None,
        })
        .collect();
    let spent = "SELECT coalesce(sum(tokens), 0), coalesce(sum(nanos), 0), coalesce(sum(unpriced_tokens), 0)
         FROM memory_models";
    let (tokens, nanos, unpriced): (u64, u64, u64) = sql::one(connection, spent, (), DOING)?;
    Ok(MemoryCounts {
        totals,
        cost: EmbeddingCost { tokens, nanos: (unpriced == 0).then_some(nanos) },
        pending_extractions: count(extraction_rows::OPEN)?,
        skipped_extractions: count(extraction_rows::SKIPPED)?,
        extraction_problem: sql::optional(connection, extraction_rows::LAST_PROBLEM, (), DOING)?,
        extraction_cost: usage_rows::extracted(connection)?,
    })
}

/// The summary of the last compaction in a session's thread.
pub(crate) fn summary(connection: &Connection, label: &str) -> Stored<Option<String>> {
    let Some(head) = pointers::visible_head(connection, label)?.flatten() else {
        return Ok(None);
    };
    sql::optional(connection, SUMMARY, (head,), "read the summary of a session")
}
