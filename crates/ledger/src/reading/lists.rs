//! Sessions and tool calls as lists, by a filter. One condition of the filter chooses the index, the others narrow the
//! result.
//!
//! It must never list rows of a session or a turn that is not visible to readers yet.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params, params_from_iter};

use crate::reading::turn_tree::no_cursor;
use crate::rows::metadata_rows;
use crate::rows::row_key::OF_TURN;
use crate::rows::session_rows::{IS_SESSION, columns_with_metadata, session_row};
use crate::rows::tool_call_rows::{ToolCallColumns, tool_call};
use crate::sqlite::checksum::{Checked, checked};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{
    MetadataFilter, Page, SessionFilter, SessionRow, SessionStatus, ToolCallFilter, ToolCallRow,
    ToolCallStatus,
};

/// Selects the sessions of a filter; `condition` is the one that `index` serves.
fn sessions_by(index: &str, condition: &str) -> String {
    sessions_from(&format!("sessions {index}"), condition, "label")
}

fn sessions_from(from: &str, condition: &str, order: &str) -> String {
    let (columns, is_session) = (columns_with_metadata(), &*IS_SESSION);
    format!(
        "SELECT {columns} FROM {from} WHERE {condition}
           AND label >= ?1 AND label IS NOT ?2 AND label < ?3 AND {is_session}
           AND (?4 IS NULL OR agent_id = ?4) AND (?5 IS NULL OR persona_id = ?5)
           AND (?6 IS NULL OR parent_session_label = ?6) AND (?7 IS NULL OR status = ?7)
           AND (?8 IS NULL OR is_subagent = ?8)
         ORDER BY {order} LIMIT ?9"
    )
}

pub(crate) static SESSIONS: LazyLock<String> = LazyLock::new(|| sessions_by("", "1"));
pub(crate) static SESSIONS_OF_PARENT: LazyLock<String> =
    LazyLock::new(|| sessions_by("INDEXED BY sessions_by_parent", "parent_session_label = ?6"));
pub(crate) static SESSIONS_OF_AGENT: LazyLock<String> =
    LazyLock::new(|| sessions_by("INDEXED BY sessions_by_agent", "agent_id = ?4"));
pub(crate) static SESSIONS_OF_PERSONA: LazyLock<String> =
    LazyLock::new(|| sessions_by("INDEXED BY sessions_by_persona", "persona_id = ?5"));
pub(crate) static SESSIONS_ARCHIVED: LazyLock<String> =
    LazyLock::new(|| sessions_by("INDEXED BY sessions_archived", "status = 'archived'"));

/// Selects the sessions whose metadata has the values of a filter, which are its last parameters.
pub(crate) fn sessions_with(filter: &MetadataFilter) -> (String, Vec<Value>) {
    let (condition, values) = metadata_rows::conditions(filter, 10);
    let from = "session_metadata m CROSS JOIN sessions ON label = m.session_label";
    (sessions_from(from, &condition, "m.session_label"), values)
}

/// The sessions of `filter`, by their labels.
pub(crate) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Stored<Page<SessionRow>> {
    let by_metadata;
    let mut metadata = Vec::new();
    let select = if let Some(filter) = &filter.metadata {
        (by_metadata, metadata) = sessions_with(filter);
        &by_metadata
    } else if filter.parent_session_label.is_some() {
        &SESSIONS_OF_PARENT
    } else if filter.agent_id.is_some() {
        &SESSIONS_OF_AGENT
    } else if filter.persona_id.is_some() {
        &SESSIONS_OF_PERSONA
    } else if filter.status == Some(SessionStatus::Archived) {
        &SESSIONS_ARCHIVED
    } else {
        &SESSIONS
    };
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let from = filter.after.as_deref().unwrap_or_default().max(prefix);
    // In SQLite's order a blob is greater than every text.
    let end = match filter.prefix.as_deref() {
        None | Some("") => Value::Blob(Vec::new()),
        Some(prefix) => Value::Text(format!("{prefix}\u{10ffff}")),
    };
    let fixed = params![
        from,
        filter.after,
        end,
        filter.agent_id,
        filter.persona_id,
        filter.parent_session_label,
        filter.status.map(SessionStatus::as_str),
        filter.is_subagent,
        filter.limit.and_one(),
    ];
    let values = fixed.iter().copied().chain(metadata.iter().map(|value| value as &dyn ToSql));
    let values = params_from_iter(values);
    let found = sql::map(connection, select, values, "list the sessions", session_row)?;
    Ok(Page::cut(found.into_iter().map(|it| (it.label.clone(), it)).collect(), filter.limit))
}

/// Bytes of arguments and results on one page.
const PAGE_BYTES: usize = 16 << 20;

/// Selects tool calls of a filter, each with its turn and the session of that.
fn calls(from: &str, order: &str) -> String {
    let columns = checked::<ToolCallColumns<'_>>("call_values", "c");
    format!(
        "SELECT {columns}, t.id, t.session_label FROM {from}
           AND (?3 IS NULL OR t.id = ?3) AND (?4 IS NULL OR t.session_label = ?4)
           AND (?5 IS NULL OR c.tool_name = ?5) AND (?6 IS NULL OR c.status = ?6)
           AND t.status NOT IN (0, 1)
         ORDER BY {order} LIMIT ?7"
    )
}

/// Selects the calls after the position `?1`, `?2` in the turns of a condition, which `index` serves.
fn calls_of(index: &str, condition: &str) -> String {
    calls(
        &format!(
            "turn_rows t {index} CROSS JOIN call_values c ON c.key {OF_TURN}
             WHERE {condition} AND t.id >= ?1 AND (t.id > ?1 OR c.key & 1048575 > ?2)"
        ),
        "t.id, c.key",
    )
}

pub(crate) static CALLS: LazyLock<String> = LazyLock::new(|| calls_of("", "1"));
pub(crate) static CALLS_OF_TURN: LazyLock<String> = LazyLock::new(|| calls_of("", "t.id = ?3"));
pub(crate) static CALLS_OF_SESSION: LazyLock<String> =
    LazyLock::new(|| calls_of("INDEXED BY turns_by_session", "t.session_label = ?4"));
pub(crate) static CALLS_OF_TOOL: LazyLock<String> = LazyLock::new(|| {
    calls(
        "turns_of_tools b CROSS JOIN call_values c ON c.key BETWEEN b.block << 26 AND b.block << 26 | 67108863
         CROSS JOIN turn_rows t ON t.n = c.key >> 20
         WHERE b.tool_name = ?5 AND b.block >= coalesce((SELECT n FROM turns WHERE id = ?1), 0) >> 6
           AND c.key > (coalesce((SELECT n FROM turns WHERE id = ?1), 0) << 20 | ?2)",
        "b.block, c.key",
    )
});
pub(crate) const CALL_POSITION: &str = "SELECT turn_id, sequence FROM tool_calls WHERE id = ?1";

/// The tool calls of `filter`, by turn and by their order in it. Those of a tool are in the order in which their turns were
/// written, the others in the order of the turns' ids.
///
/// # Errors
/// `invalid_query` if `after` is not a call.
pub(crate) fn tool_calls(
    connection: &Connection,
    filter: &ToolCallFilter,
) -> Stored<Page<ToolCallRow>> {
    let doing = "list the tool calls";
    let select = if filter.turn_id.is_some() {
        &CALLS_OF_TURN
    } else if filter.session_label.is_some() {
        &CALLS_OF_SESSION
    } else if filter.tool_name.is_some() {
        &CALLS_OF_TOOL
    } else {
        &CALLS
    };
    let (turn, sequence): (String, i64) = match &filter.after {
        None => (String::new(), -1),
        Some(after) => sql::optional(connection, CALL_POSITION, (after,), doing)?
            .ok_or_else(|| no_cursor("filter.after", after))?,
    };
    let values = params![
        turn,
        sequence,
        filter.turn_id,
        filter.session_label,
        filter.tool_name,
        filter.status.map(ToolCallStatus::as_str),
        filter.limit.and_one(),
    ];
    let mut found: Vec<(String, ToolCallRow)> = Vec::new();
    let mut bytes = 0;
    let mut full = false;
    sql::each(connection, select, values, doing, |fields| {
        let checked: Checked<ToolCallColumns<'_>> = fields.next()?;
        let call = tool_call(connection, &checked)?;
        bytes += call.params.get().len() + call.result.as_ref().map_or(0, |it| it.get().len());
        full = bytes > PAGE_BYTES && !found.is_empty();
        if full {
            return Ok(ControlFlow::Break(()));
        }
        let (turn_id, session_label) = fields.next()?;
        found.push((call.call_id.clone(), ToolCallRow { turn_id, session_label, call }));
        Ok(ControlFlow::Continue(()))
    })?;
    let last = found.last().map(|(key, _)| key.clone());
    let page = Page::cut(found, filter.limit);
    Ok(Page { next: page.next.or_else(|| last.filter(|_| full)), ..page })
}
