//! A turn under way: W0 opens it, W1 to W3 add to it, W4 finishes its row (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! To every reader but recovery the turn is not there before W4. It must never write without asking for the lease in the
//! same transaction.

use crate::rows::message_rows;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_128;

use crate::journal::write::{
    OnConflict, Row, count, error_kind, insert_message, insert_turn, integer, json, write_tool_call,
};
use crate::lease::claim::Claim;
use crate::rows::row_types;
use crate::rows::turn_parents::Parent;
use crate::rows::turn_parents::{is_compacted, parent_of};
use crate::sessions::pointers;
use crate::sqlite::checksum::{insert, is_whole, numbered, set};
use crate::sqlite::error::{Stored, damaged, sqlite};
use base::clock::Clock;
use model::{
    OpenCall, OpenTurn, Opened, ReplayClass, StorageError, StorageErrorKind, TurnEnd, TurnOpening,
    TurnStep, query_message_ids,
};

/// Contexts that are kept without an open turn: those the next runs are likely to have again.
const KEPT_CONTEXTS: i64 = 32;

static OPEN: LazyLock<String> = LazyLock::new(|| {
    insert("open_turns", &numbered("turn_id, epoch, expected_head, context_id, target_json"))
});
static ADD_CONTEXT: LazyLock<String> = LazyLock::new(|| {
    insert("run_contexts", &numbered("hash, context_json"))
        + " ON CONFLICT (hash) DO UPDATE SET context_json = excluded.context_json, \
           row_checksum = excluded.row_checksum RETURNING id"
});
static COUNT: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE open_turns SET {} WHERE turn_id = ?1", set(&[("progress_json", "?2")]))
});
static FINISH: LazyLock<String> = LazyLock::new(|| {
    let mut row = numbered(
        "id, status, completed_at, thread_tokens, input_tokens, output_tokens, cached_input_tokens, \
         cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated, context_tokens, cost, query_message_ids, \
         response_message_id, tool_call_count, stop_reason, error_kind, error_message, error_retryable, error_code, \
         attempts_json, model, provider",
    );
    row.remove(0);
    format!("UPDATE turns SET {} WHERE id = ?1 AND status = 'streaming'", set(&row))
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
/// `unknown_turn` for a parent that is not there, `storage_constraint` for an id that is.
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
    let context = context(connection, &opening.context)?;
    connection
        .prepare_cached(&OPEN)
        .and_then(|mut statement| {
            statement.execute(params![
                turn_id,
                epoch,
                header.expected_head,
                context,
                opening.target
            ])
        })
        .map_err(|error| sqlite(&format!("open turn `{turn_id}`"), &error))?;
    Ok(Opened::Leased(epoch))
}

/// The row of a context, which runs that say the same share.
fn context(connection: &Connection, json: &str) -> Stored<i64> {
    let failed = |error| sqlite("keep the context of a run", &error);
    let hash = format!("{:032x}", xxh3_128(json.as_bytes()));
    let known = connection
        .prepare_cached("SELECT id FROM run_contexts WHERE hash = ?1 AND context_json = ?2")
        .and_then(|mut statement| statement.query_row((&hash, json), |row| row.get(0)).optional())
        .map_err(failed)?;
    if let Some(id) = known {
        return Ok(id);
    }
    connection
        .prepare_cached(
            "DELETE FROM run_contexts WHERE id <= (SELECT max(id) - ?1 FROM run_contexts)
               AND id NOT IN (SELECT context_id FROM open_turns)",
        )
        .and_then(|mut statement| statement.execute((KEPT_CONTEXTS,)))
        .map_err(failed)?;
    // A row with this hash and another text was altered from outside: what was written is put back.
    connection
        .prepare_cached(&ADD_CONTEXT)
        .and_then(|mut statement| statement.query_row((&hash, json), |row| row.get(0)))
        .map_err(failed)
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
        insert_message(connection, &step.turn_id, message, OnConflict::KeepStored)?;
    }
    for call in &step.calls {
        let began = (&call.row, call.replay, call.arguments_hash.as_deref());
        write_tool_call(connection, &step.turn_id, began, OnConflict::KeepStored, clock)?;
    }
    if let Some(progress) = &step.progress {
        connection
            .prepare_cached(&COUNT)
            .and_then(|mut statement| statement.execute((&step.turn_id, progress)))
            .map_err(|error| sqlite(&format!("count in turn `{}`", step.turn_id), &error))?;
    }
    Ok(())
}

/// The end of an open turn's row, under a lease that was checked.
pub(crate) fn finish_turn(
    connection: &Connection,
    turn: &TurnEnd,
    parent_turn_id: Option<&str>,
    parent: Option<&Parent>,
) -> Stored<()> {
    let failed = |error| sqlite(&format!("finish turn `{}`", turn.turn_id), &error);
    let error = turn.error.as_ref();
    let total = integer(turn.usage.total_tokens);
    let changed = connection
        .prepare_cached(&FINISH)
        .and_then(|mut statement| {
            statement.execute(params![
                turn.turn_id,
                turn.status.as_str(),
                turn.completed_at,
                parent.map_or(0, |parent| parent.thread_tokens).saturating_add(total),
                integer(turn.usage.input_tokens),
                integer(turn.usage.output_tokens),
                integer(turn.usage.cached_input_tokens),
                integer(turn.usage.cache_write_tokens),
                integer(turn.usage.reasoning_tokens),
                total,
                turn.usage_estimated,
                turn.context_tokens.map(integer),
                turn.cost,
                json(&turn.query_message_ids),
                turn.response_message_id,
                count(turn.tool_call_count),
                turn.stop_reason.as_str(),
                error.map(|error| error_kind(error.kind)),
                error.map(|error| error.message.as_str()),
                error.map(|error| error.retryable),
                error.and_then(|error| error.detail.code.as_deref()),
                json(&turn.attempts),
                turn.settings.model,
                turn.settings.provider,
            ])
        })
        .map_err(failed)?;
    if changed != 1 {
        return Err(not_open(&turn.turn_id));
    }
    if parent_turn_id != turn.header.parent_turn_id.as_deref() {
        // Only a compaction came between: see `commit`.
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        connection
            .prepare_cached(&REBASE)
            .and_then(|mut statement| statement.execute((&turn.turn_id, parent_turn_id, depth)))
            .map_err(failed)?;
        connection
            .prepare_cached("UPDATE turns SET has_children = 1 WHERE id = ?1 AND has_children = 0")
            .and_then(|mut statement| statement.execute((parent_turn_id,)))
            .map_err(failed)?;
    }
    connection
        .prepare_cached("DELETE FROM open_turns WHERE turn_id = ?1")
        .and_then(|mut statement| statement.execute((&turn.turn_id,)))
        .map(drop)
        .map_err(failed)
}

/// Takes over an interrupted turn: the session's lease, and the turn as it stands.
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
    connection
        .prepare_cached(&TAKE_OVER)
        .and_then(|mut statement| statement.execute((turn_id, turn.epoch)))
        .map_err(|error| sqlite(&format!("take turn `{turn_id}` over"), &error))?;
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
    format!(
        "SELECT t.id, t.run_id, t.session_label, t.parent_turn_id, o.expected_head, t.source_event_id, o.target_json,
           t.started_at, coalesce(t.provider, ''), coalesce(t.model, ''), o.progress_json, c.context_json, o.epoch,
           s.thread_id, {whole}
         FROM open_turns o JOIN turns t ON t.id = o.turn_id JOIN run_contexts c ON c.id = o.context_id
           JOIN sessions s ON s.label = t.session_label
         WHERE {condition} ORDER BY o.turn_id"
    )
}

fn open_turns(connection: &Connection, turn_id: Option<&str>) -> Stored<Vec<OpenTurn>> {
    let failed = |error| sqlite("read the turns under way", &error);
    let sql = if turn_id.is_some() { &OPEN_TURN } else { &OPEN_TURNS };
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = match turn_id {
        Some(id) => statement.query((id,)),
        None => statement.query(()),
    }
    .map_err(failed)?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let (mut turn, progress) = open_turn(row).map_err(failed)?;
        turn.progress = row_types::json(progress, &turn.turn_id)?.unwrap_or_default();
        turn.messages = message_rows::messages(connection, &turn.turn_id)?;
        turn.calls = calls(connection, &turn.turn_id)?;
        if turn.moved {
            let head = pointers::head(connection, &turn.session_label)?.flatten();
            let expected = turn.expected_head.as_deref();
            turn.moved = head.is_none() || !is_compacted(connection, head.as_deref(), expected);
        }
        turns.push(turn);
    }
    Ok(turns)
}

fn open_turn(row: &rusqlite::Row<'_>) -> rusqlite::Result<(OpenTurn, Option<String>)> {
    let (expected_head, head): (Option<String>, Option<String>) = (row.get(4)?, row.get(13)?);
    let turn = OpenTurn {
        turn_id: row.get(0)?,
        run_id: row.get(1)?,
        session_label: row.get(2)?,
        parent_turn_id: row.get(3)?,
        moved: expected_head != head,
        expected_head,
        source_event_id: row.get(5)?,
        target: row.get(6)?,
        started_at: row.get(7)?,
        provider: row.get(8)?,
        model: row.get(9)?,
        messages: Vec::new(),
        calls: Vec::new(),
        progress: model::Progress::default(),
        altered: !row.get::<_, bool>(14)?,
        context: row.get(11)?,
        epoch: row.get(12)?,
    };
    Ok((turn, row.get(10)?))
}

fn calls(connection: &Connection, turn_id: &str) -> Stored<Vec<OpenCall>> {
    let failed = |error| sqlite(&format!("read the tool calls of turn `{turn_id}`"), &error);
    let mut statement = connection.prepare_cached(&row_types::TOOL_CALLS).map_err(failed)?;
    let mut rows = statement.query((turn_id,)).map_err(failed)?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let replay = match row.get::<_, Option<String>>(14).map_err(failed)?.as_deref() {
            Some("pure") => ReplayClass::Pure,
            Some("idempotent") => ReplayClass::Idempotent,
            Some("reconcilable") => ReplayClass::Reconcilable,
            None | Some("unsafe") => ReplayClass::Unsafe,
            Some(_) => return Err(damaged(&format!("a call of turn `{turn_id}` has no class"))),
        };
        let begun = row.get::<_, Option<String>>(15).map_err(failed)?.is_some();
        let row = row_types::tool_call(connection, row).map_err(failed)??;
        calls.push(OpenCall { row, replay, begun });
    }
    Ok(calls)
}

/// The refusal of a turn that has ended, or never was.
pub(crate) fn not_open(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("turn `{turn_id}` is not an interrupted one; pass an id that `recover()` lists"),
    )
}
