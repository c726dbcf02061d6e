//! The rows of `dispatches`: the statements that read and change one. It must never decide a change.

use broker::agents::Inherited;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::Param;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{Dispatch, DispatchCancel, SpendingLimits};

/// A dispatch with what is only for the ledger.
pub(crate) struct StoredDispatch {
    pub(crate) dispatch: Dispatch,
    pub(crate) inherited: Inherited,
    /// The account in which its budget is reserved.
    pub(crate) parent_account: Option<String>,
}

/// That of `$1`, and nobody else changes it.
pub(crate) const OF_ID: &str = "id = $1 for update";
pub(crate) const READ: &str = "id = $1";
pub(crate) const OF_PARENT_TURN: &str = "parent_turn_id = $1 order by id";
pub(crate) const OF_PARENT: &str = "parent_session = $1 order by id desc limit 100";
pub(crate) const OF_SESSION: &str = "session_label = $1 order by id desc limit 100";
pub(crate) const ACTIVE_IN_SESSION: &str = "session_label = $1 and status = 'active' order by id";
pub(crate) const SPAWNED: &str = "session_label = $1 and is_new limit 1";
pub(crate) const CANCELLED: &str =
    "status = 'active' and cancelled is not null and $1 = '' order by id";
pub(crate) const OVERDUE: &str = "status = 'active' and deadline is not null and deadline <= $1::text::bigint order by id for update skip locked";
/// Whether a turn waits for a decision in the session `$1`, or in one that it waits for: those of its active spawns.
pub(crate) const PARKED: &str = "with recursive below (label) as (
     select $1 collate \"C\" union select d.session_label from below b join @dispatches d on d.parent_session = b.label
       where d.status = 'active' and d.kind = 'spawn')
   select from below b join @sessions s on s.label = b.label where s.parked is not null limit 1";
/// The turn at the top of the tree in which the turn `$1` is.
pub(crate) const ROOT: &str =
    "select d.root_turn_id from @queue_items q join @dispatches d on d.id = q.id
   where q.turn_id = $1 limit 1";

/// The turn at the top of the tree of the first of the tasks `$1` that is one.
pub(crate) const ROOT_OF_TASKS: &str =
    "select d.root_turn_id from unnest($1) with ordinality i (id, n) join @dispatches d on d.id = i.id
   order by i.n limit 1";

/// A statement that reads dispatches.
pub(crate) fn select(condition: &str) -> String {
    format!(
        "select id, body, cancelled, inherited, parent_account from @dispatches where {condition}"
    )
}

/// The dispatch of a row.
pub(crate) fn stored(row: &Row) -> Stored<StoredDispatch> {
    let id: &str = get(row, "id")?;
    let unknown = || damaged(format_args!("dispatch `{id}` is not as it was written"));
    let mut dispatch: Dispatch = serde_json::from_str(get(row, "body")?).map_err(|_| unknown())?;
    let cancelled: Option<&str> = get(row, "cancelled")?;
    dispatch.cancelled =
        cancelled.map(|name| DispatchCancel::of_name(name).ok_or_else(unknown)).transpose()?;
    Ok(StoredDispatch {
        dispatch,
        inherited: serde_json::from_str(get(row, "inherited")?).map_err(|_| unknown())?,
        parent_account: get(row, "parent_account")?,
    })
}

/// The dispatches of rows.
pub(crate) fn all(rows: &[Row]) -> Stored<Vec<Dispatch>> {
    rows.iter().map(|row| Ok(stored(row)?.dispatch)).collect()
}

/// The dispatches that a condition of one text finds.
pub(crate) async fn read(
    transaction: &Transaction<'_>,
    condition: &str,
    of: &str,
) -> Result<Vec<Dispatch>, Failure> {
    let rows = transaction.rows(&select(condition), &[(&of, Type::TEXT)]).await?;
    Ok(all(&rows)?)
}

/// The dispatch of that id, which nobody else changes.
pub(crate) async fn of_id(
    transaction: &Transaction<'_>,
    id: &str,
) -> Result<Option<StoredDispatch>, Failure> {
    let row = transaction.row(&select(OF_ID), &[(&id, Type::TEXT)]).await?;
    Ok(row.as_ref().map(stored).transpose()?)
}

/// The JSON of texts and numbers.
fn json(value: &impl serde::Serialize) -> Stored<String> {
    serde_json::to_string(value).map_err(|_| damaged("a dispatch has no JSON"))
}

/// Writes a new dispatch.
pub(crate) async fn add(
    transaction: &Transaction<'_>,
    new: &StoredDispatch,
) -> Result<(), Failure> {
    let text = "insert into @dispatches (id, kind, status, parent_session, parent_turn_id, root_turn_id, session_label, agent_id,
         is_new, deadline, max_tokens, max_nanos, parent_account, body, inherited, created_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    let StoredDispatch { dispatch, inherited, parent_account } = new;
    let (kind, status) = (dispatch.kind.as_str(), dispatch.status.as_str());
    let limits = SpendingLimits::of(dispatch.max_tokens, dispatch.max_cost);
    let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let (tokens, nanos) = (limits.tokens.map(signed), limits.nanos.map(signed));
    let (body, inherited) = (json(dispatch)?, json(inherited)?);
    let params: [Param<'_>; 16] = [
        (&dispatch.id, Type::TEXT),
        (&kind, Type::TEXT),
        (&status, Type::TEXT),
        (&dispatch.parent_session, Type::TEXT),
        (&dispatch.parent_turn_id, Type::TEXT),
        (&dispatch.root_turn_id, Type::TEXT),
        (&dispatch.session_label, Type::TEXT),
        (&dispatch.agent_id, Type::TEXT),
        (&dispatch.is_new, Type::BOOL),
        (&dispatch.deadline, Type::INT8),
        (&tokens, Type::INT8),
        (&nanos, Type::INT8),
        (parent_account, Type::TEXT),
        (&body, Type::TEXT),
        (&inherited, Type::TEXT),
        (&dispatch.created_at, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}

/// An active dispatch is cancelled. The first reason stays.
pub(crate) async fn cancel(
    transaction: &Transaction<'_>,
    id: &str,
    why: DispatchCancel,
) -> Result<(), Failure> {
    let text = "update @dispatches set cancelled = $2 where id = $1 and status = 'active' and cancelled is null";
    let why = why.as_str();
    transaction.exec(text, &[(&id, Type::TEXT), (&why, Type::TEXT)]).await.map(drop)
}

/// A dispatch has ended as `ended` is.
pub(crate) async fn end(transaction: &Transaction<'_>, ended: &Dispatch) -> Result<(), Failure> {
    let text = "update @dispatches set status = $2, ended_at = $3, body = $4 where id = $1 and status = 'active'";
    let (status, body) = (ended.status.as_str(), json(ended)?);
    let params: [Param<'_>; 4] = [
        (&ended.id, Type::TEXT),
        (&status, Type::TEXT),
        (&ended.ended_at, Type::INT8),
        (&body, Type::TEXT),
    ];
    transaction.exec(text, &params).await.map(drop)
}
