//! The outbox: deliveries are claimed, acknowledged, tried again and parked, each change in one statement or transaction.
//!
//! `broker::outbox` decides what becomes of a failure. A claim must never be taken from a process that may be alive.

use broker::outbox::end_claim;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::queue::transaction::Transaction;
use crate::rows::body::storable;
use crate::rows::turn_read::get;
use model::{ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStatus, StoredDelivery};

const COLUMNS: &str = "turn_id, session_label, target_json, status, tries, failures, not_before, error, created_at, delivered_at, epoch";
const OF_TURN: &str = "where turn_id = $1 for update";

fn select(condition: &str) -> String {
    format!("select {COLUMNS} from @deliveries {condition}")
}

fn stored(row: &Row) -> Stored<StoredDelivery> {
    let count = |name: &str| Ok(u32::try_from(get::<i32>(row, name)?).unwrap_or(0));
    Ok(StoredDelivery {
        turn_id: get(row, "turn_id")?,
        session_label: get(row, "session_label")?,
        target: get(row, "target_json")?,
        status: DeliveryStatus::of_name(get(row, "status")?)
            .ok_or_else(|| damaged("a delivery has no status"))?,
        tries: count("tries")?,
        failures: count("failures")?,
        not_before: get(row, "not_before")?,
        error: get(row, "error")?,
        created_at: get(row, "created_at")?,
        delivered_at: get(row, "delivered_at")?,
        epoch: get(row, "epoch")?,
    })
}

/// The oldest delivery that waits, of each session, if no living process has it: the others of a session follow it.
const OLDEST: &str = "with recursive labels as (
     (select min(session_label) as label from @deliveries where status = 'pending')
     union all
     select (select min(session_label) from @deliveries where session_label > l.label and status = 'pending')
     from labels l where l.label is not null)
   select d.turn_id, d.not_before from labels l cross join lateral (
     select turn_id, not_before, owner, expires_at from @deliveries
     where session_label = l.label and status = 'pending' order by n limit 1) d
   where d.owner is null or d.expires_at <= @now_ms()";

/// Claims deliveries for this process. Nothing is written while there is nothing to claim.
pub(crate) async fn claim(server: &Server, most: usize, now: i64) -> Stored<ClaimedDeliveries> {
    let rows = server.rows("read the outbox", OLDEST, &[]).await?;
    let (mut ids, mut next_at): (Vec<String>, Option<i64>) = Default::default();
    for row in &rows {
        let at: i64 = get(row, "not_before")?;
        if at > now {
            next_at = Some(next_at.map_or(at, |next| next.min(at)));
        } else if ids.len() < most {
            ids.push(get(row, "turn_id")?);
        }
    }
    let mut deliveries = Vec::new();
    if !ids.is_empty() {
        // One that another process has claimed meanwhile is left to it.
        let text = format!(
            "with free as (
               select turn_id from @deliveries where turn_id = any($1) and status = 'pending'
                 and (owner is null or expires_at <= @now_ms()) for update skip locked)
             update @deliveries d set tries = tries + 1, epoch = epoch + 1, owner = $2, expires_at = @now_ms() + $3
             from free f where d.turn_id = f.turn_id returning {}",
            COLUMNS.replace("turn_id,", "d.turn_id,")
        );
        let params: [Param<'_>; 3] =
            [(&ids, Type::TEXT_ARRAY), (&server.owner, Type::TEXT), (&server.lease_ms, Type::INT8)];
        let rows = server.rows("claim deliveries", &text, &params).await?;
        deliveries = rows.iter().map(stored).collect::<Stored<Vec<_>>>()?;
        deliveries.sort_by_key(|it| ids.iter().position(|id| *id == it.turn_id));
    }
    let renew_ms = u64::try_from(server.lease_ms / 3).unwrap_or_default().max(1);
    Ok(ClaimedDeliveries { deliveries, next_at, renew_ms })
}

/// Renews claims of this process.
pub(crate) async fn renew(server: &Server, claims: &[(String, i64)]) -> Stored<()> {
    let (ids, epochs): (Vec<&str>, Vec<i64>) =
        claims.iter().map(|(id, epoch)| (id.as_str(), *epoch)).unzip();
    let text = "update @deliveries d set expires_at = @now_ms() + $3 from unnest($1::text[], $2::int8[]) as c (id, epoch)
       where d.turn_id = c.id and d.epoch = c.epoch and d.owner = $4";
    let params: [Param<'_>; 4] = [
        (&ids, Type::TEXT_ARRAY),
        (&epochs, Type::INT8_ARRAY),
        (&server.lease_ms, Type::INT8),
        (&server.owner, Type::TEXT),
    ];
    server.rows("renew claims", text, &params).await.map(drop)
}

async fn one(
    transaction: &Transaction<'_>,
    turn_id: &str,
) -> Result<Option<StoredDelivery>, Failure> {
    let row = transaction.row(&select(OF_TURN), &[(&turn_id, Type::TEXT)]).await?;
    Ok(row.as_ref().map(stored).transpose()?)
}

/// Writes what became of a delivery. Nobody has it then.
async fn change(transaction: &Transaction<'_>, to: &StoredDelivery) -> Result<(), Failure> {
    let text = "update @deliveries set status = $2, failures = $3, not_before = $4, error = $5, delivered_at = $6, owner = null
       where turn_id = $1";
    let status = to.status.as_str();
    let failures = i32::try_from(to.failures).unwrap_or(i32::MAX);
    let error = to.error.as_deref().map(storable);
    let params: [Param<'_>; 6] = [
        (&to.turn_id, Type::TEXT),
        (&status, Type::TEXT),
        (&failures, Type::INT4),
        (&to.not_before, Type::INT8),
        (&error, Type::TEXT),
        (&to.delivered_at, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}

/// Ends a claim. `None` where it has ended before.
pub(crate) async fn end(
    transaction: &Transaction<'_>,
    (turn_id, epoch): (&str, i64),
    outcome: &DeliveryOutcome,
) -> Result<Option<StoredDelivery>, Failure> {
    let now = transaction.clock.now_ms();
    let Some(mut stored) = one(transaction, turn_id).await? else { return Ok(None) };
    if stored.epoch != epoch {
        return Ok(None);
    }
    if stored.status != DeliveryStatus::Pending {
        // After a lost answer, the first try has ended it.
        return Ok(transaction.again.then_some(stored));
    }
    end_claim(&mut stored, outcome, now);
    change(transaction, &stored).await?;
    Ok(Some(stored))
}

/// The host has passed the answer on itself. A parked one is settled by it, too.
pub(crate) async fn acknowledge(server: &Server, turn_id: &str, now: i64) -> Stored<bool> {
    let text = "update @deliveries set status = 'delivered', delivered_at = $2, owner = null
       where turn_id = $1 and status <> 'delivered' returning n";
    let of: [Param<'_>; 2] = [(&turn_id, Type::TEXT), (&now, Type::INT8)];
    Ok(!server.once("acknowledge a delivery", text, &of).await?.is_empty())
}

/// A parked delivery waits again, with all its tries.
pub(crate) async fn hand_out_again(server: &Server, turn_id: &str, now: i64) -> Stored<bool> {
    let text = "update @deliveries set status = 'pending', failures = 0, not_before = $2
       where turn_id = $1 and status = 'parked' returning n";
    let of: [Param<'_>; 2] = [(&turn_id, Type::TEXT), (&now, Type::INT8)];
    Ok(!server.once("hand a delivery out again", text, &of).await?.is_empty())
}

/// The deliveries of a filter.
pub(crate) async fn list(server: &Server, filter: &DeliveryFilter) -> Stored<Vec<StoredDelivery>> {
    let text = select(
        "where status = $1 and ($2::text is null or session_label = $2)
           and ($3::text is null or n > (select n from @deliveries where turn_id = $3)) order by n limit $4",
    );
    let (status, limit) = (filter.status.as_str(), i64::from(filter.limit));
    let params: [Param<'_>; 4] = [
        (&status, Type::TEXT),
        (&filter.session_label, Type::TEXT),
        (&filter.after, Type::TEXT),
        (&limit, Type::INT8),
    ];
    server.rows("list the deliveries", &text, &params).await?.iter().map(stored).collect()
}
