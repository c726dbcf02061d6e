//! The rows of `memory_usage`: what the memory's calls of models have used, by session, day, model and purpose.
//!
//! It must never count an unknown price as 0.

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::sqlite::error::Stored;
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::{CallCost, EmbeddingCost, MemoryCall, TokenUsage, UsageFilter};

const DAY: i64 = 86_400_000;
const ADDING: &str = "add to the usage of the memory";
const READING: &str = "add up the usage of the memory";
const ADD: &str = "INSERT INTO memory_usage (session_label, day, provider, model, purpose, calls, unpriced_calls, input_tokens,
       output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, nanos)
     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
     ON CONFLICT (session_label, day, provider, model, purpose) DO UPDATE SET
       calls = calls + 1, unpriced_calls = unpriced_calls + excluded.unpriced_calls,
       input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
       cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
       cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
       reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
       total_tokens = total_tokens + excluded.total_tokens, nanos = nanos + excluded.nanos";
pub(crate) const EXTRACTED_ON: &str =
    "SELECT coalesce(sum(total_tokens), 0), coalesce(sum(nanos), 0)
     FROM memory_usage INDEXED BY memory_usage_by_day WHERE day = ?1 AND purpose = 'extract'";

/// The sums of the rows that a filter selects.
macro_rules! sums {
    ($from:literal) => {
        concat!(
            "SELECT coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
               coalesce(sum(cached_input_tokens), 0), coalesce(sum(cache_write_tokens), 0),
               coalesce(sum(reasoning_tokens), 0), coalesce(sum(total_tokens), 0),
               CASE WHEN sum(calls) > sum(unpriced_calls) THEN sum(nanos) / 1e9 END FROM ",
            $from,
            " AND (?1 IS NULL OR m.session_label = ?1)
              AND (?2 IS NULL OR m.session_label IN (SELECT label FROM sessions WHERE agent_id = ?2))
              AND (?3 IS NULL OR m.provider = ?3) AND (?4 IS NULL OR m.model = ?4)
              AND (?5 IS NULL OR (m.day + 1) * 86400000 > ?5) AND (?6 IS NULL OR m.day * 86400000 < ?6)"
        )
    };
}

// The key is `?7`, with `?8` for a model; for a day they are its first millisecond and that of the next day.
pub(crate) const OF_SESSION: &str =
    sums!("memory_usage m WHERE m.session_label = ?7 AND ?8 IS NULL");
pub(crate) const OF_AGENT: &str = sums!(
    "sessions s INDEXED BY sessions_by_agent CROSS JOIN memory_usage m ON m.session_label = s.label
       WHERE s.agent_id = ?7 AND ?8 IS NULL"
);
pub(crate) const OF_MODEL: &str =
    sums!("memory_usage m INDEXED BY memory_usage_by_model WHERE m.provider = ?7 AND m.model = ?8");
pub(crate) const OF_DAY: &str = sums!(
    "memory_usage m INDEXED BY memory_usage_by_day WHERE m.day = ?7 / 86400000 AND ?8 IS NOT NULL"
);
pub(crate) const NEXT_SESSION: &str = "SELECT session_label FROM memory_usage WHERE session_label > ?1 ORDER BY session_label LIMIT 1";
pub(crate) const NEXT_MODEL: &str = "SELECT provider, model FROM memory_usage
     WHERE (provider, model) > (?1, ?2) ORDER BY provider, model LIMIT 1";
pub(crate) const NEXT_DAY: &str =
    "SELECT day FROM memory_usage WHERE day >= ?1 ORDER BY day LIMIT 1";
pub(crate) const HAS_MODEL: &str =
    "SELECT 1 FROM memory_usage WHERE provider = ?1 AND model = ?2 LIMIT 1";

/// Adds a call.
pub(crate) fn add(connection: &Connection, call: &MemoryCall) -> Stored<()> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let MemoryCall { session_label, provider, model, purpose, usage, nanos, at } = call;
    let values = params![
        session_label,
        at.div_euclid(DAY),
        provider,
        model,
        purpose.as_str(),
        nanos.is_none(),
        number(usage.input_tokens),
        number(usage.output_tokens),
        number(usage.cached_input_tokens),
        number(usage.cache_write_tokens),
        number(usage.reasoning_tokens),
        number(usage.total_tokens),
        number(nanos.unwrap_or_default()),
    ];
    sql::exec(connection, ADD, values, ADDING).map(drop)
}

/// What extraction has used on the day of a time.
pub(crate) fn extracted_on(connection: &Connection, at: i64) -> Stored<CallCost> {
    let day = at.div_euclid(DAY);
    let (tokens, nanos) = sql::one(connection, EXTRACTED_ON, (day,), READING)?;
    Ok(CallCost { tokens, nanos })
}

/// What extraction has used.
pub(crate) fn extracted(connection: &Connection) -> Stored<EmbeddingCost> {
    let select = "SELECT coalesce(sum(total_tokens), 0), coalesce(sum(nanos), 0), coalesce(sum(unpriced_calls), 0)
         FROM memory_usage WHERE purpose = 'extract'";
    let (tokens, nanos, unpriced): (u64, u64, u64) = sql::one(connection, select, (), READING)?;
    Ok(EmbeddingCost { tokens, nanos: (unpriced == 0).then_some(nanos) })
}

/// The calls of a group of a usage report.
#[derive(Default)]
pub(crate) struct MemoryUsage {
    pub(crate) calls: u64,
    pub(crate) usage: TokenUsage,
    pub(crate) cost: Option<f64>,
}

/// The calls that a statement of this file selects.
pub(crate) fn of_group(
    connection: &Connection,
    select: &str,
    filter: &UsageFilter,
    key: (&Value, &Value),
) -> Stored<MemoryUsage> {
    let values = params![
        filter.session_label,
        filter.agent_id,
        filter.provider,
        filter.model,
        filter.since,
        filter.until,
        key.0,
        key.1,
    ];
    let read = |fields: &mut Fields<'_>| {
        Ok(MemoryUsage { calls: fields.next()?, usage: fields.next()?, cost: fields.next()? })
    };
    Ok(sql::first(connection, select, values, READING, read)?.unwrap_or_default())
}

/// Deletes what the calls for a session have used.
pub(crate) fn forget(connection: &Connection, label: &str) -> Stored<()> {
    let delete = "DELETE FROM memory_usage WHERE session_label = ?1";
    sql::exec(connection, delete, (label,), "delete the usage of a session").map(drop)
}
