//! The pointers of sessions whose head is deleted: each moves back to the nearest turn that stays, and its log ends there.
//!
//! It must never move a pointer forward, nor leave a log that ends elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::deletion::candidates::{self, Candidate};
use crate::deletion::owned_rows::cache_chain;
use crate::sessions::pointers;
use crate::sqlite::checksum::set;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;

const DOING: &str = "move the pointer of a session";

/// What sessions have of the turns of a batch.
#[derive(Default)]
pub(crate) struct Heads {
    /// The sessions that point at a turn, by its id.
    pub(crate) at: HashMap<String, Vec<String>>,
    /// The sessions that a turn has spawned, by its id.
    spawned: HashMap<String, Vec<String>>,
}

const NAMING: &str = "SELECT label, thread_id, parent_turn_id FROM sessions
     WHERE thread_id IN (SELECT value FROM json_each(?1)) OR parent_turn_id IN (SELECT value FROM json_each(?1))";

/// The sessions that name one of the turns.
pub(crate) fn naming(connection: &Connection, turns: &[String]) -> Stored<Heads> {
    let ids = serde_json::to_string(turns).unwrap_or_else(|_| "[]".to_owned());
    let mut heads = Heads::default();
    let rows: Vec<(String, Option<String>, Option<String>)> =
        sql::all(connection, NAMING, (ids,), DOING)?;
    for (label, thread, spawned) in rows {
        if let Some(thread) = thread {
            heads.at.entry(thread).or_default().push(label.clone());
        }
        if let Some(spawned) = spawned {
            heads.spawned.entry(spawned).or_default().push(label);
        }
    }
    Ok(heads)
}

static POINT: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("thread_id", "?2"), ("updated_at", "?3")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1")
});
static UNSPAWN: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_turn_id", "NULL"), ("spawn_tool_call_id", "NULL")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1")
});

impl Heads {
    /// Moves the pointers that are at a turn which is deleted. `gone` are the numbers of all turns of the deletion.
    pub(crate) fn leave(
        &self,
        connection: &Connection,
        turn: &Candidate,
        gone: &HashSet<i64>,
        now: i64,
    ) -> Stored<()> {
        for label in self.spawned.get(&turn.id).into_iter().flatten() {
            sql::exec(connection, &UNSPAWN, (label,), DOING)?;
        }
        for label in self.at.get(&turn.id).into_iter().flatten() {
            let head = match remaining_ancestor(connection, turn, gone)? {
                None => remaining_move(connection, label, gone)?,
                found => found,
            };
            sql::exec(connection, &POINT, (label, &head, now), DOING)?;
            cache_chain(connection, label)?;
            match head {
                Some(head) => pointers::log(connection, label, &head, now)?,
                // Every turn at which it has pointed is deleted.
                None => {
                    let delete = "DELETE FROM session_history WHERE session_label = ?1";
                    sql::exec(connection, delete, (label,), DOING)?;
                }
            }
        }
        Ok(())
    }
}

fn remaining_ancestor(
    connection: &Connection,
    turn: &Candidate,
    gone: &HashSet<i64>,
) -> Stored<Option<String>> {
    let mut above = turn.parent;
    while let Some(n) = above {
        let Some(turn) = candidates::read(connection, n)? else { return Ok(None) };
        if !gone.contains(&n) {
            return Ok(Some(turn.id));
        }
        above = turn.parent;
    }
    Ok(None)
}

/// The last turn at which the session has pointed and that stays.
fn remaining_move(
    connection: &Connection,
    label: &str,
    gone: &HashSet<i64>,
) -> Stored<Option<String>> {
    let select =
        "SELECT t.n, t.id FROM session_history h CROSS JOIN turn_rows t ON t.id = h.thread_id
         WHERE h.session_label = ?1 ORDER BY h.changed_at DESC, h.id DESC";
    let moves: Vec<(i64, String)> = sql::all(connection, select, (label,), DOING)?;
    Ok(moves.into_iter().find(|(n, _)| !gone.contains(n)).map(|(_, id)| id))
}
