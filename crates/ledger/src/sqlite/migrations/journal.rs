//! Migration 090: moves the records of open turns and all events from their tables to `journal`, `runs` and `event_archive`.
//!
//! An altered row must never get a right checksum: readers refuse the new row as they refused the old one.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::journal_codec::{
    CallRecord, Entry, EntryKind, EventBatch, MessageRecord, OpeningRecord, Record, pack, seal,
};
use crate::sqlite::checksum::{columns, insert, is_whole, numbered};
use crate::sqlite::error::Stored;
use crate::sqlite::migrations::step::{batch, step_failed};
use model::{RunEvent, RunEventKind, StorageError};

/// Bytes of events in one piece of the archive, or in one entry.
const PIECE: usize = 64 << 10;

/// The columns that the checksums of the two removed tables cover.
const EVENT_LOGS: &str = "turn_id, run_id, session_label, created_at, ended_at, owner, pid, pid_started, pid_space, boot_id";
const RUN_EVENTS: &str = "log_id, seq_from, seq, message_id, events";
const OPEN_TURNS: &str = "turn_id, epoch, expected_head, context_id, target_json, progress_json";

/// An expression that is true if a row of a removed table is unaltered, like [`is_whole`] for the other tables.
fn was_whole(names: &str, alias: &str) -> String {
    let values: Vec<String> = names.split(", ").map(|name| format!("{alias}.{name}")).collect();
    format!("{alias}.row_checksum IS checksum_of('{names}', {})", values.join(", "))
}

fn failed(error: &rusqlite::Error) -> StorageError {
    step_failed(error)
}

/// Computes the checksums of rows that were inserted without one.
fn seal_rows(connection: &Connection, table: &str, rows: &str, values: impl Params) -> Stored<()> {
    let names = columns(table);
    let update =
        format!("UPDATE {table} SET row_checksum = checksum_of('{names}', {names}) WHERE {rows}");
    connection.execute(&update, values).map(drop).map_err(|error| failed(&error))
}

/// The step from schema version 10 to 11.
pub(crate) fn migrate(connection: &Connection) -> Stored<()> {
    batch(connection, include_str!("090_journal.sql"))?;
    archive_ended(connection)?;
    let mut next: i64 = connection
        .query_row("SELECT coalesce(max(id), 0) + 1 FROM event_logs", (), |row| row.get(0))
        .map_err(|error| failed(&error))?;
    for run in runs_under_way(connection)? {
        next = move_run(connection, &run, next)?;
    }
    remove_open_turns(connection)?;
    batch(connection, "DROP TABLE run_events; DROP TABLE event_logs; DROP TABLE open_turns;")
}

/// Moves the ended runs with their numbers, and archives their events.
fn archive_ended(connection: &Connection) -> Stored<()> {
    let whole = was_whole(EVENT_LOGS, "l");
    connection
        .execute(
            &format!(
                "INSERT INTO runs (n, turn_id, run_id, session_label, created_at, ended_at, keeps_events, in_journal, owner,
                   pid, pid_started, pid_space, boot_id, row_checksum)
                 SELECT l.id, l.turn_id, l.run_id, l.session_label, l.created_at, l.ended_at, 1, 0, l.owner, l.pid,
                   l.pid_started, l.pid_space, l.boot_id, CASE WHEN {whole} THEN 0 END
                 FROM event_logs l WHERE l.ended_at IS NOT NULL"
            ),
            (),
        )
        .map_err(|error| failed(&error))?;
    seal_rows(connection, "runs", "row_checksum IS NOT NULL", ())?;
    let mut statement = connection
        .prepare("SELECT id FROM event_logs WHERE ended_at IS NOT NULL ORDER BY id")
        .map_err(|error| failed(&error))?;
    let mut logs = statement.query(()).map_err(|error| failed(&error))?;
    while let Some(row) = logs.next().map_err(|error| failed(&error))? {
        let run: i64 = row.get(0).map_err(|error| failed(&error))?;
        let mut key = run << 20;
        for_each_batch(connection, run, |batch| {
            add_piece(connection, key, batch)?;
            key += 1;
            Ok(())
        })?;
    }
    Ok(())
}

/// A part of the events of a run.
struct Batch {
    events: EventBatch,
    last: u64,
    /// False if one of the rows was altered or cannot be read.
    is_whole: bool,
}

fn add_piece(connection: &Connection, key: i64, piece: &Batch) -> Stored<()> {
    let row = insert("event_archive", &numbered("key, seq, events"));
    connection
        .prepare_cached(&row)
        .and_then(|mut statement| {
            statement.execute(params![key, piece.last.cast_signed(), pack(&piece.events.content())])
        })
        .map_err(|error| failed(&error))?;
    if piece.is_whole {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE event_archive SET row_checksum = NULL WHERE key = ?1")
        .and_then(|mut statement| statement.execute((key,)))
        .map(drop)
        .map_err(|error| failed(&error))
}

/// Calls `each` with the events of a log, in pieces.
fn for_each_batch(
    connection: &Connection,
    log: i64,
    mut each: impl FnMut(&Batch) -> Stored<()>,
) -> Stored<()> {
    let whole = was_whole(RUN_EVENTS, "r");
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT seq_from, seq, message_id, events, {whole} FROM run_events r WHERE log_id = ?1 ORDER BY seq_from"
        ))
        .map_err(|error| failed(&error))?;
    let mut rows = statement.query((log,)).map_err(|error| failed(&error))?;
    let mut open = Batch { events: EventBatch::default(), last: 0, is_whole: true };
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let last = row.get::<_, i64>(1).map_err(|error| failed(&error))?.cast_unsigned();
        let is_whole = row.get(4).map_err(|error| failed(&error))?;
        let events = events(row).map_err(|error| failed(&error))?.filter(|_| is_whole);
        let follows =
            events.is_some_and(|events| events.iter().all(|event| open.events.add(event)));
        open.is_whole &= follows;
        open.last = last;
        if open.events.size() > PIECE || !open.is_whole {
            each(&open)?;
            open = Batch { events: EventBatch::default(), last: 0, is_whole: true };
        }
    }
    if open.events.is_empty() { Ok(()) } else { each(&open) }
}

/// The events of a row of `run_events`; `None` if they cannot be read.
fn events(row: &Row<'_>) -> rusqlite::Result<Option<Vec<RunEvent>>> {
    let first = row.get::<_, i64>(0)?.cast_unsigned();
    let message: Option<Arc<str>> = row.get::<_, Option<String>>(2)?.map(Arc::from);
    let lines = row.get_ref(3)?.as_str()?;
    let read = |(seq, line): (u64, &str)| {
        let (kind, rest) = line.split_at_checked(1)?;
        let delta = |kind| {
            let text: String = serde_json::from_str(rest).ok()?;
            Some(RunEvent {
                seq,
                kind,
                message_id: message.clone(),
                text: Arc::from(text),
                added: None,
            })
        };
        match kind {
            "t" => delta(RunEventKind::Token),
            "r" => delta(RunEventKind::Reasoning),
            "e" => Some(RunEvent {
                seq,
                kind: RunEventKind::Event,
                message_id: None,
                text: Arc::from(rest),
                added: None,
            }),
            _ => None,
        }
    };
    Ok((first..).zip(lines.lines()).map(read).collect())
}

/// A run that has not ended: its turn is open, it waits for its session, or its process has ended.
struct UnderWay {
    turn_id: String,
    /// Its log in `event_logs`.
    log: Option<i64>,
    is_open: bool,
}

fn runs_under_way(connection: &Connection) -> Stored<Vec<UnderWay>> {
    connection
        .prepare(
            "SELECT o.turn_id, l.id, 1 FROM open_turns o LEFT JOIN event_logs l
               ON l.turn_id = o.turn_id AND l.ended_at IS NULL
             UNION ALL
             SELECT l.turn_id, l.id, 0 FROM event_logs l
             WHERE l.ended_at IS NULL AND l.turn_id NOT IN (SELECT turn_id FROM open_turns)
             ORDER BY 1",
        )
        .and_then(|mut statement| {
            statement
                .query_map((), |row| {
                    Ok(UnderWay { turn_id: row.get(0)?, log: row.get(1)?, is_open: row.get(2)? })
                })?
                .collect()
        })
        .map_err(|error| failed(&error))
}

/// Moves one run; returns the id of the next entry.
fn move_run(connection: &Connection, run: &UnderWay, n: i64) -> Stored<i64> {
    let mut entries = Entries { connection, run: n, next: n };
    if run.is_open {
        commit_points(connection, &run.turn_id, &mut entries)?;
    }
    if let Some(log) = run.log {
        for_each_batch(connection, log, |batch| {
            entries.add(EntryKind::Events, &batch.events.content(), batch.is_whole)
        })?;
    }
    let next = entries.next;
    let whole = match run.log {
        Some(_) => was_whole(EVENT_LOGS, "l"),
        None => "1".to_owned(),
    };
    connection
        .execute(
            &format!(
                "INSERT OR REPLACE INTO runs (n, turn_id, run_id, session_label, created_at, epoch, context_id, keeps_events,
                   in_journal, owner, pid, pid_started, pid_space, boot_id, row_checksum)
                 SELECT ?1, ?2, coalesce(t.run_id, l.run_id), coalesce(t.session_label, l.session_label),
                   coalesce(l.created_at, t.started_at), o.epoch, o.context_id, l.id IS NOT NULL, 1, l.owner, l.pid,
                   l.pid_started, l.pid_space, l.boot_id, CASE WHEN {whole} THEN 0 END
                 FROM (SELECT 1) LEFT JOIN event_logs l ON l.id = ?3
                   LEFT JOIN open_turns o ON o.turn_id = ?2 LEFT JOIN turns t ON t.id = o.turn_id"
            ),
            params![n, run.turn_id, run.log],
        )
        .map_err(|error| failed(&error))?;
    seal_rows(connection, "runs", "n = ?1 AND row_checksum IS NOT NULL", (n,))?;
    // The number is the id of its first entry, so a run without entries gets one.
    if next == n {
        connection
            .execute("DELETE FROM runs WHERE n = ?1", (n,))
            .map_err(|error| failed(&error))?;
    }
    Ok(next)
}

/// The entries of one run.
struct Entries<'a> {
    connection: &'a Connection,
    run: i64,
    next: i64,
}

impl Entries<'_> {
    fn add(&mut self, kind: EntryKind, content: &[u8], is_whole: bool) -> Stored<()> {
        let mut entry = seal(self.run, kind, content);
        if let (false, Some(last)) = (is_whole, entry.last_mut()) {
            *last ^= 1;
        }
        self.connection
            .prepare_cached("INSERT INTO journal (id, run, kind, entry) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| {
                statement.execute(params![self.next, self.run, kind.number(), entry])
            })
            .map_err(|error| failed(&error))?;
        self.next += 1;
        Ok(())
    }
}

/// Converts the rows of an open turn to entries.
fn commit_points(connection: &Connection, turn_id: &str, entries: &mut Entries<'_>) -> Stored<()> {
    let whole = [is_whole("turns", "t"), was_whole(OPEN_TURNS, "o")].join(" AND ");
    let opening = connection
        .query_row(
            &format!(
                "SELECT t.run_id, t.session_label, t.parent_turn_id, o.expected_head, t.started_at, t.provider, t.model,
                   t.role, t.toolset_name, t.tools_available, t.permissions_granted, t.query_message_ids,
                   t.source_event_id, t.workspace_path, c.hash, o.target_json, o.progress_json, {whole}
                 FROM open_turns o JOIN turns t ON t.id = o.turn_id LEFT JOIN run_contexts c ON c.id = o.context_id
                 WHERE o.turn_id = ?1"
            ),
            (turn_id,),
            |row| {
                let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str_or_null()?);
                let mut entry = Entry::default();
                entry.add(&Record::Opening(OpeningRecord {
                    turn_id,
                    run_id: text(0)?.unwrap_or_default(),
                    session_label: text(1)?.unwrap_or_default(),
                    parent_turn_id: text(2)?,
                    expected_head: text(3)?,
                    started_at: row.get(4)?,
                    provider: text(5)?.unwrap_or_default(),
                    model: text(6)?.unwrap_or_default(),
                    role: text(7)?.unwrap_or_default(),
                    toolset_name: text(8)?,
                    tools_available: text(9)?.unwrap_or("[]"),
                    permissions_granted: text(10)?.unwrap_or("[]"),
                    query_message_ids: text(11)?.unwrap_or("[]"),
                    source_event_id: text(12)?,
                    workspace_path: text(13)?,
                    context_hash: text(14)?.unwrap_or_default(),
                    target_json: text(15)?,
                }));
                if let Some(progress) = text(16)? {
                    entry.add(&Record::Progress(progress));
                }
                Ok((entry, row.get::<_, bool>(17)?))
            },
        )
        .optional()
        .map_err(|error| failed(&error))?;
    let Some((entry, is_intact)) = opening else { return Ok(()) };
    entries.add(EntryKind::CommitPoint, entry.content(), is_intact)?;
    let [messages, calls] = [is_whole("messages", "m"), is_whole("tool_calls", "c")];
    each_row(
        connection,
        &format!(
            "SELECT id, role, sequence, created_at, tool_call_id, is_error, provider, api, model, response_id, stop_reason,
               checksum, content, thinking, blocks_json, blobs_json, {messages}
             FROM messages m WHERE turn_id = ?1 ORDER BY sequence"
        ),
        turn_id,
        16,
        message,
        entries,
    )?;
    each_row(
        connection,
        &format!(
            "SELECT id, provider_call_id, message_id, tool_name, status, spawned_session_label, started_at, completed_at,
               sequence, error, params_json, result_json, replay, arguments_hash, blobs_json, {calls}
             FROM tool_calls c WHERE turn_id = ?1 ORDER BY sequence"
        ),
        turn_id,
        15,
        call,
        entries,
    )
}

/// Writes an entry for each row of an open turn.
fn each_row(
    connection: &Connection,
    sql: &str,
    turn_id: &str,
    whole_at: usize,
    record: for<'a> fn(&'a Row<'a>) -> rusqlite::Result<Record<'a>>,
    entries: &mut Entries<'_>,
) -> Stored<()> {
    let mut statement = connection.prepare(sql).map_err(|error| failed(&error))?;
    let mut rows = statement.query((turn_id,)).map_err(|error| failed(&error))?;
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let mut entry = Entry::default();
        entry.add(&record(row).map_err(|error| failed(&error))?);
        let is_whole = row.get(whole_at).map_err(|error| failed(&error))?;
        entries.add(EntryKind::CommitPoint, entry.content(), is_whole)?;
    }
    Ok(())
}

fn message<'a>(row: &'a Row<'a>) -> rusqlite::Result<Record<'a>> {
    let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str_or_null()?);
    Ok(Record::Message(MessageRecord {
        id: text(0)?.unwrap_or_default(),
        role: text(1)?.unwrap_or_default(),
        sequence: row.get(2)?,
        created_at: row.get(3)?,
        tool_call_id: text(4)?,
        is_error: row.get(5)?,
        provider: text(6)?,
        api: text(7)?,
        model: text(8)?,
        response_id: text(9)?,
        stop_reason: text(10)?,
        checksum: row.get(11)?,
        content: text(12)?.unwrap_or_default(),
        thinking: text(13)?,
        blocks_json: text(14)?,
        blobs_json: text(15)?,
    }))
}

fn call<'a>(row: &'a Row<'a>) -> rusqlite::Result<Record<'a>> {
    let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str_or_null()?);
    Ok(Record::Call(CallRecord {
        id: text(0)?.unwrap_or_default(),
        provider_call_id: text(1)?.unwrap_or_default(),
        message_id: text(2)?,
        tool_name: text(3)?.unwrap_or_default(),
        status: text(4)?.unwrap_or_default(),
        spawned_session_label: text(5)?,
        started_at: row.get(6)?,
        completed_at: row.get(7)?,
        sequence: row.get(8)?,
        error: text(9)?,
        params_json: text(10)?.unwrap_or_default(),
        result_json: text(11)?,
        replay: text(12)?,
        arguments_hash: text(13)?,
        blobs_json: text(14)?,
    }))
}

/// Removes the rows of open turns. A parent without other children no longer has children. If words of their messages are in
/// the index, it is rebuilt, because other messages get their rowids.
fn remove_open_turns(connection: &Connection) -> Stored<()> {
    let indexed: bool = connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM messages m JOIN open_turns o ON o.turn_id = m.turn_id
               WHERE m.rowid <= (SELECT indexed_through FROM search_progress))",
            (),
            |row| row.get(0),
        )
        .map_err(|error| failed(&error))?;
    batch(
        connection,
        "CREATE TEMP TABLE removed AS SELECT o.turn_id, t.parent_turn_id FROM open_turns o JOIN turns t ON t.id = o.turn_id;
         DELETE FROM open_turns;
         DELETE FROM tool_calls WHERE turn_id IN (SELECT turn_id FROM removed);
         DELETE FROM messages WHERE turn_id IN (SELECT turn_id FROM removed);
         DELETE FROM turns WHERE id IN (SELECT turn_id FROM removed);
         DROP TRIGGER turns_keep_has_children;
         UPDATE turns SET has_children = 0 WHERE id IN (SELECT parent_turn_id FROM removed)
           AND NOT EXISTS (SELECT 1 FROM turns c WHERE c.parent_turn_id = turns.id);
         CREATE TRIGGER turns_keep_has_children BEFORE UPDATE OF has_children ON turns
         WHEN OLD.has_children = 1 AND NEW.has_children = 0
         BEGIN
           SELECT RAISE(ABORT, 'a turn with children stays one');
         END;
         DROP TABLE temp.removed;",
    )?;
    if !indexed {
        return Ok(());
    }
    batch(
        connection,
        "INSERT INTO message_words (message_words) VALUES ('delete-all');
         UPDATE search_progress SET indexed_through = 0;",
    )?;
    seal_rows(connection, "search_progress", "id = 1", ())
}
