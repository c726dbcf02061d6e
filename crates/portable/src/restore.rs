//! Writes records to the ledger, inside the writer's transactions; each turn is written completely or not at all.
//!
//! A refused record is reported as a problem, and only its own rows are undone; its children are attached to the nearest
//! remaining ancestor. A session that existed before is never moved. It must never make a session visible before all of its
//! turns are written.

use std::collections::BTreeMap;

use crate::error::Stored;
use crate::finish::{self, Imported};
use crate::fitted::fitted;
use crate::record::{SessionRecord, TurnRecord};
use crate::report::Problems;
use crate::rows::{Mark, Parent, Rows};
use model::{Approval, CompactionResult, StorageError, StorageErrorKind, TransferCode};

/// A parsed line of a file.
#[derive(Debug, Clone)]
pub enum Record {
    /// A session.
    Session(Box<SessionRecord>),
    /// A turn.
    Turn(Box<TurnRecord>),
}

/// The state of an import. Each transaction works on a clone, because it may run again.
#[derive(Debug, Clone, Default)]
pub struct Restore {
    /// What was changed or left out.
    pub problems: Problems,
    /// Turns that were added.
    pub turns: u64,
    /// Their messages.
    pub messages: u64,
    /// Their tool calls.
    pub tool_calls: u64,
    /// Turns that existed already.
    pub skipped_turns: u64,
    /// A copy: sessions that it made before are moved on, and a session stays hidden until its record is there.
    pub is_copy: bool,
    /// Sessions of a copy whose newest turns are not there yet.
    pub behind: u64,
    /// The sessions that this import creates, with their record unless that is lost.
    sessions: BTreeMap<String, Option<Imported>>,
    /// A compaction may name later turns, so these rows are written last.
    compactions: Vec<(Option<u64>, String, CompactionResult)>,
    /// The last turn of each depth in the file: the path from the root to the last turn.
    path: BTreeMap<i64, String>,
}

impl Restore {
    /// The labels of the sessions that this import creates.
    pub fn labels(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Those of the disk and of the ledger; an error of the record is a problem of the report.
    pub async fn take(
        &mut self,
        rows: &dyn Rows,
        line: Option<u64>,
        record: &Record,
    ) -> Stored<()> {
        rows.mark(Mark::Set).await?;
        let before = (self.turns, self.messages, self.tool_calls, self.compactions.len());
        let label = match record {
            Record::Session(record) => &record.session.label,
            Record::Turn(record) => &record.session_label,
        };
        let known = self.sessions.contains_key(label);
        let done = match record {
            Record::Session(record) => self.session(rows, line, record).await,
            Record::Turn(record) => self.turn(rows, line, record).await,
        };
        match done {
            Ok(()) => rows.mark(Mark::Release).await,
            Err(StorageError {
                kind: StorageErrorKind::Constraint | StorageErrorKind::Corrupt,
                message,
                ..
            }) => {
                rows.mark(Mark::Undo).await?;
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

    async fn session(
        &mut self,
        rows: &dyn Rows,
        line: Option<u64>,
        record: &SessionRecord,
    ) -> Stored<()> {
        let session = &record.session;
        let there = rows.there(&session.label).await?;
        let before = there.as_ref().and_then(|there| there.head.clone());
        let is_own = match &there {
            // A copy made it, and nobody has used it since.
            Some(there) if self.is_copy && !there.is_running => {
                let is_before = |head: &String| record.history.iter().any(|it| it.turn_id == *head);
                there.head.as_ref().is_none_or(is_before)
            }
            Some(_) | None => self.own(rows, &session.label, session.created_at).await?,
        };
        if is_own {
            let imported =
                Imported { line, record: Box::new(record.clone()), before, is_copy: self.is_copy };
            self.sessions.insert(session.label.clone(), Some(imported));
            return Ok(());
        }
        if before != session.thread_id {
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
    async fn own(&mut self, rows: &dyn Rows, label: &str, now: i64) -> Stored<bool> {
        if self.sessions.contains_key(label) {
            return Ok(true);
        }
        match rows.there(label).await? {
            // A session of an interrupted import is completed.
            Some(there) if !there.is_incomplete => return Ok(false),
            Some(_) => {}
            None => rows.create(label, now).await?,
        }
        self.sessions.insert(label.to_owned(), None);
        Ok(true)
    }

    async fn turn(
        &mut self,
        rows: &dyn Rows,
        line: Option<u64>,
        record: &TurnRecord,
    ) -> Stored<()> {
        if rows.exists(&record.id).await? {
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
            let record = fitted(&mut self.problems, line, record)?;
            self.own(rows, &record.session_label, record.started_at).await?;
            let parent = self.parent(rows, line, &record).await?;
            let mut record = record.clone();
            for approval in &mut record.approvals {
                *approval =
                    of_record(approval, &record.id, (&record.run_id, &record.session_label));
            }
            rows.insert(&record, parent.as_ref()).await?;
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
    async fn parent(
        &mut self,
        rows: &dyn Rows,
        line: Option<u64>,
        record: &TurnRecord,
    ) -> Stored<Option<Parent>> {
        let Some(id) = &record.parent_turn_id else { return Ok(None) };
        if let Some(parent) = rows.parent(id).await? {
            return Ok(Some(parent));
        }
        // The lines are in the order of the tree, so the last turn of a smaller depth is an ancestor. A turn at the depth of
        // the lost parent would be the parent's sibling.
        let nearest = self.path.range(..record.depth.saturating_sub(1)).next_back();
        let parent = match nearest {
            Some((_, nearest)) => rows.parent(nearest).await?,
            None => None,
        };
        let to = parent.as_ref().map_or("no turn", |parent| &parent.id);
        self.problems.add(
            line,
            TransferCode::Reattached,
            format!("turn `{}` followed `{id}`, which is lost; it follows `{to}`", record.id),
        );
        Ok(parent)
    }

    /// Writes the final rows, and makes the sessions visible.
    pub async fn finish(&mut self, rows: &dyn Rows) -> Stored<()> {
        for (line, id, result) in std::mem::take(&mut self.compactions) {
            // A copy has the turns that are named, or has them soon.
            match self.is_copy {
                true => rows.compaction(&id, &result).await?,
                false => finish::compaction(rows, (line, &id), result, &mut self.problems).await?,
            }
        }
        for (label, imported) in &self.sessions {
            if !self.is_copy || imported.is_some() {
                let is_behind =
                    finish::session(rows, label, imported.as_ref(), &mut self.problems).await?;
                self.behind += u64::from(is_behind);
            }
        }
        Ok(())
    }
}

/// An approval with the names of its turn.
fn of_record(approval: &Approval, turn_id: &str, (run, label): (&str, &str)) -> Approval {
    Approval {
        turn_id: turn_id.to_owned(),
        run_id: run.to_owned(),
        session_label: label.to_owned(),
        ..approval.clone()
    }
}
