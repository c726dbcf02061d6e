//! The turns whose deletion is requested, and why some of them are needed: other turns that follow them, compactions that retain
//! them. It must never decide which of them go: `turn::removal` does.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use turn::removal::Requested;

const DOING: &str = "find the turns to delete";

/// A turn as the rule sees it.
pub(crate) struct Candidate {
    pub(crate) id: String,
    depth: i64,
    pub(crate) parent: Option<i64>,
    first_child: Option<i64>,
    is_compaction: bool,
    pub(crate) session_label: String,
}

pub(crate) const CANDIDATE: &str = "SELECT id, depth, parent, first_child, turn_type = 1, session_label FROM turn_rows WHERE n = ?1";
pub(crate) const OTHER_CHILDREN: &str = "SELECT c.n FROM turn_branches b CROSS JOIN turn_rows c ON c.id = b.id WHERE b.parent_turn_id = ?1";
pub(crate) const RETAINED: &str = "SELECT t.n FROM compactions c CROSS JOIN turn_rows t ON t.id = c.first_kept_turn_id WHERE c.turn_id = ?1";

impl Candidate {
    /// Whether another turn follows it.
    pub(crate) fn has_children(&self) -> bool {
        self.first_child.is_some()
    }
}

/// The requested turns by their numbers.
#[derive(Default)]
pub(crate) struct Candidates(pub(crate) BTreeMap<i64, Candidate>);

impl Candidates {
    /// Adds a turn. False if it is among them already, or does not exist.
    pub(crate) fn add(&mut self, connection: &Connection, n: i64) -> Stored<bool> {
        if self.0.contains_key(&n) {
            return Ok(false);
        }
        let found = read(connection, n)?;
        let is_new = found.is_some();
        self.0.extend(found.map(|turn| (n, turn)));
        Ok(is_new)
    }

    /// Adds the compactions that directly follow a candidate: they are made of it. With `all`, every turn that follows one.
    pub(crate) fn add_followers(&mut self, connection: &Connection, all: bool) -> Stored<()> {
        let mut waiting: Vec<i64> = self.0.keys().copied().collect();
        while let Some(n) = waiting.pop() {
            let Some(turn) = self.0.get(&n) else { continue };
            for child in children(connection, turn)? {
                if self.0.contains_key(&child) {
                    continue;
                }
                let Some(turn) = read(connection, child)? else { continue };
                if all || turn.is_compaction {
                    self.0.insert(child, turn);
                    waiting.push(child);
                }
            }
        }
        Ok(())
    }

    /// The turns in the form of the rule; `is_needed` by a session or a run.
    pub(crate) fn requested(
        &self,
        connection: &Connection,
        is_needed: impl Fn(i64, &Candidate) -> bool,
    ) -> Stored<Vec<Requested>> {
        let mut requested = Vec::with_capacity(self.0.len());
        for (n, turn) in &self.0 {
            let retains = if turn.is_compaction { retained(connection, &turn.id)? } else { None };
            let needed = is_needed(*n, turn)
                || self.is_followed(connection, turn)?
                || self.is_retained(connection, *n, turn)?;
            let Candidate { depth, parent, .. } = *turn;
            requested.push(Requested { n: *n, depth, parent, retains, needed });
        }
        Ok(requested)
    }

    /// Whether a turn that is no candidate follows it.
    fn is_followed(&self, connection: &Connection, turn: &Candidate) -> Stored<bool> {
        Ok(children(connection, turn)?.iter().any(|child| !self.0.contains_key(child)))
    }

    /// Whether a compaction before it that is no candidate retains it.
    fn is_retained(&self, connection: &Connection, n: i64, turn: &Candidate) -> Stored<bool> {
        let Some(parent) = turn.parent.filter(|parent| !self.0.contains_key(parent)) else {
            return Ok(false);
        };
        let above = read(connection, parent)?.filter(|above| above.is_compaction);
        Ok(match above {
            Some(above) => retained(connection, &above.id)? == Some(n),
            None => false,
        })
    }
}

/// The turn with that number.
pub(crate) fn read(connection: &Connection, n: i64) -> Stored<Option<Candidate>> {
    sql::first(connection, CANDIDATE, (n,), DOING, |fields| {
        Ok(Candidate {
            id: fields.next()?,
            depth: fields.next()?,
            parent: fields.next()?,
            first_child: fields.next()?,
            is_compaction: fields.next()?,
            session_label: fields.next()?,
        })
    })
}

fn children(connection: &Connection, turn: &Candidate) -> Stored<Vec<i64>> {
    let Some(first) = turn.first_child else { return Ok(Vec::new()) };
    let mut children: Vec<i64> = sql::all(connection, OTHER_CHILDREN, (&turn.id,), DOING)?;
    children.push(first);
    Ok(children)
}

fn retained(connection: &Connection, compaction: &str) -> Stored<Option<i64>> {
    sql::optional(connection, RETAINED, (compaction,), DOING)
}
