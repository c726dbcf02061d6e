//! The rows that belong to a turn, a session or a run, in every table: the one list that a deletion goes through.
//!
//! A module whose rows belong to one of them adds a function here; `tests/host/owned_rows.rs` compares it with the schema. It must never leave out
//! a table.

use rusqlite::{Connection, params};

use crate::journal_codec::EntryKind;
use crate::journal_rows::{entry_rows, run_rows};
use crate::maintenance::open_blobs;
use crate::memory_rows::forget;
use crate::queue::delivery_rows;
use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sessions::prompt_files;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;

const DOING: &str = "delete a turn";

/// A turn that is deleted.
pub(crate) struct OwnedTurn {
    pub(crate) n: i64,
    pub(crate) id: String,
}

/// What was deleted with the turns of a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deleted {
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    pub(crate) runs: u64,
    /// The blobs that their rows named.
    pub(crate) blobs: Vec<String>,
    /// The tools that they called.
    pub(crate) tools: Vec<String>,
}

type OfTurn = fn(&Connection, &OwnedTurn, &mut Deleted) -> Stored<()>;
type OfSession = fn(&Connection, &str) -> Stored<()>;

/// The rows of a turn, apart from its own, which goes last.
const OF_TURN: [OfTurn; 10] = [
    words,
    messages,
    calls,
    approvals,
    compaction,
    cache_breaks,
    metadata,
    events,
    queued,
    remembered,
];

/// The rows of a session, apart from its own.
const OF_SESSION: [OfSession; 9] = [
    moves,
    aliases,
    session_metadata,
    prompt_files::forget,
    cache_chain,
    leases,
    commands,
    queue,
    forget::of_session,
];

/// Deletes everything that belongs to a turn but its row.
pub(crate) fn of_turn(
    connection: &Connection,
    turn: &OwnedTurn,
    deleted: &mut Deleted,
) -> Stored<()> {
    OF_TURN.iter().try_for_each(|rows| rows(connection, turn, deleted))
}

/// Deletes everything that belongs to a session but its row and its turns.
pub(crate) fn of_session(connection: &Connection, label: &str) -> Stored<()> {
    OF_SESSION.iter().try_for_each(|rows| rows(connection, label))
}

/// Deletes an ended run with its events.
pub(crate) fn of_run(connection: &Connection, run: i64) -> Stored<()> {
    let pieces = "DELETE FROM event_archive WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575";
    sql::exec(connection, pieces, (run,), DOING)?;
    let newest = "SELECT run FROM journal WHERE id = (SELECT max(id) FROM journal)";
    let newest: Option<i64> = sql::optional(connection, newest, (), DOING)?;
    if newest == Some(run) {
        // The newest id must not be used again.
        entry_rows::append(connection, 0, EntryKind::CommitPoint, &[], false)?;
    }
    let entries = "DELETE FROM journal WHERE run = ?1 AND id >= ?1 AND id <= (
         SELECT coalesce(abs(last_entry), 9223372036854775807) FROM runs WHERE n = ?1)";
    sql::exec(connection, entries, (run,), DOING)?;
    run_rows::remove(connection, run)
}

fn words(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    search_indexer::forget(connection, turn.n)
}

fn messages(connection: &Connection, turn: &OwnedTurn, deleted: &mut Deleted) -> Stored<()> {
    let names = "SELECT blobs_json FROM message_rows WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575 AND blobs_json IS NOT NULL";
    for names in sql::all::<String>(connection, names, (turn.n,), DOING)? {
        deleted.blobs.extend(blobs::named(&names));
    }
    let delete = "DELETE FROM message_rows WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575";
    deleted.messages += sql::exec(connection, delete, (turn.n,), DOING)? as u64;
    Ok(())
}

fn calls(connection: &Connection, turn: &OwnedTurn, deleted: &mut Deleted) -> Stored<()> {
    let rows = "SELECT tool_name, blobs_json FROM call_values WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575";
    for (tool, names) in sql::all::<(String, Option<String>)>(connection, rows, (turn.n,), DOING)? {
        deleted.tools.push(tool);
        deleted.blobs.extend(names.iter().flat_map(|names| blobs::named(names)));
    }
    let delete = "DELETE FROM call_rows WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575";
    deleted.tool_calls += sql::exec(connection, delete, (turn.n,), DOING)? as u64;
    Ok(())
}

fn approvals(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    let delete = "DELETE FROM approvals WHERE turn_id = ?1";
    sql::exec(connection, delete, (&turn.id,), DOING).map(drop)
}

fn compaction(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    let delete = "DELETE FROM compactions WHERE turn_id = ?1";
    sql::exec(connection, delete, (&turn.id,), DOING).map(drop)
}

fn cache_breaks(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    let delete = "DELETE FROM cache_breaks WHERE turn_id = ?1";
    sql::exec(connection, delete, (&turn.id,), DOING).map(drop)
}

fn metadata(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    let delete = "DELETE FROM turn_metadata WHERE turn = ?1";
    sql::exec(connection, delete, (turn.n,), DOING).map(drop)
}

fn events(connection: &Connection, turn: &OwnedTurn, deleted: &mut Deleted) -> Stored<()> {
    if let Some(run) = run_rows::of_turn(connection, &turn.id)? {
        of_run(connection, run.n)?;
        deleted.runs += u64::from(run.keeps_events);
    }
    Ok(())
}

fn remembered(connection: &Connection, turn: &OwnedTurn, _: &mut Deleted) -> Stored<()> {
    forget::of_turn(connection, &turn.id)
}

fn moves(connection: &Connection, label: &str) -> Stored<()> {
    let delete = "DELETE FROM session_history WHERE session_label = ?1";
    sql::exec(connection, delete, (label,), DOING).map(drop)
}

fn aliases(connection: &Connection, label: &str) -> Stored<()> {
    let delete = "DELETE FROM session_aliases WHERE session_label = ?1";
    sql::exec(connection, delete, (label,), DOING).map(drop)
}

fn session_metadata(connection: &Connection, label: &str) -> Stored<()> {
    let delete = "DELETE FROM session_metadata WHERE session_label = ?1";
    sql::exec(connection, delete, (label,), DOING).map(drop)
}

/// The chain has hashes of the deleted conversation.
pub(crate) fn cache_chain(connection: &Connection, label: &str) -> Stored<()> {
    sql::exec(connection, "DELETE FROM cache_links WHERE session_label = ?1", (label,), DOING)?;
    sql::exec(connection, "DELETE FROM cache_chains WHERE session_label = ?1", (label,), DOING)
        .map(drop)
}

fn leases(connection: &Connection, label: &str) -> Stored<()> {
    sql::exec(connection, "DELETE FROM session_leases WHERE session_label = ?1", (label,), DOING)?;
    sql::exec(connection, "DELETE FROM session_waits WHERE session_label = ?1", (label,), DOING)
        .map(drop)
}

fn commands(connection: &Connection, label: &str) -> Stored<()> {
    let delete = "DELETE FROM session_commands WHERE session_label = ?1";
    sql::exec(connection, delete, params![label], DOING).map(drop)
}

/// The messages of a broker that the turn had, their dispatches, which have its answer, and its delivery. Their events are still
/// known.
fn queued(connection: &Connection, turn: &OwnedTurn, deleted: &mut Deleted) -> Stored<()> {
    deleted.blobs.extend(queued_blobs(connection, "turn_id = ?1", &turn.id)?);
    let answered =
        "DELETE FROM dispatches WHERE id IN (SELECT id FROM queue_items WHERE turn_id = ?1)";
    sql::exec(connection, answered, params![turn.id], DOING)?;
    let given = "DELETE FROM dispatches WHERE parent_turn_id = ?1 AND status <> 'active'";
    sql::exec(connection, given, params![turn.id], DOING)?;
    let delete = "DELETE FROM queue_items WHERE turn_id = ?1";
    sql::exec(connection, delete, params![turn.id], DOING)?;
    delivery_rows::remove(connection, &turn.id)
}

/// The messages of a broker for the session, also those that wait.
fn queue(connection: &Connection, label: &str) -> Stored<()> {
    let blobs = queued_blobs(connection, "session_label = ?1", label)?;
    let items = "DELETE FROM queue_items WHERE session_label = ?1";
    sql::exec(connection, items, params![label], DOING)?;
    unused_blobs(connection, &blobs)?;
    let deliveries = "DELETE FROM deliveries WHERE session_label = ?1";
    sql::exec(connection, deliveries, params![label], DOING)?;
    // The tasks that nobody has answered are their givers'.
    let dispatches = "DELETE FROM dispatches WHERE parent_session = ?1 OR (session_label = ?1 AND turn_id IS NOT NULL)";
    sql::exec(connection, dispatches, params![label], DOING)?;
    let suspension = "DELETE FROM queue_suspensions WHERE session_label = ?1";
    sql::exec(connection, suspension, params![label], DOING).map(drop)
}

/// The blobs that queued messages name.
fn queued_blobs(connection: &Connection, condition: &str, of: &str) -> Stored<Vec<String>> {
    let select =
        format!("SELECT blobs_json FROM queue_items WHERE {condition} AND blobs_json IS NOT NULL");
    let names: Vec<String> = sql::all(connection, &select, (of,), DOING)?;
    Ok(names.iter().flat_map(|names| blobs::named(names)).collect())
}

/// Deletes those of the blobs that nothing names any more. Returns how many.
pub(crate) fn unused_blobs(connection: &Connection, named: &[String]) -> Stored<u64> {
    if named.is_empty() {
        return Ok(0);
    }
    let list = |names: &[String]| serde_json::to_string(names).unwrap_or_else(|_| "[]".to_owned());
    let open: Vec<String> = open_blobs(connection)?.into_iter().collect();
    let delete = "DELETE FROM blobs WHERE hash IN (SELECT value FROM json_each(?1))
         AND hash NOT IN (SELECT hash FROM blob_references WHERE hash IS NOT NULL)
         AND hash NOT IN (SELECT value FROM json_each(?2))";
    Ok(sql::exec(connection, delete, params![list(named), list(&open)], DOING)? as u64)
}
