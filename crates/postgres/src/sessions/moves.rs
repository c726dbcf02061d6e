//! A host's move of a session's pointer to another turn of the session's own tree.
//!
//! It must never move the pointer under a turn that runs or waits, nor to a turn of which the session was never a branch.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::journal::pointer::{unknown_session, unknown_turn};
use crate::reading::sessions::{COLUMNS, session_row};
use crate::rows::turn_read::get;
use model::{SessionRow, names_no_session};
use turn::stale_head::pointer_move::{Found, PointerMove};

/// Whether a turn of the session runs.
const RUNS: &str = "(running is not null and owner is not null and expires_at > @now_ms())";

/// Whether the turn is the session's own, or an ancestor of a turn of another session at which the session has pointed: where
/// it was forked. No row for a turn that has not ended.
const IN_TREE: &str = "with recursive wanted as (
       select id, depth, session_label from @turns where id = $2 and status <> 'streaming'),
     above as (
       select t.id, t.parent_turn_id from @session_moves m join @turns t on t.id = m.thread_id
       where m.session_label = $1 and t.session_label <> $1
       union
       select p.id, p.parent_turn_id from above a join @turns p on p.id = a.parent_turn_id
       where p.depth >= (select depth from wanted))
     select session_label = $1 or exists (select from above where above.id = $2) as in_tree from wanted";

/// Points the session at the turn. Nothing is written where it points there already.
///
/// # Errors
/// `ledger_moved`; `unknown_session`; `unknown_turn` for one that has not ended; those of [`PointerMove::decide`].
pub(crate) async fn move_session(server: &Server, wanted: &PointerMove<'_>) -> Stored<SessionRow> {
    let PointerMove { label, turn_id, .. } = *wanted;
    if names_no_session(label) {
        return Err(unknown_session(label));
    }
    let state = format!(
        "select {COLUMNS}, parked is not null as waits, {RUNS} as runs from @sessions where label = $1"
    );
    let update = server.sql(&format!(
        "with moved as (
           update @sessions set head = $2, updated_at = @now_ms(), status = 'active', opening = false
           where label = $1 and head is not distinct from $3 and parked is null and not {RUNS}
             and @is_open() returning {COLUMNS}),
         logged as (
           insert into @session_moves (session_label, thread_id, changed_at)
           select label, head, greatest(updated_at, (select max(changed_at) from @session_moves where session_label = $1))
           from moved)
         select {COLUMNS} from moved"
    ));
    // The log is in the order of its times, and a turn that moved the session has the time of another machine's clock.
    loop {
        let row = server.row("read a session", &state, &[(&label, Type::TEXT)]).await?;
        let row = row.ok_or_else(|| unknown_session(label))?;
        let of: [Param<'_>; 2] = [(&label, Type::TEXT), (&turn_id, Type::TEXT)];
        let turn = server.row("read the tree of a session", IN_TREE, &of).await?;
        let turn = turn.ok_or_else(|| unknown_turn(turn_id))?;
        let head: Option<&str> = get(&row, "head")?;
        let found = Found {
            head,
            in_tree: get(&turn, "in_tree")?,
            runs: get(&row, "runs")?,
            parked: get(&row, "waits")?,
        };
        if !wanted.decide(found)? {
            return session_row(&row);
        }
        let params: [Param<'_>; 3] = [of[0].clone(), of[1].clone(), (&head, Type::TEXT)];
        let moved = server.run("move a session", async |client, _| {
            Ok(client.query_typed(&update, &params).await?)
        });
        // Without a row somebody was faster: the session is read again.
        if let Some(row) = moved.await?.first() {
            return session_row(row);
        }
    }
}
