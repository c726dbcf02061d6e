//! A host's move of a session's pointer to another turn of the session's own tree.
//!
//! It must never move the pointer under a turn that runs or waits, nor to a turn of which the session was never a branch.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::journal_rows::approval_rows;
use crate::journal_rows::running::running_turn;
use crate::lease::claim::Claim;
use crate::rows::turn_parents::parent_of;
use crate::sessions::moved;
use crate::sessions::pointers::{self, unknown_session};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::names_no_session;
use turn::stale_head::pointer_move::{Found, PointerMove};

/// The turns of other sessions at which the session has pointed: where it was forked, and what is before.
pub(crate) const BORROWED: &str =
    "SELECT t.id FROM session_history h CROSS JOIN turns t ON t.id = h.thread_id
     WHERE h.session_label = ?1 AND t.session_label <> ?1";
pub(crate) const IS_OWN: &str = "SELECT 1 FROM turns WHERE id = ?1 AND session_label = ?2";
const ABOVE: &str = "SELECT parent_turn_id, depth FROM turns WHERE id = ?1";

/// Points the session at the turn. Nothing is written where it points there already.
///
/// # Errors
/// `ledger_moved`; `unknown_session`; `unknown_turn` for one that has not ended; those of [`PointerMove::decide`].
pub(crate) fn move_session(
    connection: &Connection,
    wanted: &PointerMove<'_>,
    claim: &Claim,
    now: i64,
) -> Stored<()> {
    moved::refuse(connection)?;
    let PointerMove { label, turn_id, .. } = *wanted;
    let head = match pointers::head(connection, label)? {
        Some(head) if !names_no_session(label) => head,
        _ => return Err(unknown_session(label)),
    };
    let depth = parent_of(connection, turn_id)?.depth;
    let found = Found {
        head: head.as_deref(),
        in_tree: is_in_tree(connection, label, (turn_id, depth))?,
        runs: running_turn(connection, claim, label)?.is_some(),
        parked: approval_rows::parked_turn(connection, label)?.is_some(),
    };
    if wanted.decide(found)? {
        pointers::move_pointer(connection, label, turn_id, now)?;
    }
    Ok(())
}

/// Whether the turn is the session's own, or an ancestor of a turn of another session at which the session has pointed.
fn is_in_tree(connection: &Connection, label: &str, (turn_id, depth): (&str, i64)) -> Stored<bool> {
    let doing = format_args!("read the tree of session `{label}`");
    if sql::exists(connection, IS_OWN, (turn_id, label), doing)? {
        return Ok(true);
    }
    let mut seen = HashSet::new();
    for borrowed in sql::all::<String>(connection, BORROWED, (label,), doing)? {
        let mut next = Some(borrowed);
        while let Some(id) = next.take().filter(|id| seen.insert(id.clone())) {
            if id == turn_id {
                return Ok(true);
            }
            let above: (Option<String>, i64) = sql::one(connection, ABOVE, (&id,), doing)?;
            next = above.0.filter(|_| above.1 > depth);
        }
    }
    Ok(false)
}
