//! Writes records to the ledger, inside the writer's transactions; each turn is written completely or not at all.
//!
//! A refused record is reported as a problem, and only its own rows are undone; its children are attached to the nearest
//! remaining ancestor. A session that existed before is never moved. It must never make a session visible before all of its
//! turns are written.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::finish::{self, Imported, exists};
use super::fitted::fitted;
use super::insert::{insert, set_metadata};
use super::record::{SessionRecord, TurnRecord};
use super::report::Problems;
use crate::journal::message_ids::MessageIds;
use crate::journal::write::{insert_message, insert_tool_call, json};
use crate::journal_rows::approval_rows;
use crate::rows::context_layers;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::turn_parents::{Parent, parent_of};
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{Approval, CompactionResult, StorageError, StorageErrorKind, TransferCode};

/// A parsed line of a file.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Session(Box<SessionRecord>),
    Turn(Box<TurnRecord>),
}

/// Whether an earlier import was interrupted before the session became visible.
const IS_INCOMPLETE: &str = "SELECT opening = 1 AND thread_id IS NULL AND NOT EXISTS (
       SELECT 1 FROM runs r WHERE r.session_label = s.label AND r.ended_at IS NULL AND r.epoch IS NOT NULL)
     FROM sessions s WHERE label = ?1";

/// The state of an import. Each transaction works on a clone, because it may run again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restore {
    pub(crate) problems: Problems,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    pub(crate) skipped_turns: u64,
    /// The sessions that this import creates, with their record unless that is lost.
    sessions: BTreeMap<String, Option<Imported>>,
    /// A compaction may name later turns, so these rows are written last.
    compactions: Vec<(Option<u64>, String, CompactionResult)>,
    /// The last turn of each depth in the file: the path from the root to the last turn.
    path: BTreeMap<i64, String>,
}

impl Restore {
    /// The labels of the sessions that this import creates.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Those of the disk and of the ledger; an error of the record is a problem of the report.
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
            let imported = Imported { line, record: Box::new(record.clone()) };
            self.sessions.insert(session.label.clone(), Some(imported));
            return Ok(());
        }
        let there = pointers::head(connection, &session.label)?.flatten();
        if there != session.thread_id {
            self.problems.add(
                line,
                TransferCode::SessionExists,
                format!(
                    "session `{}` exists already and is not moved; fork from turn `{}` to continue from the file's",
                    session.label,
                    session.thread_id.as_deref().unwrap_or("none")
                ),
            );
        }
        Ok(())
    }

    /// Creates the session if it does not exist; readers see it at the end. Returns whether this import creates it.
    fn own(&mut self, connection: &Connection, label: &str, now: i64) -> Stored<bool> {
        if self.sessions.contains_key(label) {
            return Ok(true);
        }
        // A session of an interrupted import is completed.
        let doing = format_args!("read session `{label}`");
        match sql::optional(connection, IS_INCOMPLETE, (label,), doing)? {
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
        if exists(connection, &record.id)? {
            self.skipped_turns += 1;
        } else {
            if (record.turn_type == "compaction") != record.compaction.is_some() {
                return Err(StorageError::new(
                    StorageErrorKind::Constraint,
                    format!(
                        "turn `{}` is a compaction without its fields, or has them and is none",
                        record.id
                    ),
                ));
            }
            let record = &fitted(&mut self.problems, line, record)?;
            self.own(connection, &record.session_label, record.started_at)?;
            let parent = self.parent(connection, line, record)?;
            let number = insert(connection, record, parent.as_ref())?;
            let (mut ids, mut shared) = (MessageIds::default(), SharedValues::default());
            for message in &record.messages {
                ids.insert_new(&message.message.id)?;
                insert_message(connection, number, &message.message, &mut shared)?;
                if let Some(metadata) = &message.metadata_json {
                    set_metadata(connection, number, &message.message.id, metadata)?;
                }
                if let Some(layers) = &message.layers {
                    context_layers::set(connection, number, &message.message.id, &json(layers))?;
                }
            }
            for call in &record.tool_calls {
                let mut row = call.clone();
                if !ids.contains(&row.message_id) {
                    row.message_id.clear();
                }
                insert_tool_call(connection, number, &row, &shared, clock)?;
            }
            for approval in &record.approvals {
                approval_rows::restore(connection, &of_record(approval, record))?;
            }
            if let Some(result) = &record.compaction {
                self.compactions.push((line, record.id.clone(), result.clone()));
            }
            self.turns += 1;
            self.messages += record.messages.len() as u64;
            self.tool_calls += record.tool_calls.len() as u64;
        }
        self.path.split_off(&record.depth);
        self.path.insert(record.depth, record.id.clone());
        Ok(())
    }

    /// The parent of the turn, or its nearest remaining ancestor if the parent is lost.
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
        // The lines are in the order of the tree, so the last turn of a smaller depth is an ancestor. A turn at the depth of
        // the lost parent would be the parent's sibling.
        let nearest = self.path.range(..record.depth.saturating_sub(1)).next_back();
        let parent = match nearest {
            Some((_, nearest)) => Some((nearest.clone(), parent_of(connection, nearest)?)),
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

    /// Writes the final rows, and makes the sessions visible.
    pub(crate) fn finish(&mut self, connection: &Connection) -> Stored<()> {
        for (line, id, result) in std::mem::take(&mut self.compactions) {
            finish::compaction(connection, (line, &id), result, &mut self.problems)?;
        }
        for (label, imported) in &self.sessions {
            finish::session(connection, label, imported.as_ref(), &mut self.problems)?;
        }
        Ok(())
    }
}

/// An approval with the names of its turn.
fn of_record(approval: &Approval, record: &TurnRecord) -> Approval {
    Approval {
        turn_id: record.id.clone(),
        run_id: record.run_id.clone(),
        session_label: record.session_label.clone(),
        ..approval.clone()
    }
}

fn execute(connection: &Connection, statement: &str) -> Stored<()> {
    sql::exec(connection, statement, (), "import into the ledger").map(drop)
}
