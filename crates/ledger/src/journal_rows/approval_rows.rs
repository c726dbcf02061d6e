//! The rows of `approvals`: calls that wait for a decision, and the decisions.
//!
//! A decision is one compare-and-set of a row. Export and import carry those of ended turns; salvage leaves them out, because the row of
//! an ended turn names what was approved. A decision must never be made twice, nor be changed.

use std::sync::LazyLock;

use broker::approvals::{self, INTERRUPTED};
use rusqlite::{Connection, params};
use serde_json::value::RawValue;

use crate::rows::json::json;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalKind, ApprovalName, ApprovalStatus, Page,
    Parking,
};

/// A row of `approvals`.
struct ApprovalColumns<'r> {
    id: &'r str,
    kind: &'r str,
    status: &'r str,
    turn_id: &'r str,
    run_id: &'r str,
    session_label: &'r str,
    call_id: &'r str,
    tool_call_id: &'r str,
    message_id: &'r str,
    tool_name: &'r str,
    params_json: &'r str,
    params_hash: &'r str,
    requested_params_json: Option<&'r str>,
    question: Option<&'r str>,
    decided_by: Option<&'r str>,
    reason: Option<&'r str>,
    created_at: i64,
    expires_at: Option<i64>,
    decided_at: Option<i64>,
    result_json: Option<&'r str>,
    parked: bool,
}

columns!(for<'r> ApprovalColumns<'r> {
    id,
    kind,
    status,
    turn_id,
    run_id,
    session_label,
    call_id,
    tool_call_id,
    message_id,
    tool_name,
    params_json,
    params_hash,
    requested_params_json,
    question,
    decided_by,
    reason,
    created_at,
    expires_at,
    decided_at,
    result_json,
    parked,
});

static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<ApprovalColumns<'_>>("approvals"));
static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM approvals", list::<ApprovalColumns<'_>>()));
pub(crate) static OF_TURN: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE turn_id = ?1 ORDER BY id", *SELECT));
pub(crate) static OF_RUN: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE run_id = ?3 AND {PAGE}", *SELECT));
pub(crate) static OF_SESSION: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE session_label = ?3 AND {PAGE}", *SELECT));
pub(crate) static PENDING: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE status = 'pending' AND {PAGE}", *SELECT));
pub(crate) static ALL: LazyLock<String> = LazyLock::new(|| format!("{} WHERE {PAGE}", *SELECT));
pub(crate) static OF_ID: LazyLock<String> = LazyLock::new(|| format!("{} WHERE id = ?1", *SELECT));
pub(crate) static OF_CALL: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE call_id = ?1", *SELECT));
static DECIDE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "?2"),
        ("decided_by", "?3"),
        ("reason", "?4"),
        ("params_json", "?5"),
        ("params_hash", "?6"),
        ("requested_params_json", "?7"),
        ("result_json", "?8"),
        ("decided_at", "?9"),
    ]);
    format!("UPDATE approvals SET {change} WHERE id = ?1 AND status = 'pending'")
});
static PARK: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE approvals SET {} WHERE id = ?1", set(&[("parked", "1")])));
static UNPARK: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE approvals SET {} WHERE turn_id = ?1 AND parked = 1", set(&[("parked", "0")]))
});
static CANCEL: LazyLock<String> = LazyLock::new(|| {
    // A message that interrupts is the decision of its sender.
    let interrupted = "EXISTS (SELECT 1 FROM queue_items q WHERE q.session_label = approvals.session_label
         AND q.status IN ('pending', 'processing') AND q.status = 'pending' AND q.mode = 'interrupt')";
    let status = format!(
        "CASE WHEN expires_at <= ?2 THEN 'expired' WHEN {interrupted} THEN 'denied' ELSE 'cancelled' END"
    );
    let reason =
        format!("CASE WHEN expires_at <= ?2 THEN NULL WHEN {interrupted} THEN '{INTERRUPTED}' END");
    let change = set(&[("status", &*status), ("reason", &*reason), ("decided_at", "?2")]);
    format!("UPDATE approvals SET {change} WHERE turn_id = ?1 AND status = 'pending'")
});
pub(crate) const PARKED: &str = "SELECT turn_id FROM approvals INDEXED BY approvals_parked
   WHERE parked = 1 AND session_label = ?1 LIMIT 1";

/// Those after an approval, as many as fit.
const PAGE: &str = "id > ?1 ORDER BY id LIMIT ?2";

const READING: &str = "read the approvals";
const WRITING: &str = "write an approval";

fn read(fields: &mut Fields<'_>) -> Stored<Approval> {
    let row: ApprovalColumns<'_> = fields.next()?;
    let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
    let params: Option<Box<RawValue>> = json(Some(row.params_json), row.id)?;
    Ok(Approval {
        id: row.id.to_owned(),
        kind: match row.kind {
            "result" => ApprovalKind::Result,
            _ => ApprovalKind::Approval,
        },
        status: match row.status {
            "pending" => ApprovalStatus::Pending,
            "approved" => ApprovalStatus::Approved,
            "denied" => ApprovalStatus::Denied,
            "expired" => ApprovalStatus::Expired,
            "provided" => ApprovalStatus::Provided,
            "cancelled" => ApprovalStatus::Cancelled,
            _ => return Err(damaged(&format!("approval `{}` has no status", row.id))),
        },
        turn_id: row.turn_id.to_owned(),
        run_id: row.run_id.to_owned(),
        session_label: row.session_label.to_owned(),
        call_id: row.call_id.to_owned(),
        tool_call_id: row.tool_call_id.to_owned(),
        message_id: row.message_id.to_owned(),
        tool_name: row.tool_name.to_owned(),
        params: params.ok_or_else(|| damaged("an approval has no arguments"))?,
        params_hash: row.params_hash.to_owned(),
        requested_params: json(row.requested_params_json, row.id)?,
        question: owned(row.question),
        decided_by: owned(row.decided_by),
        reason: owned(row.reason),
        created_at: row.created_at,
        expires_at: row.expires_at,
        decided_at: row.decided_at,
        result_json: owned(row.result_json),
    })
}

fn all(
    connection: &Connection,
    statement: &str,
    values: impl rusqlite::Params,
) -> Stored<Vec<Approval>> {
    sql::map(connection, statement, values, READING, read)
}

/// A page of the approvals that match a filter, oldest first, as they are at `now`.
pub(crate) fn matching(
    connection: &Connection,
    filter: &ApprovalFilter,
    now: i64,
) -> Stored<Page<Approval>> {
    let ApprovalFilter { session, run_id, status, after, limit } = filter;
    let mut last = after.clone().unwrap_or_default();
    let (count, mut found) = (limit.and_one(), Vec::new());
    loop {
        let read = match (run_id, session, status) {
            (Some(run), _, _) => all(connection, &OF_RUN, (&last, count, run))?,
            (None, Some(label), _) => all(connection, &OF_SESSION, (&last, count, label))?,
            (None, None, Some(ApprovalStatus::Pending)) => {
                all(connection, &PENDING, (&last, count))?
            }
            (None, None, _) => all(connection, &ALL, (&last, count))?,
        };
        let is_last = read.len() <= limit.items();
        if let Some(approval) = read.last() {
            last.clone_from(&approval.id);
        }
        let fitting = read.into_iter().map(|approval| approval.at(now)).filter(|it| {
            session.as_ref().is_none_or(|label| *label == it.session_label)
                && status.is_none_or(|status| status == it.status)
        });
        found.extend(fitting.map(|approval| (approval.id.clone(), approval)));
        if is_last || found.len() > limit.items() {
            return Ok(Page::cut(found, *limit));
        }
    }
}

/// An approval by its id, as it is at `now`.
pub(crate) fn one(connection: &Connection, id: &str, now: i64) -> Stored<Option<Approval>> {
    let found = sql::first(connection, &OF_ID, (id,), READING, read)?;
    Ok(found.map(|approval| approval.at(now)))
}

/// The approvals of a turn as they are stored, oldest first.
pub(crate) fn of_turn(connection: &Connection, turn_id: &str) -> Stored<Vec<Approval>> {
    all(connection, &OF_TURN, (turn_id,))
}

/// Writes an approval of a turn that has ended: nobody can decide about it any more.
pub(crate) fn restore(connection: &Connection, approval: &Approval) -> Stored<()> {
    let mut row = row(approval, false);
    if approval.status == ApprovalStatus::Pending {
        row.status = ApprovalStatus::Cancelled.as_str();
    }
    sql::insert(connection, &ADD, &row, WRITING)
}

fn row(approval: &Approval, parked: bool) -> ApprovalColumns<'_> {
    ApprovalColumns {
        id: &approval.id,
        kind: approval.kind.as_str(),
        status: approval.status.as_str(),
        turn_id: &approval.turn_id,
        run_id: &approval.run_id,
        session_label: &approval.session_label,
        call_id: &approval.call_id,
        tool_call_id: &approval.tool_call_id,
        message_id: &approval.message_id,
        tool_name: &approval.tool_name,
        params_json: approval.params.get(),
        params_hash: &approval.params_hash,
        requested_params_json: approval.requested_params.as_deref().map(RawValue::get),
        question: approval.question.as_deref(),
        decided_by: approval.decided_by.as_deref(),
        reason: approval.reason.as_deref(),
        created_at: approval.created_at,
        expires_at: approval.expires_at,
        decided_at: approval.decided_at,
        result_json: approval.result_json.as_deref(),
        parked,
    }
}

/// Writes the approvals of a turn that parks.
pub(crate) fn park(connection: &Connection, parking: &Parking) -> Stored<()> {
    for approval in &parking.requested {
        sql::insert(connection, &ADD, &row(approval, true), WRITING)?;
    }
    for id in &parking.waits_for {
        sql::exec(connection, &PARK, (id,), WRITING)?;
    }
    Ok(())
}

/// The turn of these approvals runs again, or ends.
pub(crate) fn unpark(connection: &Connection, turn_id: &str) -> Stored<()> {
    sql::exec(connection, &UNPARK, (turn_id,), WRITING).map(drop)
}

/// The turn that the session is parked in.
pub(crate) fn parked_turn(connection: &Connection, label: &str) -> Stored<Option<String>> {
    sql::optional(connection, PARKED, (label,), READING)
}

/// Whether the turn has given up its lease to wait for a decision: its status is `awaiting_approval`.
pub(crate) fn is_parked(connection: &Connection, label: &str, turn_id: &str) -> Stored<bool> {
    Ok(parked_turn(connection, label)?.as_deref() == Some(turn_id))
}

/// Ends the approvals of a turn that ends: nobody can decide about them any more.
pub(crate) fn cancel(connection: &Connection, turn_id: &str, now: i64) -> Stored<()> {
    sql::exec(connection, &CANCEL, (turn_id, now), WRITING).map(drop)
}

/// Decides about an approval, if nobody has.
///
/// # Errors
/// `unknown_approval`, `already_decided`.
pub(crate) fn decide(
    connection: &Connection,
    decision: &ApprovalDecision,
    now: i64,
) -> Stored<Approval> {
    let found = match &decision.of {
        ApprovalName::Id(id) => sql::first(connection, &OF_ID, (id,), READING, read)?,
        ApprovalName::Call(id) => sql::first(connection, &OF_CALL, (id,), READING, read)?,
    };
    let approval = approvals::decide(found, decision, now)?;
    let requested = approval.requested_params.as_ref().map(|params| params.get());
    let row = params![
        approval.id,
        approval.status.as_str(),
        approval.decided_by,
        approval.reason,
        approval.params.get(),
        approval.params_hash,
        requested,
        approval.result_json,
        approval.decided_at,
    ];
    sql::exec(connection, &DECIDE, row, WRITING)?;
    Ok(approval)
}
