//! The outbox: deliveries are claimed, acknowledged, tried again and parked, each change in one transaction.
//!
//! `broker::outbox` decides what becomes of a failure. A claim must never be taken from a process that may be alive.

use broker::outbox::end_claim;
use rusqlite::Connection;

use crate::lease::claim::Claim;
use crate::queue::delivery_rows::{
    self, NEXT_SESSION, NUMBER, OF_SESSION, OF_STATUS, OF_TURN, OLDEST, Row,
};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStatus, StoredDelivery};

/// What a claim would find: the ids of the turns, and when the next one may be claimed.
pub(crate) struct Claimable {
    pub(crate) turn_ids: Vec<String>,
    pub(crate) next_at: Option<i64>,
}

/// The deliveries that may be claimed now: of each session the oldest, so that a session's answers stay in their order.
pub(crate) fn claimable(connection: &Connection, claim: &Claim, most: usize) -> Stored<Claimable> {
    let now = claim.clock.now_ms();
    let mut found = Claimable { turn_ids: Vec::new(), next_at: None };
    let mut after = String::new();
    loop {
        let doing = "read the sessions with deliveries";
        let next: Option<String> = sql::one(connection, NEXT_SESSION, (&after,), doing)?;
        let Some(label) = next else { return Ok(found) };
        for Row { stored, is_claimed } in
            delivery_rows::read(connection, claim, &OLDEST, (&label,))?
        {
            if is_claimed {
                continue;
            }
            if stored.not_before > now {
                let at = stored.not_before;
                found.next_at = Some(found.next_at.map_or(at, |next| next.min(at)));
            } else if found.turn_ids.len() < most {
                found.turn_ids.push(stored.turn_id);
            }
        }
        after = label;
    }
}

/// Claims deliveries for this process.
pub(crate) fn take(
    connection: &Connection,
    claim: &Claim,
    most: usize,
) -> Stored<ClaimedDeliveries> {
    // Another process may have been first.
    let Claimable { turn_ids, next_at } = claimable(connection, claim, most)?;
    let mut deliveries = Vec::new();
    for turn_id in &turn_ids {
        delivery_rows::take(connection, claim, turn_id)?;
        deliveries.extend(one(connection, claim, turn_id)?.map(|row| row.stored));
    }
    Ok(ClaimedDeliveries { deliveries, next_at, renew_ms: renew_ms(claim) })
}

/// The time after which a claim is renewed: it then ends after the next renewal, too.
pub(crate) fn renew_ms(claim: &Claim) -> u64 {
    u64::try_from(claim.lease_ms / 3).unwrap_or_default().max(1)
}

fn one(connection: &Connection, claim: &Claim, turn_id: &str) -> Stored<Option<Row>> {
    Ok(delivery_rows::read(connection, claim, &OF_TURN, (turn_id,))?.pop())
}

/// Renews claims of this process.
pub(crate) fn renew(
    connection: &Connection,
    claim: &Claim,
    claims: &[(String, i64)],
) -> Stored<()> {
    claims
        .iter()
        .try_for_each(|(turn_id, epoch)| delivery_rows::renew(connection, claim, (turn_id, *epoch)))
}

/// Ends a claim. `None` where it has ended before.
pub(crate) fn end(
    connection: &Connection,
    claim: &Claim,
    (turn_id, epoch): (&str, i64),
    outcome: &DeliveryOutcome,
) -> Stored<Option<StoredDelivery>> {
    let now = claim.clock.now_ms();
    let Some(Row { mut stored, .. }) = one(connection, claim, turn_id)? else { return Ok(None) };
    if stored.status != DeliveryStatus::Pending || stored.epoch != epoch {
        return Ok(None);
    }
    end_claim(&mut stored, outcome, now);
    delivery_rows::change(connection, &stored)?;
    Ok(Some(stored))
}

/// The host has passed the answer on itself. A parked one is settled by it, too.
pub(crate) fn acknowledge(connection: &Connection, claim: &Claim, turn_id: &str) -> Stored<bool> {
    let Some(Row { mut stored, .. }) = one(connection, claim, turn_id)? else { return Ok(false) };
    if stored.status == DeliveryStatus::Delivered {
        return Ok(false);
    }
    stored.status = DeliveryStatus::Delivered;
    stored.delivered_at = Some(claim.clock.now_ms());
    delivery_rows::change(connection, &stored)?;
    Ok(true)
}

/// A parked delivery waits again, with all its tries.
pub(crate) fn hand_out_again(
    connection: &Connection,
    claim: &Claim,
    turn_id: &str,
) -> Stored<bool> {
    let Some(Row { mut stored, .. }) = one(connection, claim, turn_id)? else { return Ok(false) };
    if stored.status != DeliveryStatus::Parked {
        return Ok(false);
    }
    stored.status = DeliveryStatus::Pending;
    stored.failures = 0;
    stored.not_before = claim.clock.now_ms();
    delivery_rows::change(connection, &stored)?;
    Ok(true)
}

/// The deliveries of a filter.
pub(crate) fn list(
    connection: &Connection,
    claim: &Claim,
    filter: &DeliveryFilter,
) -> Stored<Vec<StoredDelivery>> {
    let doing = "find a delivery";
    let after = match &filter.after {
        None => 0,
        Some(turn_id) => sql::optional(connection, NUMBER, (turn_id,), doing)?.unwrap_or(i64::MAX),
    };
    let (most, status) = (filter.limit, filter.status.as_str());
    let rows = match &filter.session_label {
        None => delivery_rows::read(connection, claim, &OF_STATUS, (after, most, status))?,
        Some(label) => {
            delivery_rows::read(connection, claim, &OF_SESSION, (after, most, status, label))?
        }
    };
    Ok(rows.into_iter().map(|row| row.stored).collect())
}
