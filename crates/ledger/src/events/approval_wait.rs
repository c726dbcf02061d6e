//! The wait of a parked turn for a decision, which any process may make: the file is polled while a turn waits.
//!
//! It must never decide, and never poll while no turn is parked.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::events::poller::Poller;
use crate::journal_rows::{approval_rows, run_rows};
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use base::clock::Clock;
use model::Unparked;

/// The longest sleep until the clock is read again: it may be set while an approval waits.
const LONGEST: Duration = Duration::from_secs(60);

/// What a parked turn waits for.
enum Waiting {
    /// It waits no longer.
    Over(Unparked),
    /// It waits, until this time in Unix milliseconds if nobody decides.
    Until(Option<i64>),
}

/// Waits until one of the approvals is decided or has expired, or the turn has ended.
pub(crate) async fn unparked(
    (readers, poller, clock): (&Arc<Readers>, &Arc<Poller>, &Clock),
    turn_id: String,
    waits_for: Vec<String>,
) -> Stored<Unparked> {
    // It starts before the read, so that no change is missed.
    let mut follower = poller.follow();
    let waits_for = Arc::new(waits_for);
    loop {
        let (turn, ids, now) = (turn_id.clone(), Arc::clone(&waits_for), clock.now_ms());
        let look = move |connection: &Connection| look(connection, &turn, &ids, now);
        match readers.run(|connection| readers::snapshot(connection, look)).await? {
            Waiting::Over(why) => return Ok(why),
            Waiting::Until(None) => follower.changed().await,
            Waiting::Until(Some(at)) => {
                let left = u64::try_from(at.saturating_sub(clock.now_ms())).unwrap_or_default();
                let sleep = Duration::from_millis(left).min(LONGEST);
                let _ = tokio::time::timeout(sleep, follower.changed()).await;
            }
        }
    }
}

fn look(connection: &Connection, turn_id: &str, waits_for: &[String], now: i64) -> Stored<Waiting> {
    if run_rows::of_turn(connection, turn_id)?.is_none_or(|run| run.has_ended()) {
        return Ok(Waiting::Over(Unparked::Ended));
    }
    let approvals = approval_rows::of_turn(connection, turn_id)?;
    let mut waiting = approvals.iter().filter(|approval| waits_for.contains(&approval.id));
    if waiting.clone().any(|approval| !approval.is_pending(now)) {
        return Ok(Waiting::Over(Unparked::Decided));
    }
    let first = waiting.clone().filter_map(|approval| approval.expires_at).min();
    Ok(match waiting.next() {
        Some(_) => Waiting::Until(first),
        None => Waiting::Over(Unparked::Decided),
    })
}
