//! One batch of a deletion: a transaction of its own, in which some turns go with everything that belongs to them.
//!
//! What has changed since the plan is checked here: a turn that is followed or needed by now stays. It must never run inside
//! another transaction, because foreign keys are not checked meanwhile.

use std::collections::{BTreeSet, HashSet};

use rusqlite::Connection;

use crate::deletion::candidates::{self, Candidate};
use crate::deletion::heads;
use crate::deletion::owned_rows::{self, Deleted, OwnedTurn};
use crate::deletion::plan::Plan;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::sql;

/// The most turns of a batch, and messages and calls after which it ends.
const TURNS: usize = 64;
const ROWS: u64 = 1_024;

const DOING: &str = "delete turns";

/// What a batch has done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    /// How many turns of the plan it has taken.
    pub(crate) taken: usize,
    /// How many of them are deleted.
    pub(crate) turns: u64,
    pub(crate) deleted: Deleted,
    pub(crate) blobs: u64,
    /// The sessions in which they were run.
    pub(crate) labels: BTreeSet<String>,
}

/// Deletes the next turns of `plan`, from `at` on.
pub(crate) fn run(
    connection: &Connection,
    plan: &Plan,
    gone: &HashSet<i64>,
    (at, now): (usize, i64),
) -> Stored<Batch> {
    // Each deleted row would be looked for in every table that may refer to it; what refers to it goes in the same transaction.
    check_keys(connection, false)?;
    let done = in_transaction(connection, || turns(connection, plan, gone, (at, now)));
    check_keys(connection, true)?;
    done
}

fn check_keys(connection: &Connection, checked: bool) -> Stored<()> {
    connection.pragma_update(None, "foreign_keys", checked).map_err(|error| sqlite(DOING, &error))
}

fn in_transaction<T>(connection: &Connection, work: impl FnOnce() -> Stored<T>) -> Stored<T> {
    let execute = |statement| sql::exec(connection, statement, (), DOING);
    execute("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| execute("COMMIT").map(|_| done));
    if !connection.is_autocommit() {
        execute("ROLLBACK")?;
    }
    done
}

/// The sessions that have moved since the plan, and those in which a turn is open.
const POINTED_SINCE: &str = "SELECT thread_id FROM session_history WHERE id > ?1
     UNION SELECT s.thread_id FROM runs r INDEXED BY runs_in_journal CROSS JOIN sessions s ON s.label = r.session_label
     WHERE r.in_journal = 1 AND r.ended_at IS NULL AND s.thread_id IS NOT NULL";

fn turns(
    connection: &Connection,
    plan: &Plan,
    gone: &HashSet<i64>,
    (at, now): (usize, i64),
) -> Stored<Batch> {
    let mut batch = Batch::default();
    let planned = plan.turns.get(at..).unwrap_or_default();
    let mut found: Vec<(i64, Option<Candidate>)> = Vec::new();
    for n in planned.iter().take(TURNS) {
        found.push((*n, candidates::read(connection, *n)?));
    }
    let ids: Vec<String> =
        found.iter().filter_map(|(_, turn)| Some(turn.as_ref()?.id.clone())).collect();
    let heads = heads::naming(connection, &ids)?;
    let since: HashSet<String> =
        sql::all::<String>(connection, POINTED_SINCE, (plan.last_move,), DOING)?
            .into_iter()
            .collect();
    let mut lists = Lists::default();
    for (n, turn) in found {
        if batch.deleted.messages + batch.deleted.tool_calls > ROWS {
            break;
        }
        batch.taken += 1;
        // It was deleted by another process meanwhile.
        let Some(turn) = turn else { continue };
        // Those that follow it have gone before, if they could.
        let is_followed = candidates::read(connection, n)?.is_some_and(|turn| turn.has_children());
        let is_head = heads.at.contains_key(&turn.id);
        if is_followed || since.contains(&turn.id) || is_head && !plan.moves_heads {
            continue;
        }
        heads.leave(connection, &turn, gone, now)?;
        for id in plan.moves.get(&n).into_iter().flatten() {
            sql::exec(connection, "DELETE FROM session_history WHERE id = ?1", (id,), DOING)?;
        }
        lists.take(connection, n)?;
        let owned = OwnedTurn { n, id: turn.id.clone() };
        let tools = batch.deleted.tools.len();
        owned_rows::of_turn(connection, &owned, &mut batch.deleted)?;
        lists.tools(n, batch.deleted.tools.get(tools..).unwrap_or_default());
        sql::exec(connection, "DELETE FROM turn_rows WHERE n = ?1", (n,), DOING)?;
        leave_parent(connection, n, &turn)?;
        batch.labels.insert(turn.session_label);
        batch.turns += 1;
    }
    lists.settle(connection)?;
    lower_progress(connection)?;
    batch.blobs = owned_rows::unused_blobs(connection, &batch.deleted.blobs)?;
    Ok(batch)
}

/// Takes a deleted turn out of the children of its parent.
fn leave_parent(connection: &Connection, n: i64, turn: &Candidate) -> Stored<()> {
    let Some(parent) = turn.parent else { return Ok(()) };
    let select = "SELECT id, first_child FROM turn_rows WHERE n = ?1";
    let found: Option<(String, Option<i64>)> = sql::optional(connection, select, (parent,), DOING)?;
    let Some((id, first)) = found else { return Ok(()) };
    let delete = "DELETE FROM turn_branches WHERE parent_turn_id = ?1 AND id = ?2";
    if first != Some(n) {
        return sql::exec(connection, delete, (id, &turn.id), DOING).map(drop);
    }
    let next = "SELECT c.n, c.id FROM turn_branches b CROSS JOIN turn_rows c ON c.id = b.id
         WHERE b.parent_turn_id = ?1 ORDER BY c.n LIMIT 1";
    let next: Option<(i64, String)> = sql::optional(connection, next, (&id,), DOING)?;
    if let Some((_, other)) = &next {
        sql::exec(connection, delete, (&id, other), DOING)?;
    }
    let update = "UPDATE turn_rows SET first_child = ?2 WHERE n = ?1";
    sql::exec(connection, update, (parent, next.map(|(n, _)| n)), DOING).map(drop)
}

/// The blocks of days, models and tools that a batch may have emptied.
#[derive(Default)]
struct Lists {
    days: BTreeSet<(i64, i64)>,
    models: BTreeSet<(String, String, i64)>,
    tools: BTreeSet<(String, i64)>,
}

impl Lists {
    fn take(&mut self, connection: &Connection, n: i64) -> Stored<()> {
        let select = "SELECT (started_at - (started_at % 86400000 + 86400000) % 86400000) / 86400000, provider, model
             FROM turns WHERE n = ?1";
        let found: Option<(i64, Option<String>, Option<String>)> =
            sql::optional(connection, select, (n,), DOING)?;
        if let Some((day, provider, model)) = found {
            self.days.insert((day, n >> 6));
            if let (Some(provider), Some(model)) = (provider, model) {
                self.models.insert((provider, model, n >> 6));
            }
        }
        Ok(())
    }

    fn tools(&mut self, n: i64, tools: &[String]) {
        self.tools.extend(tools.iter().map(|tool| (tool.clone(), n >> 6)));
    }

    /// Takes out the blocks that no turn is listed for any more.
    fn settle(&self, connection: &Connection) -> Stored<()> {
        for (day, block) in &self.days {
            let delete = "DELETE FROM turns_of_days WHERE day = ?1 AND block = ?2 AND NOT EXISTS (
                 SELECT 1 FROM turn_rows WHERE n BETWEEN ?2 << 6 AND ?2 << 6 | 63
                   AND (started_at - (started_at % 86400000 + 86400000) % 86400000) / 86400000 = ?1)";
            sql::exec(connection, delete, (day, block), DOING)?;
        }
        for (provider, model, block) in &self.models {
            let delete = "DELETE FROM turns_of_models WHERE provider = ?1 AND model = ?2 AND block = ?3 AND NOT EXISTS (
                 SELECT 1 FROM turns t WHERE t.n BETWEEN ?3 << 6 AND ?3 << 6 | 63 AND t.provider = ?1 AND t.model = ?2)";
            sql::exec(connection, delete, (provider, model, block), DOING)?;
        }
        for (tool, block) in &self.tools {
            let delete = "DELETE FROM turns_of_tools WHERE tool_name = ?1 AND block = ?2 AND NOT EXISTS (
                 SELECT 1 FROM call_values WHERE key BETWEEN ?2 << 26 AND ?2 << 26 | 67108863 AND tool_name = ?1)";
            sql::exec(connection, delete, (tool, block), DOING)?;
        }
        Ok(())
    }
}

/// The number of a deleted turn may be given again: its messages are then not indexed yet.
fn lower_progress(connection: &Connection) -> Stored<()> {
    crate::search::search_indexer::lower(connection)
}
