//! Records into the ledger, inside the writer's transactions: a turn at a time, each all or nothing.
//!
//! What refuses to go in is told and undone alone; what hung on it finds the nearest that is left. A session that was
//! there before is never moved. It must never show a session before all of its turns are there.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use super::fitted::fitted;
use super::insert::{insert, note};
use super::record::{SessionRecord, TurnRecord};
use super::report::Problems;
use crate::journal::compaction;
use crate::journal::write::{OnConflict, insert_message, write_tool_call};
use crate::rows::turn_parents::Parent;
use crate::rows::turn_parents::parent_of;
use crate::sessions::pointers;
use crate::sqlite::checksum;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::functions::agent_of;
use base::clock::Clock;
use model::{CompactionResult, StorageError, StorageErrorKind, TransferCode};

/// A line of a file, read.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Session(Box<SessionRecord>),
    Turn(Box<TurnRecord>),
}

static SHOW: LazyLock<String> = LazyLock::new(|| {
    let mut row = checksum::numbered(
        "label, thread_id, persona_id, is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id, \
         task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at, status, agent_id",
    );
    row.remove(0);
    row.push(("opening", "0".to_owned()));
    format!("UPDATE sessions SET {} WHERE label = ?1", checksum::set(&row))
});

/// A session with its line, where it came from a file of lines.
type Line = (Option<u64>, Box<SessionRecord>);

/// What an import has done so far. Cloned by each transaction, because one may be done again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restore {
    pub(crate) problems: Problems,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    pub(crate) skipped_turns: u64,
    /// The sessions that are this import's, with their line where that is not lost.
    sessions: BTreeMap<String, Option<Line>>,
    /// What a compaction names may come after it, so these are written last.
    compactions: Vec<(Option<u64>, String, CompactionResult)>,
    /// The last turn of each depth, as the file counts it: the way from the root to the last turn.
    way: BTreeMap<i64, String>,
}

impl Restore {
    /// The labels of the sessions that are this import's.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    /// Takes a line in.
    ///
    /// # Errors
    /// What is wrong with the disk or the ledger; what is wrong with the line is a problem.
    pub(crate) fn take(
        &mut self,
        connection: &Connection,
        line: Option<u64>,
        record: &Record,
        clock: &Clock,
    ) -> Stored<()> {
        execute(connection, "SAVEPOINT line")?;
        let before = (self.turns, self.messages, self.tool_calls, self.compactions.len());
        let label = match record {
            Record::Session(record) => &record.session.label,
            Record::Turn(record) => &record.session_label,
        };
        let known = self.sessions.contains_key(label);
        let done = match record {
            Record::Session(record) => self.session(connection, line, record),
            Record::Turn(record) => self.turn(connection, line, record, clock),
        };
        match done {
            Ok(()) => execute(connection, "RELEASE line"),
            Err(StorageError {
                kind: StorageErrorKind::Constraint | StorageErrorKind::Corrupt,
                message,
                ..
            }) => {
                execute(connection, "ROLLBACK TO line")?;
                execute(connection, "RELEASE line")?;
                let compactions;
                (self.turns, self.messages, self.tool_calls, compactions) = before;
                self.compactions.truncate(compactions);
                if !known {
                    self.sessions.remove(label);
                }
                self.problems.add(line, TransferCode::Refused, message);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn session(
        &mut self,
        connection: &Connection,
        line: Option<u64>,
        record: &SessionRecord,
    ) -> Stored<()> {
        let session = &record.session;
        if self.own(connection, &session.label, session.created_at)? {
            self.sessions.insert(session.label.clone(), Some((line, Box::new(record.clone()))));
            return Ok(());
        }
        let there = pointers::head(connection, &session.label)?.flatten();
        if there != session.thread_id {
            self.problems.add(
                line,
                TransferCode::SessionExists,
                format!(
                    "session `{}` is there already and stays where it is; fork from turn `{}` to go on from the file's",
                    session.label,
                    session.thread_id.as_deref().unwrap_or("none")
                ),
            );
        }
        Ok(())
    }

    /// Makes the session, unseen until the end, where there is none. Whether it is this import's.
    fn own(&mut self, connection: &Connection, label: &str, now: i64) -> Stored<bool> {
        if self.sessions.contains_key(label) {
            return Ok(true);
        }
        // What an import that was cut off has left is gone on with.
        let unseen: Option<bool> = connection
            .prepare_cached(
                "SELECT opening = 1 AND thread_id IS NULL AND NOT EXISTS (
                   SELECT 1 FROM open_turns o JOIN turns t ON t.id = o.turn_id WHERE t.session_label = s.label)
                 FROM sessions s WHERE label = ?1",
            )
            .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
            .map_err(|error| sqlite(&format!("read session `{label}`"), &error))?;
        match unseen {
            Some(false) => return Ok(false),
            Some(true) => {}
            None => pointers::create(connection, label, None, now, true)?,
        }
        self.sessions.insert(label.to_owned(), None);
        Ok(true)
    }

    fn turn(
        &mut self,
        connection: &Connection,
        line: Option<u64>,
        record: &TurnRecord,
        clock: &Clock,
    ) -> Stored<()> {
        let there = exists(connection, &record.id)?;
        if there {
            self.skipped_turns += 1;
        } else {
            if (record.turn_type == "compaction") != record.compaction.is_some() {
                return Err(StorageError::new(
                    StorageErrorKind::Constraint,
                    format!(
                        "turn `{}` is a compaction that does not say of what, or is none",
                        record.id
                    ),
                ));
            }
            let record = &fitted(&mut self.problems, line, record)?;
            self.own(connection, &record.session_label, record.started_at)?;
            let parent = self.parent(connection, line, record)?;
            insert(connection, record, parent.as_ref())?;
            for message in &record.messages {
                insert_message(connection, &record.id, &message.message, OnConflict::Refuse)?;
                if let Some(metadata) = &message.metadata_json {
                    note(connection, &record.id, &message.message.id, metadata)?;
                }
            }
            for call in &record.tool_calls {
                let mut row = call.clone();
                if !record.messages.iter().any(|message| message.message.id == row.message_id) {
                    row.message_id.clear();
                }
                write_tool_call(
                    connection,
                    &record.id,
                    (&row, None, None),
                    OnConflict::Refuse,
                    clock,
                )?;
            }
            if let Some(result) = &record.compaction {
                self.compactions.push((line, record.id.clone(), result.clone()));
            }
            self.turns += 1;
            self.messages += record.messages.len() as u64;
            self.tool_calls += record.tool_calls.len() as u64;
        }
        self.way.split_off(&record.depth);
        self.way.insert(record.depth, record.id.clone());
        Ok(())
    }

    /// The parent that the turn gets: its own, or, where that is lost, the nearest turn above it that is not.
    fn parent(
        &mut self,
        connection: &Connection,
        line: Option<u64>,
        record: &TurnRecord,
    ) -> Stored<Option<(String, Parent)>> {
        let Some(id) = &record.parent_turn_id else { return Ok(None) };
        match parent_of(connection, id) {
            Ok(parent) => return Ok(Some((id.clone(), parent))),
            Err(error) if error.kind == StorageErrorKind::UnknownTurn => {}
            Err(error) => return Err(error),
        }
        // The lines come in the order of the tree, so the last turn of a lesser depth is above this one; of the lost
        // parent's depth it would be a sibling of it.
        let left = self.way.range(..record.depth.saturating_sub(1)).next_back();
        let parent = match left {
            Some((_, left)) => Some((left.clone(), parent_of(connection, left)?)),
            None => None,
        };
        let to = parent.as_ref().map_or("no turn", |(id, _)| id);
        self.problems.add(
            line,
            TransferCode::Reattached,
            format!("turn `{}` followed `{id}`, which is lost; it follows `{to}`", record.id),
        );
        Ok(parent)
    }

    /// Writes what had to wait for every turn, and lets readers see the sessions.
    pub(crate) fn finish(&mut self, connection: &Connection) -> Stored<()> {
        for (line, id, result) in std::mem::take(&mut self.compactions) {
            self.compaction(connection, line, &id, result)?;
        }
        for (label, line) in self.sessions.clone() {
            self.show(connection, &label, line)?;
        }
        Ok(())
    }

    fn compaction(
        &mut self,
        connection: &Connection,
        line: Option<u64>,
        id: &str,
        mut result: CompactionResult,
    ) -> Stored<()> {
        for named in [&mut result.summarized_through_turn_id, &mut result.first_kept_turn_id] {
            if !exists(connection, named)? {
                self.problems.add(
                    line,
                    TransferCode::LostReference,
                    format!("compaction `{id}` names turn `{named}`, which is lost"),
                );
                // Itself is never on the way up: what is left is bounded by the other, or kept whole.
                id.clone_into(named);
            }
        }
        // A thread that was put together anew may go past what was summarised.
        let through = &mut result.summarized_through_turn_id;
        if through != id && !is_above(connection, id, through)? {
            let message = format!(
                "compaction `{id}` summarises turn `{through}`, which is no longer above it"
            );
            self.problems.add(line, TransferCode::LostReference, message);
            id.clone_into(through);
        }
        compaction::write_row(connection, id, &result)
    }

    fn show(&mut self, connection: &Connection, label: &str, line: Option<Line>) -> Stored<()> {
        let failed = |error| sqlite(&format!("write session `{label}`"), &error);
        let last: Option<(String, i64)> = connection
            .query_row(
                "SELECT id, coalesce(completed_at, started_at) FROM turns WHERE session_label = ?1
                 ORDER BY depth DESC, id DESC LIMIT 1",
                (label,),
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(failed)?;
        let Some((number, record)) = line else {
            self.problems.add(
                None,
                TransferCode::Rebuilt,
                format!("what session `{label}` was is lost; it points at its deepest turn"),
            );
            if let Some((turn, at)) = last {
                pointers::move_pointer(connection, label, &turn, at)?;
            }
            return pointers::opened(connection, label);
        };
        let session = &record.session;
        let mut pointer = session.thread_id.clone();
        let mut before = record.history.iter().rev().map(|moved| moved.turn_id.clone());
        if session.thread_id.is_none()
            && let Some(turn) = before.next()
        {
            let message = format!(
                "session `{label}` points at no turn, and its log at `{turn}`, which it points at now"
            );
            self.problems.add(number, TransferCode::LostReference, message);
            pointer = Some(turn);
        }
        if let Some(lost) = pointer.clone()
            && !has_ended(connection, &lost)?
        {
            pointer = match last {
                Some((turn, _)) => Some(turn),
                None => loop {
                    match before.next() {
                        Some(turn) if has_ended(connection, &turn)? => break Some(turn),
                        Some(_) => {}
                        None => break None,
                    }
                },
            };
            let to = pointer.as_deref().unwrap_or("no turn");
            self.problems.add(
                number,
                TransferCode::LostReference,
                format!(
                    "session `{label}` pointed at `{lost}`, which is lost; it points at `{to}`"
                ),
            );
        }
        let mut parent = session.parent_turn_id.clone();
        if let Some(lost) = &session.parent_turn_id
            && !exists(connection, lost)?
        {
            parent = None;
            self.problems.add(
                number,
                TransferCode::LostReference,
                format!("session `{label}` was spawned in `{lost}`, which is lost"),
            );
        }
        // A file that does not say whose it is: what there is to go by.
        let agent = match session.agent_id.as_str() {
            "" => agent_of(label, &session.persona_id),
            named => named.to_owned(),
        };
        connection
            .execute(
                &SHOW,
                params![
                    label,
                    pointer,
                    session.persona_id,
                    session.is_subagent,
                    session.parent_session_label,
                    parent,
                    session.spawn_tool_call_id,
                    session.task_description,
                    session.task_status,
                    session.routing_key,
                    session.origin,
                    session.origin_session_id,
                    session.created_at,
                    session.updated_at,
                    session.status,
                    agent,
                ],
            )
            .map_err(failed)?;
        let mut logged = None;
        for moved in &record.history {
            if has_ended(connection, &moved.turn_id)? {
                pointers::log(connection, label, &moved.turn_id, moved.changed_at)
                    .map_err(failed)?;
                logged = Some(moved.turn_id.clone());
            }
        }
        if let Some(turn) = pointer
            && logged.as_ref() != Some(&turn)
        {
            pointers::log(connection, label, &turn, session.updated_at).map_err(failed)?;
        }
        Ok(())
    }
}

fn is_above(connection: &Connection, turn: &str, other: &str) -> Stored<bool> {
    connection
        .prepare_cached(
            "WITH RECURSIVE up (id) AS (
               SELECT parent_turn_id FROM turns WHERE id = ?1
               UNION SELECT t.parent_turn_id FROM up JOIN turns t ON t.id = up.id
             ) SELECT 1 FROM up WHERE id = ?2",
        )
        .and_then(|mut statement| statement.exists((turn, other)))
        .map_err(|error| sqlite("look for a turn", &error))
}

fn has_ended(connection: &Connection, turn: &str) -> Stored<bool> {
    match parent_of(connection, turn) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == StorageErrorKind::UnknownTurn => Ok(false),
        Err(error) => Err(error),
    }
}

fn exists(connection: &Connection, turn: &str) -> Stored<bool> {
    connection
        .prepare_cached("SELECT 1 FROM turns WHERE id = ?1")
        .and_then(|mut statement| statement.exists((turn,)))
        .map_err(|error| sqlite("look for a turn", &error))
}

fn execute(connection: &Connection, sql: &str) -> Stored<()> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(()))
        .map(drop)
        .map_err(|error| sqlite("import into the ledger", &error))
}
