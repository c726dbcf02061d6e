//! Sessions and tool calls as lists, by what is asked of them. Each filter has its index; the others narrow what that one
//! finds.
//!
//! It must never show what belongs to a session or a turn that nobody may see yet.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::reading::turn_tree::no_cursor;
use crate::rows::row_types;
use crate::sqlite::checksum::is_whole;
use crate::sqlite::error::{Stored, sqlite};
use model::{
    Page, SessionFilter, SessionRow, SessionStatus, ToolCallFilter, ToolCallRow, ToolCallStatus,
};

macro_rules! sessions {
    ($index:literal, $key:literal) => {
        concat!(
            row_types::session_columns!(),
            " FROM sessions ",
            $index,
            " WHERE ",
            $key,
            " AND label >= ?1 AND label IS NOT ?2 AND label < ?3 AND opening = 0
               AND (?4 IS NULL OR agent_id = ?4) AND (?5 IS NULL OR persona_id = ?5)
               AND (?6 IS NULL OR parent_session_label = ?6) AND (?7 IS NULL OR status = ?7)
               AND (?8 IS NULL OR is_subagent = ?8)
             ORDER BY label LIMIT ?9"
        )
    };
}

pub(crate) const SESSIONS: &str = sessions!("", "1");
pub(crate) const SESSIONS_OF_PARENT: &str =
    sessions!("INDEXED BY sessions_by_parent", "parent_session_label = ?6");
pub(crate) const SESSIONS_OF_AGENT: &str =
    sessions!("INDEXED BY sessions_by_agent", "agent_id = ?4");
pub(crate) const SESSIONS_OF_PERSONA: &str =
    sessions!("INDEXED BY sessions_by_persona", "persona_id = ?5");
pub(crate) const SESSIONS_ARCHIVED: &str =
    sessions!("INDEXED BY sessions_archived", "status = 'archived'");

/// The sessions that `filter` lets through, by their labels.
pub(crate) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Stored<Page<SessionRow>> {
    let sql = if filter.parent_session_label.is_some() {
        SESSIONS_OF_PARENT
    } else if filter.agent_id.is_some() {
        SESSIONS_OF_AGENT
    } else if filter.persona_id.is_some() {
        SESSIONS_OF_PERSONA
    } else if filter.status == Some(SessionStatus::Archived) {
        SESSIONS_ARCHIVED
    } else {
        SESSIONS
    };
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let from = filter.after.as_deref().unwrap_or_default().max(prefix);
    // A blob is greater than every text.
    let end = match filter.prefix.as_deref() {
        None | Some("") => rusqlite::types::Value::Blob(Vec::new()),
        Some(prefix) => rusqlite::types::Value::Text(format!("{prefix}\u{10ffff}")),
    };
    let read = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            statement
                .query_map(
                    params![
                        from,
                        filter.after,
                        end,
                        filter.agent_id,
                        filter.persona_id,
                        filter.parent_session_label,
                        filter.status.map(SessionStatus::as_str),
                        filter.is_subagent,
                        filter.limit.and_one(),
                    ],
                    |row| {
                        row_types::session_row(row).map(|session| (session.label.clone(), session))
                    },
                )?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(|error| sqlite("list the sessions", &error))?;
    Ok(Page::cut(read, filter.limit))
}

/// Bytes of arguments and results on one page.
const PAGE_BYTES: usize = 16 << 20;

/// In the order [`row_types::tool_call`] reads, and where the call was made.
fn calls(from: &str, order: &str) -> String {
    let whole = is_whole("tool_calls", "c");
    format!(
        "SELECT c.id, c.provider_call_id, c.message_id, c.tool_name, c.status, c.spawned_session_label,
           c.started_at, c.completed_at, c.sequence, c.error, c.params_json, c.result_json,
           c.blobs_json, {whole}, c.turn_id, t.session_label FROM {from}
           AND (?3 IS NULL OR t.id = ?3) AND (?4 IS NULL OR t.session_label = ?4)
           AND (?5 IS NULL OR c.tool_name = ?5) AND (?6 IS NULL OR c.status = ?6)
           AND t.status NOT IN ('pending', 'streaming')
         ORDER BY {order} LIMIT ?7"
    )
}

pub(crate) static CALLS: LazyLock<String> = LazyLock::new(|| {
    calls(
        "tool_calls c CROSS JOIN turns t ON t.id = c.turn_id WHERE (c.turn_id, c.sequence) > (?1, ?2)",
        "c.turn_id, c.sequence",
    )
});
pub(crate) static CALLS_OF_TURN: LazyLock<String> = LazyLock::new(|| {
    calls(
        "turns t CROSS JOIN tool_calls c ON c.turn_id = t.id
         WHERE t.id = ?3 AND (t.id > ?1 OR c.sequence > ?2)",
        "c.sequence",
    )
});
pub(crate) static CALLS_OF_SESSION: LazyLock<String> = LazyLock::new(|| {
    calls(
        "turns t INDEXED BY turns_by_session CROSS JOIN tool_calls c ON c.turn_id = t.id
         WHERE t.session_label = ?4 AND t.id >= ?1 AND (t.id > ?1 OR c.sequence > ?2)",
        "t.id, c.sequence",
    )
});
pub(crate) static CALLS_OF_TOOL: LazyLock<String> = LazyLock::new(|| {
    calls(
        "tool_calls c INDEXED BY tool_calls_by_tool CROSS JOIN turns t ON t.id = c.turn_id
         WHERE c.tool_name = ?5 AND (c.turn_id, c.sequence) > (?1, ?2)",
        "c.turn_id, c.sequence",
    )
});
pub(crate) const CALL_PLACE: &str = "SELECT turn_id, sequence FROM tool_calls WHERE id = ?1";

/// The tool calls that `filter` lets through, by turn and by their order in it.
///
/// # Errors
/// `invalid_query` for an `after` that is no call.
pub(crate) fn tool_calls(
    connection: &Connection,
    filter: &ToolCallFilter,
) -> Stored<Page<ToolCallRow>> {
    let failed = |error| sqlite("list the tool calls", &error);
    let sql = if filter.turn_id.is_some() {
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
        Some(after) => connection
            .prepare_cached(CALL_PLACE)
            .and_then(|mut statement| {
                statement.query_row((after,), |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(failed)?
            .ok_or_else(|| no_cursor("filter.after", after))?,
    };
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement
        .query(params![
            turn,
            sequence,
            filter.turn_id,
            filter.session_label,
            filter.tool_name,
            filter.status.map(ToolCallStatus::as_str),
            filter.limit.and_one(),
        ])
        .map_err(failed)?;
    let mut read = Vec::new();
    let mut bytes = 0;
    let mut full = false;
    while let Some(row) = rows.next().map_err(failed)? {
        let call = row_types::tool_call(connection, row).map_err(failed)??;
        bytes += call.params.get().len() + call.result.as_ref().map_or(0, |it| it.get().len());
        full = bytes > PAGE_BYTES && !read.is_empty();
        if full {
            break;
        }
        let (turn_id, session_label) =
            row.get(14).and_then(|turn| Ok((turn, row.get(15)?))).map_err(failed)?;
        read.push((call.call_id.clone(), ToolCallRow { turn_id, session_label, call }));
    }
    let last = read.last().map(|(key, _)| key.clone());
    let page = Page::cut(read, filter.limit);
    Ok(Page { next: page.next.or_else(|| last.filter(|_| full)), ..page })
}
