//! The rows of `approvals`: calls that wait for a decision, and the decisions.
//!
//! `broker::approvals` decides who may. A decision must never be made twice, nor be changed.

use broker::approvals::{INTERRUPTED, decide as decided};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalName, ApprovalStatus, Page, Unparked,
};

/// The approvals of the turn `$1`, oldest first.
pub(crate) const OF_TURN: &str = "select id, status, reason, decided_at, result, body from @approvals where turn_id = $1 order by id";
const SELECT: &str = "select id, status, reason, decided_at, result, body from @approvals";
const READING: &str = "read the approvals";

/// The approval of a row.
pub(crate) fn stored(row: &Row) -> Stored<Approval> {
    let id: &str = get(row, "id")?;
    let altered = || damaged(format_args!("approval `{id}` is not as it was written"));
    let approval: Approval = serde_json::from_str(get(row, "body")?).map_err(|_| altered())?;
    let status: &str = get(row, "status")?;
    let all = [
        ApprovalStatus::Pending,
        ApprovalStatus::Approved,
        ApprovalStatus::Denied,
        ApprovalStatus::Expired,
        ApprovalStatus::Provided,
        ApprovalStatus::Cancelled,
    ];
    Ok(Approval {
        status: all.into_iter().find(|it| it.as_str() == status).ok_or_else(altered)?,
        reason: get(row, "reason")?,
        decided_at: get(row, "decided_at")?,
        result_json: get(row, "result")?,
        ..approval
    })
}

pub(crate) fn body(approval: &Approval) -> Stored<String> {
    serde_json::to_string(approval).map_err(|_| damaged("an approval has no JSON"))
}

/// An approval by its id, as it is at `now`.
pub(crate) async fn one(server: &Server, id: &str, now: i64) -> Stored<Option<Approval>> {
    let text = format!("{SELECT} where id = $1");
    let row = server.row(READING, &text, &[(&id, Type::TEXT)]).await?;
    Ok(row.as_ref().map(stored).transpose()?.map(|approval| approval.at(now)))
}

/// A page of the approvals that match a filter, oldest first, as they are at `now`.
pub(crate) async fn matching(
    server: &Server,
    filter: &ApprovalFilter,
    now: i64,
) -> Stored<Page<Approval>> {
    // One that is overdue is stored as pending, and has expired.
    let text = format!(
        "{SELECT} where id > $1 and ($2::text is null or run_id = $2) and ($3::text is null or session_label = $3)
           and ($4::text is null or $4 = case when status = 'pending' and expires_at <= $5 then 'expired' else status end)
         order by id limit $6"
    );
    let after = filter.after.as_deref().unwrap_or_default();
    let status = filter.status.map(ApprovalStatus::as_str);
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 6] = [
        (&after, Type::TEXT),
        (&filter.run_id, Type::TEXT),
        (&filter.session, Type::TEXT),
        (&status, Type::TEXT),
        (&now, Type::INT8),
        (&limit, Type::INT8),
    ];
    let rows = server.rows(READING, &text, &params).await?;
    let found: Vec<Approval> = rows.iter().map(stored).collect::<Stored<_>>()?;
    let found = found.into_iter().map(|it| (it.id.clone(), it.at(now)));
    Ok(Page::cut(found.collect(), filter.limit))
}

/// Decides about an approval, if nobody has.
///
/// # Errors
/// `unknown_approval`, `already_decided`.
pub(crate) async fn decide(
    transaction: &Transaction<'_>,
    decision: &ApprovalDecision,
) -> Result<Approval, Failure> {
    let (by, name) = match &decision.of {
        ApprovalName::Id(id) => ("id", id),
        ApprovalName::Call(id) => ("call_id", id),
    };
    let text = format!("{SELECT} where {by} = $1 for update");
    let row = transaction.row(&text, &[(name, Type::TEXT)]).await?;
    let found = row.as_ref().map(stored).transpose()?;
    if let Some(approval) = &found
        && transaction.has_committed().await?
    {
        return Ok(approval.clone());
    }
    let approval = decided(found, decision, transaction.clock.now_ms())?;
    let write = "update @approvals set status = $2, reason = $3, decided_at = $4, result = $5, body = $6 where id = $1";
    let (status, body) = (approval.status.as_str(), body(&approval)?);
    let params: [Param<'_>; 6] = [
        (&approval.id, Type::TEXT),
        (&status, Type::TEXT),
        (&approval.reason, Type::TEXT),
        (&approval.decided_at, Type::INT8),
        (&approval.result_json, Type::TEXT),
        (&body, Type::TEXT),
    ];
    transaction.exec(write, &params).await?;
    Ok(approval)
}

/// Ends the approvals of a turn that ends: nobody can decide about them any more. A message that interrupts is the decision of its
/// sender.
pub(crate) async fn cancel(transaction: &Transaction<'_>, turn_id: &str) -> Result<(), Failure> {
    let text = "update @approvals a set decided_at = $2,
         status = case when a.expires_at <= $2 then 'expired' when i.is_interrupted then 'denied' else 'cancelled' end,
         reason = case when i.is_interrupted and coalesce(a.expires_at > $2, true) then $3 end
       from (select exists (select from @queue_items q join @turns t on t.id = $1 where q.session_label = t.session_label
         and q.status = 'pending' and q.mode = 'interrupt') as is_interrupted) i
       where a.turn_id = $1 and a.status = 'pending'";
    let now = transaction.clock.now_ms();
    let params: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&now, Type::INT8), (&INTERRUPTED, Type::TEXT)];
    transaction.exec(text, &params).await.map(drop)
}

/// The new approvals of a turn that parks, as a column of JSON.
pub(crate) fn requested(approvals: &[Approval]) -> Stored<Vec<String>> {
    approvals.iter().map(body).collect()
}

/// The statement's part that writes the approvals `bodies`, for each row of `of`.
pub(crate) fn ask(bodies: &str, of: &str) -> String {
    format!(
        "asked as (
           insert into @approvals (id, status, turn_id, run_id, session_label, call_id, expires_at, body)
           select j->>'id', 'pending', j->>'turnId', j->>'runId', j->>'sessionLabel', j->>'callId', (j->>'expiresAt')::bigint, b
           from {of}, unnest({bodies}) as b, lateral (select b::json) as p (j) on conflict do nothing)"
    )
}

/// The turn that the session is parked in.
pub(crate) async fn parked_turn(server: &Server, label: &str) -> Stored<Option<String>> {
    let text = "select parked from @sessions where label = $1";
    let row = server.row(READING, text, &[(&label, Type::TEXT)]).await?;
    Ok(row.map(|row| get(&row, "parked")).transpose()?.flatten())
}

/// Why a parked turn waits no longer; `Err` has the time until which it waits.
pub(crate) async fn look(
    server: &Server,
    turn_id: &str,
    waits_for: &[String],
    now: i64,
) -> Stored<Result<Unparked, Option<i64>>> {
    let text = "select exists (select from @turns where id = $1 and status = 'streaming') as is_open,
         count(*) filter (where a.status = 'pending' and coalesce(a.expires_at > $3, true)) as waiting,
         count(*) filter (where a.status <> 'pending' or a.expires_at <= $3) as decided, min(a.expires_at) as expires_at
       from @approvals a where a.turn_id = $1 and a.id = any($2)";
    let params: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&waits_for, Type::TEXT_ARRAY), (&now, Type::INT8)];
    let Some(row) = server.row(READING, text, &params).await? else {
        return Ok(Ok(Unparked::Ended));
    };
    if !get::<bool>(&row, "is_open")? {
        return Ok(Ok(Unparked::Ended));
    }
    let [waiting, decided]: [i64; 2] = [get(&row, "waiting")?, get(&row, "decided")?];
    if waiting == 0 || decided > 0 {
        return Ok(Ok(Unparked::Decided));
    }
    Ok(Err(get(&row, "expires_at")?))
}
