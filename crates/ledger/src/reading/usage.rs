//! What turns have used, added up: by turn, by session, by agent, by model, by day (docs/rules/broker-interface.md#usage-reports).
//!
//! It reads turns that have ended, by an index of the key, a page of keys at a time. It must never make an unknown price 0.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::reading::turn_tree::no_cursor;
use crate::sqlite::error::{Stored, sqlite};
use model::{Page, TokenUsage, UsageBy, UsageFilter, UsageRow};

macro_rules! sums {
    ($from:literal) => {
        concat!(
            "SELECT count(*) FILTER (WHERE t.turn_type = 'normal'),
               count(*) FILTER (WHERE t.turn_type = 'normal' AND t.usage_estimated = 1),
               sum(t.cost) FILTER (WHERE t.turn_type = 'normal'),
               count(*) FILTER (WHERE t.turn_type = 'normal' AND t.cost IS NULL),
               count(*) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.input_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.output_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.cached_input_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.cache_write_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.reasoning_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.total_tokens) FILTER (WHERE t.turn_type = 'normal'),
               sum(t.input_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.output_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.cached_input_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.cache_write_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.reasoning_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.total_tokens) FILTER (WHERE t.turn_type = 'compaction'),
               sum(t.cost) FILTER (WHERE t.turn_type = 'compaction')
             FROM ",
            $from,
            " AND t.status NOT IN ('pending', 'streaming')
              AND (?1 IS NULL OR t.session_label = ?1)
              AND (?2 IS NULL OR t.session_label IN (SELECT label FROM sessions WHERE agent_id = ?2))
              AND (?3 IS NULL OR t.provider = ?3) AND (?4 IS NULL OR t.model = ?4)
              AND (?5 IS NULL OR t.started_at >= ?5) AND (?6 IS NULL OR t.started_at < ?6)"
        )
    };
}

// `?7`, and of a model `?8`, are the key; of a day its first millisecond and the next one's.
pub(crate) const OF_TURN: &str = sums!("turns t WHERE t.id = ?7 AND ?8 IS NULL");
pub(crate) const OF_SESSION: &str =
    sums!("turns t INDEXED BY turns_by_session WHERE t.session_label = ?7 AND ?8 IS NULL");
pub(crate) const OF_AGENT: &str = sums!(
    "sessions s INDEXED BY sessions_by_agent CROSS JOIN turns t INDEXED BY turns_by_session
       ON t.session_label = s.label WHERE s.agent_id = ?7 AND ?8 IS NULL"
);
pub(crate) const OF_MODEL: &str =
    sums!("turns t INDEXED BY turns_by_model WHERE t.provider = ?7 AND t.model = ?8");
pub(crate) const OF_DAY: &str =
    sums!("turns t INDEXED BY turns_by_start WHERE t.started_at >= ?7 AND t.started_at < ?8");

pub(crate) const NEXT_TURN: &str = "SELECT id FROM turns WHERE id > ?1 ORDER BY id LIMIT 1";
pub(crate) const NEXT_TURN_OF_SESSION: &str =
    "SELECT id FROM turns WHERE session_label = ?2 AND id > ?1 ORDER BY id LIMIT 1";
pub(crate) const NEXT_SESSION: &str =
    "SELECT label FROM sessions WHERE label > ?1 ORDER BY label LIMIT 1";
pub(crate) const NEXT_AGENT: &str =
    "SELECT agent_id FROM sessions WHERE agent_id > ?1 ORDER BY agent_id LIMIT 1";
pub(crate) const NEXT_MODEL: &str = "SELECT provider, model FROM turns WHERE (provider, model) > (?1, ?2) ORDER BY provider, model LIMIT 1";
pub(crate) const NEXT_START: &str =
    "SELECT started_at FROM turns WHERE started_at >= ?1 ORDER BY started_at LIMIT 1";
pub(crate) const HAS_MODEL: &str = "SELECT 1 FROM turns WHERE provider = ?1 AND model = ?2 LIMIT 1";

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// One group of turns: its key for the host, and what its statement is given.
struct Group {
    key: String,
    bound: (rusqlite::types::Value, rusqlite::types::Value),
    after_key: UsageKey,
}

/// Where the next group is looked for.
#[derive(Clone)]
enum UsageKey {
    Text(String),
    Model(String, String),
    Time(i64),
}

/// The usage that `filter` asks for, by its keys.
///
/// # Errors
/// `invalid_query` for an `after` that is no key.
pub(crate) fn usage(connection: &Connection, filter: &UsageFilter) -> Stored<Page<UsageRow>> {
    let failed = |error| sqlite("add up the ledger's usage", &error);
    let sql = match filter.by {
        UsageBy::Turn => OF_TURN,
        UsageBy::Session => OF_SESSION,
        UsageBy::Agent => OF_AGENT,
        UsageBy::Model => OF_MODEL,
        UsageBy::Day => OF_DAY,
    };
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut after_key = Some(first(connection, filter)?);
    let mut read = Vec::new();
    while read.len() <= filter.limit.items()
        && let Some(from) = after_key.take()
        && let Some(group) = next(connection, filter, &from).map_err(failed)?
    {
        let sums = params![
            filter.session_label,
            filter.agent_id,
            filter.provider,
            filter.model,
            filter.since,
            filter.until,
            group.bound.0,
            group.bound.1,
        ];
        let row = statement.query_row(sums, |row| row_of(group.key, row)).map_err(failed)?;
        if row.turns > 0 || row.compactions > 0 {
            read.push((row.key.clone(), row));
        }
        after_key = Some(group.after_key);
    }
    Ok(Page::cut(read, filter.limit))
}

fn first(connection: &Connection, filter: &UsageFilter) -> Stored<UsageKey> {
    let failed = |error| sqlite("add up the ledger's usage", &error);
    let after = filter.after.as_deref();
    let no_key = || no_cursor("filter.after", after.unwrap_or_default());
    Ok(match (filter.by, after) {
        (UsageBy::Turn | UsageBy::Session | UsageBy::Agent, after) => {
            UsageKey::Text(after.unwrap_or("").to_owned())
        }
        (UsageBy::Model, None) => UsageKey::Model(String::new(), String::new()),
        // Either name may have a `/`: the cut is where such a pair is.
        (UsageBy::Model, Some(after)) => {
            let mut found = None;
            for (at, _) in after.match_indices('/') {
                let (Some(provider), Some(model)) = (after.get(..at), after.get(at + 1..)) else {
                    continue;
                };
                let there = connection
                    .prepare_cached(HAS_MODEL)
                    .and_then(|mut statement| statement.exists((provider, model)))
                    .map_err(failed)?;
                if there {
                    found = Some(UsageKey::Model(provider.to_owned(), model.to_owned()));
                    break;
                }
            }
            found.ok_or_else(no_key)?
        }
        (UsageBy::Day, None) => UsageKey::Time(filter.since.unwrap_or(i64::MIN)),
        (UsageBy::Day, Some(after)) => {
            let start: Option<i64> = connection
                .prepare_cached("SELECT unixepoch(?1) * 1000 WHERE ?1 IS date(?1)")
                .and_then(|mut statement| {
                    statement.query_row((after,), |row| row.get(0)).optional()
                })
                .map_err(failed)?;
            UsageKey::Time(start.ok_or_else(no_key)?.saturating_add(DAY))
        }
    })
}

fn next(
    connection: &Connection,
    filter: &UsageFilter,
    after_key: &UsageKey,
) -> rusqlite::Result<Option<Group>> {
    use rusqlite::types::Value;
    match after_key {
        UsageKey::Text(after) => {
            let find = |sql, session: Option<&str>| {
                let mut statement = connection.prepare_cached(sql)?;
                match session {
                    Some(label) => statement.query_row((after, label), |row| row.get(0)),
                    None => statement.query_row((after,), |row| row.get(0)),
                }
                .optional()
            };
            // The only key there is: no others are gone through.
            let the = |only: &String| Ok((only > after).then(|| only.clone()));
            let session = filter.session_label.as_ref();
            let key: Option<String> = match filter.by {
                UsageBy::Turn if session.is_some() => {
                    find(NEXT_TURN_OF_SESSION, session.map(String::as_str))
                }
                UsageBy::Turn => find(NEXT_TURN, None),
                UsageBy::Session => session.map_or_else(|| find(NEXT_SESSION, None), the),
                UsageBy::Agent | UsageBy::Model | UsageBy::Day => {
                    filter.agent_id.as_ref().map_or_else(|| find(NEXT_AGENT, None), the)
                }
            }?;
            Ok(key.map(|key| Group {
                bound: (Value::Text(key.clone()), Value::Null),
                after_key: UsageKey::Text(key.clone()),
                key,
            }))
        }
        UsageKey::Model(provider, model) => {
            let found: Option<(String, String)> = connection
                .prepare_cached(NEXT_MODEL)?
                .query_row((provider, model), |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            Ok(found.map(|(provider, model)| Group {
                key: format!("{provider}/{model}"),
                bound: (Value::Text(provider.clone()), Value::Text(model.clone())),
                after_key: UsageKey::Model(provider, model),
            }))
        }
        UsageKey::Time(from) => {
            let from = filter.since.map_or(*from, |since| since.max(*from));
            let start: Option<i64> = connection
                .prepare_cached(NEXT_START)?
                .query_row((from,), |row| row.get(0))
                .optional()?;
            let Some(start) = start.filter(|start| filter.until.is_none_or(|until| *start < until))
            else {
                return Ok(None);
            };
            let day = start.div_euclid(DAY).saturating_mul(DAY);
            let key = connection
                .prepare_cached("SELECT date(?1, 'unixepoch')")?
                .query_row((day / 1_000,), |row| row.get(0))?;
            let end = day.saturating_add(DAY);
            let bound = (Value::Integer(day), Value::Integer(end));
            Ok(Some(Group { key, bound, after_key: UsageKey::Time(end) }))
        }
    }
}

fn row_of(key: String, row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let count = |at: usize| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.unwrap_or_default().cast_unsigned())
    };
    let usage = |at: usize| {
        Ok::<_, rusqlite::Error>(TokenUsage {
            input_tokens: count(at)?,
            output_tokens: count(at + 1)?,
            cached_input_tokens: count(at + 2)?,
            cache_write_tokens: count(at + 3)?,
            reasoning_tokens: count(at + 4)?,
            total_tokens: count(at + 5)?,
        })
    };
    Ok(UsageRow {
        key,
        turns: count(0)?,
        estimated_turns: count(1)?,
        cost: row.get(2)?,
        unpriced_turns: count(3)?,
        compactions: count(4)?,
        usage: usage(5)?,
        compaction_usage: usage(11)?,
        compaction_cost: row.get(17)?,
    })
}
