//! The usage of turns, summed by turn, by session, by agent, by model, by day or by a key of metadata
//! (docs/rules/broker-interface.md#usage-reports).
//!
//! It reads ended turns, by an index of the key, a page of keys at a time, and from `turn_rows`, whose numbers are compared
//! faster than the words of the view. It must never count an unknown price as 0.

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params, params_from_iter};

use crate::memory_rows::usage_rows;
use crate::reading::turn_tree::no_cursor;
use crate::rows::metadata_rows;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::{MetadataKey, Page, UsageBy, UsageFilter, UsageRow};

/// The sums of a group, in the order in which [`usage_row`] reads them.
macro_rules! sum_columns {
    () => {
        "count(*) FILTER (WHERE t.turn_type = 0),
               count(*) FILTER (WHERE t.turn_type = 0 AND t.usage_estimated = 1),
               sum(t.cost) FILTER (WHERE t.turn_type = 0),
               count(*) FILTER (WHERE t.turn_type = 0 AND t.cost IS NULL),
               count(*) FILTER (WHERE t.turn_type = 1),
               coalesce(sum(t.input_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.output_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.cached_input_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.cache_write_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.reasoning_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.total_tokens) FILTER (WHERE t.turn_type = 0), 0),
               coalesce(sum(t.input_tokens) FILTER (WHERE t.turn_type = 1), 0),
               coalesce(sum(t.output_tokens) FILTER (WHERE t.turn_type = 1), 0),
               coalesce(sum(t.cached_input_tokens) FILTER (WHERE t.turn_type = 1), 0),
               coalesce(sum(t.cache_write_tokens) FILTER (WHERE t.turn_type = 1), 0),
               coalesce(sum(t.reasoning_tokens) FILTER (WHERE t.turn_type = 1), 0),
               coalesce(sum(t.total_tokens) FILTER (WHERE t.turn_type = 1), 0),
               sum(t.cost) FILTER (WHERE t.turn_type = 1)"
    };
}

/// The conditions of a filter on the turns `t`.
macro_rules! of_filter {
    () => {
        " AND t.status NOT IN (0, 1)
              AND (?1 IS NULL OR t.session_label = ?1)
              AND (?2 IS NULL OR t.session_label IN (SELECT label FROM sessions WHERE agent_id = ?2))
              AND (?3 IS NULL OR (SELECT s.text FROM strings s WHERE s.id = t.provider) = ?3)
              AND (?4 IS NULL OR (SELECT s.text FROM strings s WHERE s.id = t.model) = ?4)
              AND (?5 IS NULL OR t.started_at >= ?5) AND (?6 IS NULL OR t.started_at < ?6)"
    };
}

/// Selects the sums of a group.
macro_rules! sums {
    ($from:literal) => {
        concat!("SELECT ", sum_columns!(), " FROM ", $from, of_filter!())
    };
}

// The key is `?7`, with `?8` for a model; for a day they are its first millisecond and that of the next day.
pub(crate) const OF_TURN: &str = sums!("turn_rows t WHERE t.id = ?7 AND ?8 IS NULL");
pub(crate) const OF_SESSION: &str =
    sums!("turn_rows t INDEXED BY turns_by_session WHERE t.session_label = ?7 AND ?8 IS NULL");
pub(crate) const OF_AGENT: &str = sums!(
    "sessions s INDEXED BY sessions_by_agent CROSS JOIN turn_rows t INDEXED BY turns_by_session
       ON t.session_label = s.label WHERE s.agent_id = ?7 AND ?8 IS NULL"
);
pub(crate) const OF_MODEL: &str = sums!(
    "turns_of_models b CROSS JOIN turn_rows t ON t.n BETWEEN b.block << 6 AND b.block << 6 | 63
       AND (SELECT s.text FROM strings s WHERE s.id = t.provider) = b.provider
       AND (SELECT s.text FROM strings s WHERE s.id = t.model) = b.model WHERE b.provider = ?7 AND b.model = ?8"
);
pub(crate) const OF_DAY: &str = sums!(
    "turns_of_days b CROSS JOIN turn_rows t ON t.n BETWEEN b.block << 6 AND b.block << 6 | 63
       AND t.started_at >= ?7 AND t.started_at < ?8 WHERE b.day = ?7 / 86400000"
);

pub(crate) const NEXT_TURN: &str = "SELECT id FROM turns WHERE id > ?1 ORDER BY id LIMIT 1";
pub(crate) const NEXT_TURN_OF_SESSION: &str =
    "SELECT id FROM turns WHERE session_label = ?2 AND id > ?1 ORDER BY id LIMIT 1";
pub(crate) const NEXT_SESSION: &str =
    "SELECT label FROM sessions WHERE label > ?1 ORDER BY label LIMIT 1";
pub(crate) const NEXT_AGENT: &str =
    "SELECT agent_id FROM sessions WHERE agent_id > ?1 ORDER BY agent_id LIMIT 1";
pub(crate) const NEXT_MODEL: &str = "SELECT provider, model FROM turns_of_models \
     WHERE (provider, model) > (?1, ?2) ORDER BY provider, model LIMIT 1";
pub(crate) const NEXT_DAY: &str =
    "SELECT day FROM turns_of_days WHERE day >= ?1 ORDER BY day LIMIT 1";
pub(crate) const HAS_MODEL: &str =
    "SELECT 1 FROM turns_of_models WHERE provider = ?1 AND model = ?2 LIMIT 1";

const DOING: &str = "add up the ledger's usage";

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// One group of turns: its key for the host, and the values of its statement.
struct Group {
    key: String,
    bound: (Value, Value),
    after_key: UsageKey,
}

/// The key after which the next group follows.
#[derive(Clone)]
enum UsageKey {
    Text(String),
    Model(String, String),
    Time(i64),
}

/// The usage that `filter` selects, by its keys.
///
/// # Errors
/// `invalid_query` if `after` is not a key.
pub(crate) fn usage(connection: &Connection, filter: &UsageFilter) -> Stored<Page<UsageRow>> {
    let (select, of_memory) = match &filter.by {
        UsageBy::Metadata(key) => return by_metadata(connection, filter, key),
        UsageBy::Turn => (OF_TURN, None),
        UsageBy::Session => (OF_SESSION, Some(usage_rows::OF_SESSION)),
        UsageBy::Agent => (OF_AGENT, Some(usage_rows::OF_AGENT)),
        UsageBy::Model => (OF_MODEL, Some(usage_rows::OF_MODEL)),
        UsageBy::Day => (OF_DAY, Some(usage_rows::OF_DAY)),
    };
    // A call of the memory has no metadata.
    let of_memory = of_memory.filter(|_| filter.metadata.is_none());
    let (narrowed, metadata) = narrow(filter, 9);
    let select = if metadata.is_empty() { select } else { &format!("{select}{narrowed}") };
    let mut after_key = Some(first(connection, filter)?);
    let mut read = Vec::new();
    while read.len() <= filter.limit.items()
        && let Some(from) = after_key.take()
        && let Some(group) = next(connection, filter, &from)?
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
        let sums = sums.iter().copied().chain(metadata.iter().map(|value| value as &dyn ToSql));
        let sums = params_from_iter(sums);
        let row =
            sql::first(connection, select, sums, DOING, |fields| usage_row(&group.key, fields))?;
        let mut row = row.filter(|row| row.turns > 0 || row.compactions > 0);
        if let Some(select) = of_memory {
            let key = (&group.bound.0, &group.bound.1);
            let memory = usage_rows::of_group(connection, select, filter, key)?;
            if memory.calls > 0 {
                let none = UsageRow { key: group.key.clone(), ..UsageRow::default() };
                row = Some(UsageRow {
                    memory_calls: memory.calls,
                    memory_usage: memory.usage,
                    memory_cost: memory.cost,
                    ..row.unwrap_or(none)
                });
            }
        }
        if let Some(row) = row {
            read.push((group.key, row));
        }
        after_key = Some(group.after_key);
    }
    Ok(Page::cut(read, filter.limit))
}

/// The condition that the turns `t` have the metadata of the filter, whose values have the parameters from `?first` on.
fn narrow(filter: &UsageFilter, first: usize) -> (String, Vec<Value>) {
    let Some(metadata) = &filter.metadata else { return (String::new(), Vec::new()) };
    let (conditions, values) = metadata_rows::conditions(metadata, first);
    (format!(" AND t.n IN (SELECT turn FROM turn_metadata WHERE {conditions})"), values)
}

/// Selects the sums by the values of a key, after the value `?7`. An index of the key has the groups in order.
pub(crate) fn of_metadata(key: &MetadataKey, narrowed: &str) -> String {
    let (value, sums, filter) = (metadata_rows::value_of(key), sum_columns!(), of_filter!());
    format!(
        "SELECT ({value}), {sums} FROM turn_metadata m CROSS JOIN turn_rows t ON t.n = m.turn
         WHERE ({value}) > ?7{filter}{narrowed} GROUP BY ({value}) ORDER BY ({value}) LIMIT ?8"
    )
}

fn by_metadata(
    connection: &Connection,
    filter: &UsageFilter,
    key: &MetadataKey,
) -> Stored<Page<UsageRow>> {
    let (narrowed, metadata) = narrow(filter, 9);
    let after = filter.after.as_deref().unwrap_or_default();
    let values = params![
        filter.session_label,
        filter.agent_id,
        filter.provider,
        filter.model,
        filter.since,
        filter.until,
        after,
        filter.limit.and_one(),
    ];
    let values = values.iter().copied().chain(metadata.iter().map(|value| value as &dyn ToSql));
    let values = params_from_iter(values);
    let select = of_metadata(key, &narrowed);
    let rows = sql::map(connection, &select, values, DOING, |fields| {
        let value: String = fields.next()?;
        // A text is shown as it is.
        let key = serde_json::from_str::<String>(&value).unwrap_or_else(|_| value.clone());
        Ok((value, usage_row(&key, fields)?))
    })?;
    Ok(Page::cut(rows, filter.limit))
}

fn first(connection: &Connection, filter: &UsageFilter) -> Stored<UsageKey> {
    let after = filter.after.as_deref();
    let no_key = || no_cursor("filter.after", after.unwrap_or_default());
    Ok(match (&filter.by, after) {
        (UsageBy::Turn | UsageBy::Session | UsageBy::Agent | UsageBy::Metadata(_), after) => {
            UsageKey::Text(after.unwrap_or("").to_owned())
        }
        (UsageBy::Model, None) => UsageKey::Model(String::new(), String::new()),
        // Both names may contain a `/`: the correct split is the one whose pair is in the ledger.
        (UsageBy::Model, Some(after)) => {
            let mut found = None;
            for (at, _) in after.match_indices('/') {
                let (Some(provider), Some(model)) = (after.get(..at), after.get(at + 1..)) else {
                    continue;
                };
                let is_in = |select| sql::exists(connection, select, (provider, model), DOING);
                if is_in(HAS_MODEL)? || is_in(usage_rows::HAS_MODEL)? {
                    found = Some(UsageKey::Model(provider.to_owned(), model.to_owned()));
                    break;
                }
            }
            found.ok_or_else(no_key)?
        }
        (UsageBy::Day, None) => UsageKey::Time(filter.since.unwrap_or(i64::MIN)),
        (UsageBy::Day, Some(after)) => {
            let select = "SELECT unixepoch(?1) * 1000 WHERE ?1 IS date(?1)";
            let start: Option<i64> = sql::optional(connection, select, (after,), DOING)?;
            UsageKey::Time(start.ok_or_else(no_key)?.saturating_add(DAY))
        }
    })
}

/// The next group after a key.
fn next(
    connection: &Connection,
    filter: &UsageFilter,
    after_key: &UsageKey,
) -> Stored<Option<Group>> {
    match after_key {
        UsageKey::Text(after) => {
            let find = |select| sql::optional(connection, select, (after,), DOING);
            // The filter allows one key only.
            let the = |only: &String| Ok((only > after).then(|| only.clone()));
            let key: Option<String> = match (&filter.by, &filter.session_label) {
                (UsageBy::Turn, Some(label)) => {
                    sql::optional(connection, NEXT_TURN_OF_SESSION, (after, label), DOING)
                }
                (UsageBy::Turn, None) => find(NEXT_TURN),
                (UsageBy::Session, None) => {
                    Ok(least(find(NEXT_SESSION)?, find(usage_rows::NEXT_SESSION)?))
                }
                (UsageBy::Session, Some(session)) => the(session),
                (UsageBy::Agent | UsageBy::Model | UsageBy::Day | UsageBy::Metadata(_), _) => {
                    filter.agent_id.as_ref().map_or_else(|| find(NEXT_AGENT), the)
                }
            }?;
            Ok(key.map(|key| Group {
                bound: (Value::Text(key.clone()), Value::Null),
                after_key: UsageKey::Text(key.clone()),
                key,
            }))
        }
        UsageKey::Model(provider, model) => {
            let find = |select| sql::optional(connection, select, (provider, model), DOING);
            let found: Option<(String, String)> =
                least(find(NEXT_MODEL)?, find(usage_rows::NEXT_MODEL)?);
            Ok(found.map(|(provider, model)| Group {
                key: format!("{provider}/{model}"),
                bound: (Value::Text(provider.clone()), Value::Text(model.clone())),
                after_key: UsageKey::Model(provider, model),
            }))
        }
        UsageKey::Time(from) => {
            let from = filter.since.map_or(*from, |since| since.max(*from));
            let find = |select| sql::optional(connection, select, (from.div_euclid(DAY),), DOING);
            let found: Option<i64> = least(find(NEXT_DAY)?, find(usage_rows::NEXT_DAY)?);
            let start = found.map(|day| day.saturating_mul(DAY));
            let Some(day) = start.filter(|day| filter.until.is_none_or(|until| *day < until))
            else {
                return Ok(None);
            };
            let key = sql::one(connection, "SELECT date(?1, 'unixepoch')", (day / 1_000,), DOING)?;
            let end = day.saturating_add(DAY);
            let bound = (Value::Integer(day), Value::Integer(end));
            Ok(Some(Group { key, bound, after_key: UsageKey::Time(end) }))
        }
    }
}

/// The smaller of two keys.
fn least<K: Ord>(one: Option<K>, other: Option<K>) -> Option<K> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A row of [`sums!`].
fn usage_row(key: &str, fields: &mut Fields<'_>) -> Stored<UsageRow> {
    Ok(UsageRow {
        key: key.to_owned(),
        turns: fields.next()?,
        estimated_turns: fields.next()?,
        cost: fields.next()?,
        unpriced_turns: fields.next()?,
        compactions: fields.next()?,
        usage: fields.next()?,
        compaction_usage: fields.next()?,
        compaction_cost: fields.next()?,
        ..UsageRow::default()
    })
}
