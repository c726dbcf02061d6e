//! What the next step of a session depends on. It must never change a row.

use rusqlite::Connection;

use crate::journal_rows::{approval_rows, run_rows};
use crate::lease::claim::Claim;
use crate::queue::item_rows::{self, NEXT_SESSION, OF_RUNNING_TURN, UNNAMED, WAITING};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{ItemStatus, QueueLease, QueueView, SessionQueue, StoredItem};
use turn::lease::Holder;

pub(crate) const SUSPENDED: &str = "SELECT 1 FROM queue_suspensions WHERE session_label = ?1";

/// The queue of a session.
pub(crate) fn session(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    view: QueueView,
) -> Stored<SessionQueue> {
    let waiting = match view {
        QueueView::Whole => waiting_items(connection, label)?,
        QueueView::OfRunningTurn => item_rows::read(connection, &OF_RUNNING_TURN, (label,))?,
    };
    let open_turn = waiting.iter().find(|it| it.status == ItemStatus::Processing);
    let open_turn = open_turn.and_then(|it| it.turn_id.clone());
    let pending: Vec<StoredItem> =
        waiting.into_iter().filter(|it| it.status == ItemStatus::Pending).collect();
    let lease = match claim.read(connection, label)? {
        // A turn runs under it, or the last one has left it.
        Some(lease)
            if matches!(lease.holder, Holder::Own { .. })
                && (lease.is_live(claim.now()) || lease.continues(claim.held.idle(label))) =>
        {
            QueueLease::Here
        }
        Some(lease)
            if matches!(lease.holder, Holder::Other { .. }) && lease.is_live(claim.now()) =>
        {
            match run_rows::open_under(connection, label, lease.epoch)? {
                Some(_) => QueueLease::RunsElsewhere,
                None => QueueLease::Elsewhere,
            }
        }
        Some(_) | None => QueueLease::Free,
    };
    let doing = format_args!("read the queue of session `{label}`");
    Ok(SessionQueue {
        dropped: item_rows::read(connection, &UNNAMED, (label,))?,
        is_suspended: sql::exists(connection, SUSPENDED, (label,), doing)?,
        parked_turn: approval_rows::parked_turn(connection, label)?,
        lease,
        open_turn,
        pending,
    })
}

/// The messages of a session that wait or are in a turn.
pub(crate) fn waiting_items(connection: &Connection, label: &str) -> Stored<Vec<StoredItem>> {
    item_rows::read(connection, &WAITING, (label,))
}

/// The sessions with messages that wait or are in a turn.
pub(crate) fn waiting_sessions(connection: &Connection) -> Stored<Vec<String>> {
    let mut labels = Vec::new();
    let mut after = String::new();
    loop {
        let doing = "read the sessions that wait";
        let next: Option<String> = sql::one(connection, NEXT_SESSION, (&after,), doing)?;
        let Some(label) = next else { return Ok(labels) };
        labels.push(label.clone());
        after = label;
    }
}
