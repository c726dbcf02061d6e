//! The rows of a file as a transfer reads and writes them, inside one transaction of a connection.
//!
//! It must never list an open turn, nor let a session point at a turn that is not in the ledger.

use std::future::ready;
use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use super::insert::{insert, set_metadata};
use super::table_rows;
use crate::journal::compaction::write_row;
use crate::journal::message_ids::MessageIds;
use crate::journal::write::{insert_message, insert_tool_call, json};
use crate::journal_rows::approval_rows;
use crate::memory_rows::pending;
use crate::reading::history;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::rows::{context_layers, metadata_rows, session_rows, turn_rows};
use crate::sessions::{moved, pointers};
use crate::sqlite::checksum::{numbered, set};
use crate::sqlite::columns::{list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::{schema, sql};
use base::clock::Clock;
use model::{Approval, CompactionResult, CopiedTable, SessionRow, StorageErrorKind};
use portable::{Answer, Mark, MessageNotes, Moved, Parent, Rows, SessionRecord, There, TurnRecord};

/// A session's turns: those that ran in it, its head, and all their ancestors.
const OF_SESSION: &str = "WITH RECURSIVE up (id) AS (
    SELECT id FROM turns WHERE session_label = ?1
    UNION SELECT thread_id FROM sessions WHERE label = ?1 AND thread_id IS NOT NULL
    UNION SELECT t.parent_turn_id FROM up JOIN turns t ON t.id = up.id WHERE t.parent_turn_id IS NOT NULL
  ) SELECT t.id, t.parent_turn_id FROM up JOIN turns t ON t.id = up.id
  WHERE t.status NOT IN ('pending', 'streaming') ORDER BY t.id DESC";

const ALL: &str = "SELECT id, parent_turn_id FROM turns WHERE status NOT IN ('pending', 'streaming') ORDER BY id DESC";

const NOTES: &str = "SELECT m.metadata_json, m.context_json FROM turns t CROSS JOIN message_rows m
    ON m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575 WHERE t.id = ?1 ORDER BY m.key";

const AFTER: &str = "SELECT n, id FROM turns WHERE n > ?1 AND status NOT IN ('pending', 'streaming') ORDER BY n LIMIT ?2";

/// Whether an earlier import was interrupted before the session became visible, and whether a turn runs in it.
const THERE: &str = "SELECT thread_id, opening = 1 AND thread_id IS NULL, EXISTS (
       SELECT 1 FROM runs r INDEXED BY runs_in_journal
       WHERE r.in_journal = 1 AND r.session_label = s.label AND r.ended_at IS NULL AND r.epoch IS NOT NULL)
     FROM sessions s WHERE label = ?1";

const IS_ABOVE: &str = "WITH RECURSIVE up (id) AS (
       SELECT parent_turn_id FROM turns WHERE id = ?1
       UNION SELECT t.parent_turn_id FROM up JOIN turns t ON t.id = up.id
     ) SELECT 1 FROM up WHERE id = ?2";

const EXISTS: &str = "SELECT 1 FROM turns WHERE id = ?1
     UNION ALL SELECT 1 FROM runs WHERE turn_id = ?1 AND ended_at IS NULL AND epoch IS NOT NULL";

static UPDATE_SESSION: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<SessionRow>();
    let mut row = numbered(&columns);
    row.retain(|(name, _)| *name != "label");
    row.push(("opening", "0".to_owned()));
    format!("UPDATE sessions SET {} WHERE label = ?1", set(&row))
});

/// The rows of a file.
pub(crate) struct SqliteRows<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) clock: &'a Clock,
    /// Whether turns that are written are noted for the memory.
    pub(crate) remembers: bool,
}

impl SqliteRows<'_> {
    fn read_turn(&self, id: &str) -> Stored<TurnRecord> {
        let row = turn_rows::turn(self.connection, id)?.ok_or_else(|| unknown_turn(id))?;
        let doing = format_args!("read the messages of turn `{id}`");
        let notes = sql::map(self.connection, NOTES, (id,), doing, |fields| {
            let metadata_json = fields.next()?;
            let layers: Option<String> = fields.next()?;
            Ok(MessageNotes {
                metadata_json,
                layers: context_layers::of_column(layers.as_deref())?,
            })
        })?;
        Ok(TurnRecord::of(row, notes))
    }

    fn read_session(&self, label: &str) -> Stored<Option<SessionRecord>> {
        if pointers::visible_head(self.connection, label)?.is_none() {
            return Ok(None);
        }
        let Some(session) = session_rows::session(self.connection, label)? else { return Ok(None) };
        let select = "SELECT thread_id, changed_at FROM session_history WHERE session_label = ?1 ORDER BY id";
        let doing = format_args!("read the log of session `{label}`");
        let history = sql::map(self.connection, select, (label,), doing, |fields| {
            Ok(Moved { turn_id: fields.next()?, changed_at: fields.next()? })
        })?;
        Ok(Some(SessionRecord { session, history }))
    }

    fn write_turn(&self, turn: &TurnRecord, parent: Option<&Parent>) -> Stored<()> {
        let connection = self.connection;
        moved::refuse(connection)?;
        let number = insert(connection, turn, parent)?;
        let (mut ids, mut shared) = (MessageIds::default(), SharedValues::default());
        for message in &turn.messages {
            ids.insert_new(&message.message.id)?;
            insert_message(connection, number, &message.message, &mut shared)?;
            if let Some(metadata) = &message.metadata_json {
                set_metadata(connection, number, &message.message.id, metadata)?;
            }
            if let Some(layers) = &message.layers {
                context_layers::set(connection, number, &message.message.id, &json(layers))?;
            }
        }
        for call in &turn.tool_calls {
            let mut row = call.clone();
            if !ids.contains(&row.message_id) {
                row.message_id.clear();
            }
            insert_tool_call(connection, number, &row, &shared, self.clock)?;
        }
        for approval in &turn.approvals {
            approval_rows::restore(connection, approval)?;
        }
        if self.remembers {
            pending::note(connection, &turn.id)?;
        }
        Ok(())
    }

    fn find_parent(&self, turn: &str) -> Stored<Option<Parent>> {
        match parent_of(self.connection, turn) {
            Ok(it) => Ok(Some(Parent {
                id: turn.to_owned(),
                n: it.n,
                depth: it.depth,
                thread_tokens: it.thread_tokens,
            })),
            Err(error) if error.kind == StorageErrorKind::UnknownTurn => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_mark(&self, mark: Mark) -> Stored<()> {
        let statements: &[&str] = match mark {
            Mark::Set => &["SAVEPOINT line"],
            Mark::Release => &["RELEASE line"],
            Mark::Undo => &["ROLLBACK TO line", "RELEASE line"],
        };
        for statement in statements {
            sql::exec(self.connection, statement, (), "import into the ledger")?;
        }
        Ok(())
    }

    fn update_session(&self, row: &SessionRow) -> Stored<()> {
        let doing = format_args!("write session `{}`", row.label);
        sql::exec(self.connection, &UPDATE_SESSION, params_from_iter(values(row)), doing)?;
        metadata_rows::set_on_session(self.connection, &row.label, row.metadata.as_ref())
    }

    fn find_there(&self, label: &str) -> Stored<Option<There>> {
        let doing = format_args!("read session `{label}`");
        sql::first(self.connection, THERE, (label,), doing, |fields| {
            let head = fields.next()?;
            let [is_hidden, is_running]: [bool; 2] = [fields.next()?, fields.next()?];
            let is_incomplete = is_hidden && !is_running;
            Ok(There { head, is_incomplete, is_running })
        })
    }

    fn page(&self, after: i64, most: i64) -> Stored<(Vec<String>, i64)> {
        let mut last = after;
        let ids = sql::map(self.connection, AFTER, (after, most), "list the turns", |fields| {
            last = fields.next()?;
            fields.next()
        })?;
        Ok((ids, last))
    }
}

/// An answer that is there.
fn now<'a, T: 'a>(answer: Stored<T>) -> Answer<'a, T> {
    Box::pin(ready(answer))
}

impl Rows for SqliteRows<'_> {
    fn turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, Vec<(String, Option<String>)>> {
        let doing = "list the ledger's turns";
        now(match label {
            None => sql::all(self.connection, ALL, (), doing),
            Some(label) => sql::all(self.connection, OF_SESSION, (label,), doing),
        })
    }

    fn turns_after(&self, after: i64, most: i64) -> Answer<'_, (Vec<String>, i64)> {
        now(self.page(after, most))
    }

    fn open_turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, u64> {
        let select =
            "SELECT count(*) FROM runs WHERE in_journal = 1 AND ended_at IS NULL AND epoch IS NOT NULL
             AND session_label = coalesce(?1, session_label)";
        now(sql::one(self.connection, select, (label,), "count the turns that run"))
    }

    fn thread<'a>(&'a self, head: &'a str) -> Answer<'a, Vec<String>> {
        let history = history::session_history(self.connection, "", Some(head), None);
        now(history.map(|history| history.turns.into_iter().map(|turn| turn.id).collect()))
    }

    fn turn<'a>(&'a self, id: &'a str) -> Answer<'a, TurnRecord> {
        now(self.read_turn(id))
    }

    fn approvals<'a>(&'a self, turn: &'a str) -> Answer<'a, Vec<Approval>> {
        now(approval_rows::of_turn(self.connection, turn))
    }

    fn labels(&self) -> Answer<'_, Vec<String>> {
        let select = "SELECT label FROM sessions WHERE opening = 0 ORDER BY label";
        now(sql::all(self.connection, select, (), "list the ledger's sessions"))
    }

    fn session<'a>(&'a self, label: &'a str) -> Answer<'a, Option<SessionRecord>> {
        now(self.read_session(label))
    }

    fn missing<'a>(&'a self, turns: &'a [String]) -> Answer<'a, Vec<String>> {
        let missing = turns.iter().filter_map(|turn| {
            match sql::exists(self.connection, EXISTS, (turn,), "find a turn") {
                Ok(true) => None,
                Ok(false) => Some(Ok(turn.clone())),
                Err(error) => Some(Err(error)),
            }
        });
        now(missing.collect())
    }

    fn count<'a>(&'a self, statement: &'a str) -> Answer<'a, u64> {
        let statement = statement.replace('@', "");
        now(sql::one(self.connection, &statement, (), "count what is not copied"))
    }

    fn fence<'a>(&'a self, place: &'a str, token: &'a str) -> Answer<'a, ()> {
        now(moved::set(self.connection, place, token))
    }

    fn release<'a>(&'a self, token: &'a str) -> Answer<'a, bool> {
        now(moved::release(self.connection, token))
    }

    fn finish_move<'a>(&'a self, token: &'a str) -> Answer<'a, bool> {
        now(moved::finish(self.connection, token))
    }

    fn identity(&self) -> Answer<'_, Vec<String>> {
        now(schema::stamp_of(self.connection).and_then(|stamp| {
            let mark = moved::copy_mark(self.connection)?;
            Ok(std::iter::once(stamp.ledger_id).chain(mark).collect())
        }))
    }

    fn set_copy_mark<'a>(&'a self, mark: &'a str) -> Answer<'a, bool> {
        now(moved::mark_copy(self.connection, mark))
    }

    fn rows_after<'a>(
        &'a self,
        of: CopiedTable,
        after: &'a [String],
    ) -> Answer<'a, Vec<Vec<String>>> {
        now(table_rows::page(self.connection, of, after))
    }

    fn missing_rows<'a>(
        &'a self,
        of: CopiedTable,
        rows: &'a [Vec<String>],
    ) -> Answer<'a, Vec<Vec<String>>> {
        now(table_rows::missing(self.connection, of, rows))
    }

    fn write_rows<'a>(&'a self, of: CopiedTable, rows: &'a [Vec<String>]) -> Answer<'a, ()> {
        now(table_rows::write(self.connection, of, rows))
    }

    fn exists<'a>(&'a self, turn: &'a str) -> Answer<'a, bool> {
        now(sql::exists(self.connection, EXISTS, (turn,), "find a turn"))
    }

    fn parent<'a>(&'a self, turn: &'a str) -> Answer<'a, Option<Parent>> {
        now(self.find_parent(turn))
    }

    fn is_above<'a>(&'a self, turn: &'a str, other: &'a str) -> Answer<'a, bool> {
        now(sql::exists(self.connection, IS_ABOVE, (turn, other), "find a turn"))
    }

    fn deepest<'a>(&'a self, label: &'a str) -> Answer<'a, Option<(String, i64)>> {
        let select =
            "SELECT id, coalesce(completed_at, started_at) FROM turns WHERE session_label = ?1
             ORDER BY depth DESC, id DESC LIMIT 1";
        let doing = format_args!("write session `{label}`");
        now(sql::optional(self.connection, select, (label,), doing))
    }

    fn there<'a>(&'a self, label: &'a str) -> Answer<'a, Option<There>> {
        now(self.find_there(label))
    }

    fn mark(&self, mark: Mark) -> Answer<'_, ()> {
        now(self.set_mark(mark))
    }

    fn create<'a>(&'a self, label: &'a str, at: i64) -> Answer<'a, ()> {
        now(pointers::create(self.connection, label, None, at, true))
    }

    fn insert<'a>(&'a self, turn: &'a TurnRecord, parent: Option<&'a Parent>) -> Answer<'a, ()> {
        now(self.write_turn(turn, parent))
    }

    fn compaction<'a>(&'a self, turn: &'a str, result: &'a CompactionResult) -> Answer<'a, ()> {
        now(write_row(self.connection, turn, result))
    }

    fn write_session<'a>(&'a self, row: &'a SessionRow) -> Answer<'a, ()> {
        now(self.update_session(row))
    }

    fn point<'a>(&'a self, label: &'a str, turn: Option<&'a str>, at: i64) -> Answer<'a, ()> {
        let moved = match turn {
            Some(turn) => pointers::move_pointer(self.connection, label, turn, at),
            None => Ok(()),
        };
        now(moved.and_then(|()| pointers::opened(self.connection, label)))
    }

    fn forget_log<'a>(&'a self, label: &'a str) -> Answer<'a, bool> {
        let delete = "DELETE FROM session_history WHERE session_label = ?1";
        let doing = "write the log of a session";
        now(sql::exec(self.connection, delete, (label,), doing).map(|rows| rows > 0))
    }

    fn log<'a>(&'a self, label: &'a str, turn: &'a str, at: i64) -> Answer<'a, ()> {
        now(pointers::log(self.connection, label, turn, at))
    }
}
