//! A turn under way: W0 opens it, W1 to W3 add to it, W4 finishes its row (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! No reader but recovery sees the turn before W4. It must never write without a check of the lease in the same
//! transaction.

use std::sync::LazyLock;

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_128;

use crate::journal::write::{
    OnConflict, Row, end_turn, insert_message, insert_turn, write_tool_call,
};
use crate::lease::claim::Claim;
use crate::rows::json::json;
use crate::rows::message_rows;
use crate::rows::tool_call_rows::{self, ToolCallColumns};
use crate::rows::turn_parents::{Parent, is_compacted, parent_of};
use crate::sessions::pointers;
use crate::sqlite::checksum::{Checked, insert, insert_all, is_whole, numbered, set};
use crate::sqlite::columns::{columns, list_of};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{
    OpenCall, OpenTurn, Opened, ReplayClass, StorageError, StorageErrorKind, TurnEnd, TurnOpening,
    TurnStep, query_message_ids,
};

/// Contexts that stay without an open turn: the next runs are likely to have them again.
const SPARE_CONTEXTS: i64 = 32;

/// A row of `open_turns`.
struct OpenColumns<'r> {
    turn_id: &'r str,
    epoch: i64,
    expected_head: Option<&'r str>,
    context_id: i64,
    target_json: Option<&'r str>,
    progress_json: Option<&'r str>,
}

columns!(for<'r> OpenColumns<'r> {
    turn_id,
    epoch,
    expected_head,
    context_id,
    target_json,
    progress_json,
});

static OPEN: LazyLock<String> = LazyLock::new(|| insert_all::<OpenColumns<'_>>("open_turns"));
static ADD_CONTEXT: LazyLock<String> = LazyLock::new(|| {
    insert("run_contexts", &numbered("hash, context_json"))
        + " ON CONFLICT (hash) DO UPDATE SET context_json = excluded.context_json, \
           row_checksum = excluded.row_checksum RETURNING id"
});
static COUNT: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE open_turns SET {} WHERE turn_id = ?1", set(&[("progress_json", "?2")]))
});
static REBASE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_turn_id", "?2"), ("depth", "?3")]);
    format!("UPDATE turns SET {change} WHERE id = ?1")
});
static TAKE_OVER: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE open_turns SET {} WHERE turn_id = ?1", set(&[("epoch", "?2")]))
});

/// W0.
///
/// # Errors
/// `unknown_turn` for a parent that does not exist, `storage_constraint` for an id that does.
pub(crate) fn begin(
    connection: &Connection,
    opening: &TurnOpening,
    claim: &Claim,
) -> Stored<Opened<i64>> {
    let TurnOpening { turn_id, header, messages, .. } = opening;
    let label = &header.session_label;
    let session = pointers::head(connection, label)?;
    if session.clone().flatten() != header.expected_head {
        return Ok(Opened::Moved);
    }
    if claim.is_busy(connection, label)? {
        return Ok(Opened::Busy);
    }
    let parent_id = header.parent_turn_id.as_deref();
    let parent = parent_id.map(|id| parent_of(connection, id)).transpose()?;
    if session.is_none() {
        pointers::create(connection, label, parent_id, header.started_at, true)?;
    }
    let epoch = claim.take(connection, label)?;
    let queries = query_message_ids(messages);
    insert_turn(connection, &Row::opening(opening, &queries), parent.as_ref())?;
    for message in messages {
        insert_message(connection, turn_id, message, OnConflict::Refuse)?;
    }
    let row = OpenColumns {
        turn_id,
        epoch,
        expected_head: header.expected_head.as_deref(),
        context_id: context(connection, &opening.context)?,
        target_json: opening.target.as_deref(),
        progress_json: None,
    };
    sql::insert(connection, &OPEN, &row, format_args!("open turn `{turn_id}`"))?;
    Ok(Opened::Leased(epoch))
}

/// The id of the row of a context, which runs with the same context share.
fn context(connection: &Connection, json: &str) -> Stored<i64> {
    let doing = "store the context of a run";
    let hash = format!("{:032x}", xxh3_128(json.as_bytes()));
    let select = "SELECT id FROM run_contexts WHERE hash = ?1 AND context_json = ?2";
    if let Some(id) = sql::optional(connection, select, (&hash, json), doing)? {
        return Ok(id);
    }
    let delete = "DELETE FROM run_contexts WHERE id <= (SELECT max(id) - ?1 FROM run_contexts)
                    AND id NOT IN (SELECT context_id FROM open_turns)";
    sql::exec(connection, delete, (SPARE_CONTEXTS,), doing)?;
    // A row with this hash and another text was altered from outside: its text is written again.
    sql::one(connection, &ADD_CONTEXT, (&hash, json), doing)
}

/// W1 to W3.
///
/// # Errors
/// `stale_writer`.
pub(crate) fn record(
    connection: &Connection,
    step: &TurnStep,
    claim: &Claim,
    clock: &Clock,
) -> Stored<()> {
    claim.check(connection, &step.session_label, step.epoch)?;
    for message in &step.messages {
        insert_message(connection, &step.turn_id, message, OnConflict::Upsert)?;
    }
    for call in &step.calls {
        let began = (&call.row, call.replay, call.arguments_hash.as_deref());
        write_tool_call(connection, &step.turn_id, began, OnConflict::Upsert, clock)?;
    }
    if let Some(progress) = &step.progress {
        let doing = format_args!("count in turn `{}`", step.turn_id);
        sql::exec(connection, &COUNT, (&step.turn_id, progress), doing)?;
    }
    Ok(())
}

/// Writes the end of an open turn, under a lease that was checked.
pub(crate) fn finish_turn(
    connection: &Connection,
    turn: &TurnEnd,
    parent_turn_id: Option<&str>,
    parent: Option<&Parent>,
) -> Stored<()> {
    if !end_turn(connection, turn, parent)? {
        return Err(not_open(&turn.turn_id));
    }
    let doing = format_args!("finish turn `{}`", turn.turn_id);
    if parent_turn_id != turn.header.parent_turn_id.as_deref() {
        // Only a compaction came between: see `commit`.
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        sql::exec(connection, &REBASE, (&turn.turn_id, parent_turn_id, depth), doing)?;
        let mark = "UPDATE turns SET has_children = 1 WHERE id = ?1 AND has_children = 0";
        sql::exec(connection, mark, (parent_turn_id,), doing)?;
    }
    let delete = "DELETE FROM open_turns WHERE turn_id = ?1";
    sql::exec(connection, delete, (&turn.turn_id,), doing).map(drop)
}

/// Takes over an interrupted turn: the session's lease, and the turn as it was last written.
///
/// # Errors
/// `unknown_turn` for one that is not open.
pub(crate) fn reopen(
    connection: &Connection,
    turn_id: &str,
    claim: &Claim,
) -> Stored<Opened<Box<OpenTurn>>> {
    let mut turn = open_turns(connection, Some(turn_id))?.pop().ok_or_else(|| not_open(turn_id))?;
    if claim.is_busy(connection, &turn.session_label)? {
        return Ok(Opened::Busy);
    }
    turn.epoch = claim.take(connection, &turn.session_label)?;
    let doing = format_args!("take turn `{turn_id}` over");
    sql::exec(connection, &TAKE_OVER, (turn_id, turn.epoch), doing)?;
    Ok(Opened::Leased(Box::new(turn)))
}

/// The open turns that run nowhere, oldest first; with `turn_id`, that one.
pub(crate) fn interrupted(
    connection: &Connection,
    turn_id: Option<&str>,
    claim: &Claim,
) -> Stored<Vec<OpenTurn>> {
    let mut found = Vec::new();
    for turn in open_turns(connection, turn_id)? {
        if !claim.runs(connection, &turn.session_label, turn.epoch)? {
            found.push(turn);
        }
    }
    Ok(found)
}

static OPEN_TURNS: LazyLock<String> = LazyLock::new(|| open_turns_of("true"));
pub(crate) static OPEN_TURN: LazyLock<String> = LazyLock::new(|| open_turns_of("o.turn_id = ?1"));

fn open_turns_of(condition: &str) -> String {
    let whole = [("open_turns", "o"), ("turns", "t"), ("run_contexts", "c")];
    let whole = whole.map(|(table, alias)| is_whole(table, alias)).join(" AND ");
    let open = list_of::<OpenColumns<'_>>("o");
    format!(
        "SELECT {open}, t.run_id, t.session_label, t.parent_turn_id, t.source_event_id, t.started_at,
           coalesce(t.provider, ''), coalesce(t.model, ''), c.context_json, s.thread_id, {whole}
         FROM open_turns o JOIN turns t ON t.id = o.turn_id JOIN run_contexts c ON c.id = o.context_id
           JOIN sessions s ON s.label = t.session_label
         WHERE {condition} ORDER BY o.turn_id"
    )
}

fn open_turns(connection: &Connection, turn_id: Option<&str>) -> Stored<Vec<OpenTurn>> {
    let doing = "read the turns under way";
    match turn_id {
        Some(id) => {
            sql::map(connection, &OPEN_TURN, (id,), doing, |fields| open_turn(connection, fields))
        }
        None => {
            sql::map(connection, &OPEN_TURNS, (), doing, |fields| open_turn(connection, fields))
        }
    }
}

/// A row of [`OPEN_TURNS`], with the turn's messages and calls.
fn open_turn(connection: &Connection, fields: &mut Fields<'_>) -> Stored<OpenTurn> {
    let open: OpenColumns<'_> = fields.next()?;
    let mut turn = OpenTurn {
        turn_id: open.turn_id.to_owned(),
        run_id: fields.next()?,
        session_label: fields.next()?,
        parent_turn_id: fields.next()?,
        expected_head: open.expected_head.map(ToOwned::to_owned),
        moved: false,
        source_event_id: fields.next()?,
        target: open.target_json.map(ToOwned::to_owned),
        started_at: fields.next()?,
        provider: fields.next()?,
        model: fields.next()?,
        messages: message_rows::messages(connection, open.turn_id)?,
        calls: calls(connection, open.turn_id)?,
        progress: json(open.progress_json, open.turn_id)?.unwrap_or_default(),
        context: fields.next()?,
        altered: false,
        epoch: open.epoch,
    };
    let (head, is_whole): (Option<&str>, bool) = fields.next()?;
    turn.altered = !is_whole;
    turn.moved = head != open.expected_head
        && (head.is_none() || !is_compacted(connection, head, open.expected_head));
    Ok(turn)
}

fn calls(connection: &Connection, turn_id: &str) -> Stored<Vec<OpenCall>> {
    let doing = format_args!("read the tool calls of turn `{turn_id}`");
    sql::map(connection, &tool_call_rows::TOOL_CALLS, (turn_id,), doing, |fields| {
        let checked: Checked<ToolCallColumns<'_>> = fields.next()?;
        let replay = match checked.row.replay {
            Some("pure") => ReplayClass::Pure,
            Some("idempotent") => ReplayClass::Idempotent,
            Some("reconcilable") => ReplayClass::Reconcilable,
            None | Some("unsafe") => ReplayClass::Unsafe,
            Some(_) => return Err(damaged(&format!("a call of turn `{turn_id}` has no class"))),
        };
        let begun = checked.row.arguments_hash.is_some();
        let row = tool_call_rows::tool_call(connection, &checked)?;
        Ok(OpenCall { row, replay, begun })
    })
}

/// The refusal of a turn that has ended, or does not exist.
pub(crate) fn not_open(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("turn `{turn_id}` is not an interrupted one; pass an id that `recover()` lists"),
    )
}
