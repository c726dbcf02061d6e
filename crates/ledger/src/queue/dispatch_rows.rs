//! The rows of `dispatches`: their columns, and the statements that read and change one. It must never decide a change.

use std::sync::LazyLock;

use broker::agents::Inherited;
use rusqlite::{Connection, Params};

use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{Dispatch, DispatchCancel, DispatchKind, DispatchStatus, Route, SpendingLimits};

/// A dispatch with what is only for the ledger.
#[derive(Debug, Clone)]
pub(crate) struct StoredDispatch {
    pub(crate) dispatch: Dispatch,
    pub(crate) inherited: Inherited,
    /// The account in which its budget is reserved.
    pub(crate) parent_account: Option<String>,
}

struct DispatchColumns {
    id: String,
    kind: String,
    status: String,
    parent_session: String,
    parent_turn_id: String,
    root_turn_id: String,
    session_label: String,
    agent_id: String,
    model: Option<String>,
    is_new: bool,
    depth: u32,
    hops: u32,
    is_detached: bool,
    cancelled: Option<String>,
    deadline: Option<i64>,
    turn_id: Option<String>,
    text: Option<String>,
    usage_json: Option<String>,
    cost: Option<f64>,
    result_item_id: Option<String>,
    channel: Option<String>,
    account: Option<String>,
    thread: Option<String>,
    principal: String,
    request_json: String,
    created_at: i64,
    ended_at: Option<i64>,
    max_tokens: Option<i64>,
    max_nanos: Option<i64>,
    parent_account: Option<String>,
}

columns!(DispatchColumns {
    id,
    kind,
    status,
    parent_session,
    parent_turn_id,
    root_turn_id,
    session_label,
    agent_id,
    model,
    is_new,
    depth,
    hops,
    is_detached,
    cancelled,
    deadline,
    turn_id,
    text,
    usage_json,
    cost,
    result_item_id,
    channel,
    account,
    thread,
    principal,
    request_json,
    created_at,
    ended_at,
    max_tokens,
    max_nanos,
    parent_account,
});

fn dispatches_where(condition: &str) -> String {
    format!("SELECT {} FROM dispatches WHERE {condition}", list::<DispatchColumns>())
}

pub(crate) static OF_ID: LazyLock<String> = LazyLock::new(|| dispatches_where("id = ?1"));
pub(crate) static OF_PARENT_TURN: LazyLock<String> =
    LazyLock::new(|| dispatches_where("parent_turn_id = ?1 ORDER BY id"));
pub(crate) static OF_PARENT: LazyLock<String> =
    LazyLock::new(|| dispatches_where("parent_session = ?1 ORDER BY id DESC LIMIT 100"));
pub(crate) static OF_SESSION: LazyLock<String> =
    LazyLock::new(|| dispatches_where("session_label = ?1 ORDER BY id DESC LIMIT 100"));
pub(crate) static ACTIVE_IN_SESSION: LazyLock<String> =
    LazyLock::new(|| dispatches_where("session_label = ?1 AND status = 'active' ORDER BY id"));
pub(crate) static SPAWNED: LazyLock<String> =
    LazyLock::new(|| dispatches_where("session_label = ?1 AND is_new = 1 LIMIT 1"));
pub(crate) static CANCELLED: LazyLock<String> =
    LazyLock::new(|| dispatches_where("status = 'active' AND cancelled IS NOT NULL ORDER BY id"));
pub(crate) static OVERDUE: LazyLock<String> = LazyLock::new(|| {
    dispatches_where("status = 'active' AND deadline IS NOT NULL AND deadline <= ?1")
});
pub(crate) const HAS_OVERDUE: &str = "SELECT 1 FROM dispatches
     WHERE status = 'active' AND deadline IS NOT NULL AND deadline <= ?1 LIMIT 1";
pub(crate) const ACTIVE: &str =
    "SELECT count(*) FROM dispatches WHERE parent_session = ?1 AND status = 'active'";
pub(crate) const CHILDREN: &str = "SELECT count(*) FROM dispatches WHERE parent_turn_id = ?1";
/// The sessions that a session waits for are those of its active spawns.
pub(crate) const PARKED: &str =
    "WITH RECURSIVE below(label) AS (SELECT ?1 UNION SELECT d.session_label FROM below
       CROSS JOIN dispatches d INDEXED BY dispatches_active ON d.parent_session = below.label
       WHERE d.status = 'active' AND d.kind = 'spawn')
     SELECT 1 FROM below CROSS JOIN approvals a ON a.session_label = below.label AND a.parked = 1 LIMIT 1";

/// The turn at the top of the tree of a task.
pub(crate) const ROOT_OF_TASK: &str = "SELECT root_turn_id FROM dispatches WHERE id = ?1";
/// That of a turn.
pub(crate) const ROOT: &str =
    "SELECT d.root_turn_id FROM queue_items q CROSS JOIN dispatches d ON d.id = q.id
     WHERE q.turn_id = ?1 LIMIT 1";

static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<DispatchColumns>("dispatches"));

/// The dispatches that a statement of this module finds.
pub(crate) fn read(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Stored<Vec<Dispatch>> {
    let rows: Vec<DispatchColumns> = sql::all(connection, sql, params, "read the dispatches")?;
    rows.into_iter().map(|row| Ok(stored(row)?.dispatch)).collect()
}

/// The dispatch of that id.
pub(crate) fn of_id(connection: &Connection, id: &str) -> Stored<Option<StoredDispatch>> {
    let doing = format_args!("read dispatch `{id}`");
    let row: Option<DispatchColumns> = sql::optional(connection, &OF_ID, (id,), doing)?;
    row.map(stored).transpose()
}

/// Writes a new dispatch.
pub(crate) fn add(connection: &Connection, new: StoredDispatch) -> Stored<()> {
    let StoredDispatch { dispatch: new, inherited, parent_account } = new;
    let Inherited { route, principal, request } = inherited;
    let limits = SpendingLimits::of(new.max_tokens, new.max_cost);
    let usage_json = new.usage.and_then(|usage| serde_json::to_string(&usage).ok());
    let row = DispatchColumns {
        id: new.id,
        kind: new.kind.as_str().to_owned(),
        status: new.status.as_str().to_owned(),
        parent_session: new.parent_session,
        parent_turn_id: new.parent_turn_id,
        root_turn_id: new.root_turn_id,
        session_label: new.session_label,
        agent_id: new.agent_id,
        model: new.model,
        is_new: new.is_new,
        depth: new.depth,
        hops: new.hops,
        is_detached: new.is_detached,
        cancelled: new.cancelled.map(|why| why.as_str().to_owned()),
        deadline: new.deadline,
        turn_id: new.turn_id,
        text: new.text,
        usage_json,
        cost: new.cost,
        result_item_id: new.result_item_id,
        channel: route.channel,
        account: route.account,
        thread: route.thread,
        principal,
        request_json: request,
        created_at: new.created_at,
        ended_at: new.ended_at,
        max_tokens: limits.tokens.map(signed),
        max_nanos: limits.nanos.map(signed),
        parent_account,
    };
    sql::insert(connection, &ADD, &row, "write a dispatch")
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn stored(row: DispatchColumns) -> Stored<StoredDispatch> {
    let unknown = || damaged(&format!("dispatch `{}` is not as it was written", row.id));
    let cancelled =
        row.cancelled.as_deref().map(|name| DispatchCancel::of_name(name).ok_or_else(unknown));
    let usage =
        row.usage_json.as_deref().map(|json| serde_json::from_str(json).map_err(|_| unknown()));
    let unsigned = |amount: Option<i64>| amount.and_then(|it| u64::try_from(it).ok());
    let limits =
        SpendingLimits { tokens: unsigned(row.max_tokens), nanos: unsigned(row.max_nanos) };
    let dispatch = Dispatch {
        kind: DispatchKind::of_name(&row.kind).ok_or_else(unknown)?,
        status: DispatchStatus::of_name(&row.status).ok_or_else(unknown)?,
        cancelled: cancelled.transpose()?,
        usage: usage.transpose()?,
        id: row.id,
        parent_session: row.parent_session,
        parent_turn_id: row.parent_turn_id,
        root_turn_id: row.root_turn_id,
        session_label: row.session_label,
        agent_id: row.agent_id,
        model: row.model,
        is_new: row.is_new,
        depth: row.depth,
        hops: row.hops,
        is_detached: row.is_detached,
        deadline: row.deadline,
        turn_id: row.turn_id,
        text: row.text,
        cost: row.cost,
        result_item_id: row.result_item_id,
        created_at: row.created_at,
        ended_at: row.ended_at,
        max_tokens: limits.tokens,
        max_cost: limits.cost(),
    };
    let route = Route { channel: row.channel, account: row.account, thread: row.thread };
    let inherited = Inherited { route, principal: row.principal, request: row.request_json };
    Ok(StoredDispatch { dispatch, inherited, parent_account: row.parent_account })
}

static CANCEL: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("cancelled", "?2")]);
    format!(
        "UPDATE dispatches SET {change} WHERE id = ?1 AND status = 'active' AND cancelled IS NULL"
    )
});

/// An active dispatch is cancelled. The first reason stays.
pub(crate) fn cancel(connection: &Connection, id: &str, why: DispatchCancel) -> Stored<()> {
    let doing = format_args!("cancel dispatch `{id}`");
    sql::exec(connection, &CANCEL, (id, why.as_str()), doing).map(drop)
}

static END: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "?2"),
        ("turn_id", "?3"),
        ("text", "?4"),
        ("usage_json", "?5"),
        ("cost", "?6"),
        ("result_item_id", "?7"),
        ("ended_at", "?8"),
    ]);
    format!("UPDATE dispatches SET {change} WHERE id = ?1 AND status = 'active'")
});

/// A dispatch has ended as `ended` is.
pub(crate) fn end(connection: &Connection, ended: &Dispatch) -> Stored<()> {
    let usage_json = ended.usage.and_then(|usage| serde_json::to_string(&usage).ok());
    let row = (
        &ended.id,
        ended.status.as_str(),
        &ended.turn_id,
        &ended.text,
        usage_json,
        ended.cost,
        &ended.result_item_id,
        ended.ended_at,
    );
    sql::exec(connection, &END, row, format_args!("end dispatch `{}`", ended.id)).map(drop)
}
