//! Turns as a list, by a filter. One condition of the filter chooses how the turns are found, the others narrow the result.
//!
//! It must never list a turn that has not ended.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::reading::turn_tree::{no_cursor, summary, summary_columns};
use crate::rows::metadata_rows;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{EndedStatus, Page, TurnFilter, TurnSummary};

/// The number of parameters before those of the metadata.
const FIXED: usize = 9;

/// The statement of a filter, without the limit; see [`values`] for its parameters.
pub(crate) fn selection(filter: &TurnFilter, columns: &str) -> (String, Vec<Value>) {
    let (metadata, values) = match &filter.metadata {
        Some(filter) => metadata_rows::conditions(filter, FIXED + 1),
        None => (String::new(), Vec::new()),
    };
    // The first day of `?6` and the last of `?7` bound the turns.
    let (from, condition, order) = if filter.metadata.is_some() {
        (
            "turn_metadata m CROSS JOIN turns t ON t.n = m.turn",
            format!("{metadata} AND m.turn > ?2"),
            "m.turn",
        )
    } else if filter.session_label.is_some() {
        ("turns t", "t.session_label = ?3 AND t.id > ?1".to_owned(), "t.id")
    } else if filter.provider.is_some() && filter.model.is_some() {
        (
            "turns_of_models b CROSS JOIN turns t ON t.n BETWEEN b.block << 6 AND b.block << 6 | 63",
            "b.provider = ?4 AND b.model = ?5 AND b.block >= ?2 >> 6 AND t.n > ?2".to_owned(),
            "b.block, t.n",
        )
    } else {
        let first = "(SELECT min(block) << 6 FROM turns_of_days WHERE day >= ?6 / 86400000)";
        let last = "(SELECT max(block) << 6 | 63 FROM turns_of_days WHERE day <= ?7 / 86400000)";
        let mut condition = "t.n > ?2".to_owned();
        if filter.since.is_some() {
            condition = format!("{condition} AND t.n >= {first}");
        }
        if filter.until.is_some() {
            condition = format!("{condition} AND t.n <= {last}");
        }
        ("turns t", condition, "t.n")
    };
    let select = format!(
        "SELECT {columns} FROM {from} WHERE {condition} AND t.status NOT IN ('pending', 'streaming')
           AND (?3 IS NULL OR t.session_label = ?3) AND (?4 IS NULL OR t.provider = ?4)
           AND (?5 IS NULL OR t.model = ?5) AND (?6 IS NULL OR t.started_at >= ?6)
           AND (?7 IS NULL OR t.started_at < ?7) AND (?8 IS NULL OR t.status = ?8) ORDER BY {order} LIMIT ?9"
    );
    (select, values)
}

/// The numbers of all turns of a filter, in no order.
pub(crate) fn numbers(connection: &Connection, filter: &TurnFilter) -> Stored<Vec<i64>> {
    let (select, metadata) = selection(filter, "t.n");
    let values = values(filter, (String::new(), 0), -1).into_iter().chain(metadata);
    sql::all(connection, &select, params_from_iter(values), "list the turns")
}

/// The parameters of a statement before those of the metadata, after the turn with that id and number.
fn values(filter: &TurnFilter, (id, number): (String, i64), limit: i64) -> [Value; FIXED] {
    let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::Text);
    let time = |value: Option<i64>| value.map_or(Value::Null, Value::Integer);
    let status = filter.status.map(EndedStatus::as_str).map(ToOwned::to_owned);
    [
        Value::Text(id),
        Value::Integer(number),
        text(&filter.session_label),
        text(&filter.provider),
        text(&filter.model),
        time(filter.since),
        time(filter.until),
        text(&status),
        Value::Integer(limit),
    ]
}

/// The turns of `filter`: those of a session by their ids, others in the order in which they were written.
///
/// # Errors
/// `invalid_query` if `after` is not a turn.
pub(crate) fn turns(connection: &Connection, filter: &TurnFilter) -> Stored<Page<TurnSummary>> {
    let doing = "list the turns";
    let (id, number): (String, i64) = match &filter.after {
        None => (String::new(), 0),
        Some(after) => {
            let select = "SELECT id, n FROM turns WHERE id = ?1";
            sql::optional(connection, select, (after,), doing)?
                .ok_or_else(|| no_cursor("filter.after", after))?
        }
    };
    let (select, metadata) = selection(filter, &summary_columns());
    let values = values(filter, (id, number), filter.limit.and_one()).into_iter().chain(metadata);
    let values = params_from_iter(values);
    let found = sql::map(connection, &select, values, doing, summary)?;
    Ok(Page::cut(found.into_iter().map(|turn| (turn.id.clone(), turn)).collect(), filter.limit))
}
