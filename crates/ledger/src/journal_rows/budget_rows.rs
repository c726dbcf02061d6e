//! The accounts of budgets in the ledger: what was spent, and what calls under way reserve, over all processes.
//!
//! It must never let the sum of both exceed a ceiling at a commit, and never count a call twice.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use crate::sqlite::writer::Job;
use base::telemetry;
use model::{CallCost, Overdrawn, Reservation, SpendingLimits, StorageError, TurnBudget};

struct AccountColumns {
    id: String,
    tokens: i64,
    nanos: i64,
}

columns!(AccountColumns { id, tokens, nanos });

struct ReservationColumns {
    call_id: String,
    account: String,
    tokens: i64,
    nanos: i64,
    owner: Option<Owner>,
}

columns!(ReservationColumns { call_id, account, tokens, nanos, owner: Option<Owner> });

static OPEN: LazyLock<String> = LazyLock::new(|| {
    let add = insert_all::<AccountColumns>("budget_accounts");
    let change = set(&[
        ("tokens", "max(budget_accounts.tokens, excluded.tokens)"),
        ("nanos", "max(budget_accounts.nanos, excluded.nanos)"),
    ]);
    format!("{add} ON CONFLICT (id) DO UPDATE SET {change}")
});
static SPEND: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("tokens", "tokens + ?2"), ("nanos", "nanos + ?3")]);
    format!("UPDATE budget_accounts SET {change} WHERE id = ?1")
});
static RESERVE: LazyLock<String> =
    LazyLock::new(|| insert_all::<ReservationColumns>("budget_reservations"));
pub(crate) static OF_ACCOUNT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM budget_reservations WHERE account = ?1", list::<ReservationColumns>())
});
pub(crate) static OF_CALL: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM budget_reservations WHERE call_id = ?1", list::<ReservationColumns>())
});
pub(crate) const SETTLED: &str = "SELECT tokens, nanos FROM budget_accounts WHERE id = ?1";
/// What active tasks have reserved.
pub(crate) const OF_TASKS: &str =
    "SELECT coalesce(sum(max_tokens), 0), coalesce(sum(max_nanos), 0) FROM dispatches
     WHERE parent_account = ?1 AND status = 'active'";
/// Before the id of a turn, and of a task.
const TURN: &str = "turn:";
const TASK: &str = "task:";
/// Before the id of the turn of a run.
const RUN: &str = "run:";
/// Before the id of the turn at the top.
const TREE: &str = "tree:";
pub(crate) const IN_TREE: &str =
    "SELECT 1 FROM dispatches WHERE root_turn_id = ?1 AND status = 'active' LIMIT 1";
const CLOSE: &str = "DELETE FROM budget_accounts WHERE id = ?1
     AND NOT EXISTS (SELECT 1 FROM budget_reservations WHERE account = ?1)";
const RELEASE: &str = "DELETE FROM budget_reservations WHERE call_id = ?1 AND account = ?2";

/// Reserves the maximum of a call in all its accounts, or in none.
pub(crate) fn reserve(
    connection: &Connection,
    owner: &Owner,
    reservation: &Reservation,
) -> Stored<Result<(), Overdrawn>> {
    let Reservation { call_id, most, accounts } = reservation;
    let most = amount(*most);
    for (at, account) in accounts.iter().enumerate() {
        let id = &account.id;
        let doing = format_args!("read the budget `{id}`");
        let settled: Option<(i64, i64)> = sql::optional(connection, SETTLED, (id,), doing)?;
        let (tokens, nanos) = amount(account.spent);
        let mut used = settled.unwrap_or_default();
        if settled.is_none() || used.0 < tokens || used.1 < nanos {
            used = (used.0.max(tokens), used.1.max(nanos));
            let row = AccountColumns { id: id.clone(), tokens, nanos };
            sql::insert(connection, &OPEN, &row, "open the account of a budget")?;
        }
        let tasks = reserved_by_tasks(connection, id)?;
        used = (used.0.saturating_add(tasks.0), used.1.saturating_add(tasks.1));
        let open: Vec<ReservationColumns> = sql::all(connection, &OF_ACCOUNT, (id,), doing)?;
        for other in open {
            // That of a process that has ended is spent, as far as anybody knows.
            if other.owner.as_ref().is_some_and(|it| it.id != owner.id && owner.knows_dead(it)) {
                end(connection, &other, (other.tokens, other.nanos))?;
            }
            used = (used.0.saturating_add(other.tokens), used.1.saturating_add(other.nanos));
        }
        let left =
            |most: Option<u64>, used: i64| most.map(|most| signed(most).saturating_sub(used));
        if let Some(left) = left(account.max_tokens, used.0)
            && most.0 > left
        {
            return Ok(Err(Overdrawn { account: at, left: unsigned(left), is_cost: false }));
        }
        if let Some(left) = left(account.max_nanos, used.1)
            && most.1 > left
        {
            return Ok(Err(Overdrawn { account: at, left: unsigned(left), is_cost: true }));
        }
    }
    for account in accounts {
        let row = ReservationColumns {
            call_id: call_id.clone(),
            account: account.id.clone(),
            tokens: most.0,
            nanos: most.1,
            owner: Some(owner.clone()),
        };
        sql::insert(connection, &RESERVE, &row, "reserve a budget")?;
    }
    Ok(Ok(()))
}

/// A change that never waits for the disk: it is there with the next commit of the turn, and without it a call counts at its maximum.
pub(crate) enum AccountChange {
    /// A call has ended, and this is what it has used.
    Settle { call_id: String, used: CallCost },
    /// The run of the account has ended.
    Close { id: String },
}

impl Job for AccountChange {
    fn run(&mut self, connection: &Connection) -> bool {
        match self {
            Self::Settle { call_id, used } => settle(connection, call_id, *used).is_ok(),
            Self::Close { id } => close(connection, id).is_ok(),
        }
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        if let Some(error) = failure {
            telemetry::storage_failed(error.kind.code());
        }
    }
}

/// Settles a call at what it has used.
fn settle(connection: &Connection, call_id: &str, used: CallCost) -> Stored<()> {
    let doing = format_args!("settle call `{call_id}`");
    let open: Vec<ReservationColumns> = sql::all(connection, &OF_CALL, (call_id,), doing)?;
    open.iter().try_for_each(|reservation| end(connection, reservation, amount(used)))
}

/// What active tasks have reserved in the account of a turn; nothing in another one.
fn reserved_by_tasks(connection: &Connection, account: &str) -> Stored<(i64, i64)> {
    if ![TURN, TASK].iter().any(|of_turn| account.starts_with(of_turn)) {
        return Ok((0, 0));
    }
    sql::one(connection, OF_TASKS, (account,), "read the budgets of tasks")
}

/// What is left of the budget of a turn.
pub(crate) fn left(connection: &Connection, budget: &TurnBudget) -> Stored<SpendingLimits> {
    let id = &budget.account;
    let mut used = spent(connection, id)?;
    let tasks = reserved_by_tasks(connection, id)?;
    used = (used.0.saturating_add(tasks.0), used.1.saturating_add(tasks.1));
    let left = |most: Option<u64>, used: i64| most.map(|most| most.saturating_sub(unsigned(used)));
    let SpendingLimits { tokens, nanos } = budget.limits;
    Ok(SpendingLimits { tokens: left(tokens, used.0), nanos: left(nanos, used.1) })
}

/// What was spent of an account, with what calls under way may cost at most.
fn spent(connection: &Connection, id: &str) -> Stored<(i64, i64)> {
    let doing = format_args!("read the budget `{id}`");
    let settled: Option<(i64, i64)> = sql::optional(connection, SETTLED, (id,), doing)?;
    let open: Vec<ReservationColumns> = sql::all(connection, &OF_ACCOUNT, (id,), doing)?;
    Ok(open.iter().fold(settled.unwrap_or_default(), |sum, it| {
        (sum.0.saturating_add(it.tokens), sum.1.saturating_add(it.nanos))
    }))
}

/// Adds what was spent of the account `id` to `parent`, if that still exists, and removes it.
pub(crate) fn fold(connection: &Connection, id: &str, parent: Option<&str>) -> Stored<()> {
    let doing = format_args!("settle the budget `{id}`");
    if let Some(parent) = parent {
        let (tokens, nanos) = spent(connection, id)?;
        sql::exec(connection, &SPEND, (parent, tokens, nanos), doing)?;
    }
    let open = "DELETE FROM budget_reservations WHERE account = ?1";
    sql::exec(connection, open, (id,), doing)?;
    sql::exec(connection, CLOSE, (id,), doing).map(drop)
}

/// Removes the account of a run that has ended, or of a tree in which no agent works any more.
fn close(connection: &Connection, id: &str) -> Stored<()> {
    let doing = "close the account of a budget";
    if let Some(root) = id.strip_prefix(TREE)
        && sql::exists(connection, IN_TREE, (root,), doing)?
    {
        return Ok(());
    }
    sql::exec(connection, CLOSE, (id,), doing).map(drop)
}

/// Removes the accounts of a turn whose process has ended, and that is closed: no run of it ends. What its calls had reserved there is
/// gone with it.
pub(crate) fn close_turn(connection: &Connection, turn_id: &str) -> Stored<()> {
    fold(connection, &format!("{TURN}{turn_id}"), None)?;
    fold(connection, &format!("{RUN}{turn_id}"), None)?;
    if sql::exists(connection, IN_TREE, (turn_id,), "close the account of a budget")? {
        return Ok(());
    }
    fold(connection, &format!("{TREE}{turn_id}"), None)
}

/// Removes the account of the tree of a turn, if that has ended and no agent works for it any more.
pub(crate) fn close_tree(connection: &Connection, root: &str) -> Stored<()> {
    let open = "SELECT 1 FROM runs WHERE turn_id = ?1 AND ended_at IS NULL";
    if sql::exists(connection, open, (root,), "close the account of a budget")? {
        return Ok(());
    }
    close(connection, &format!("{TREE}{root}"))
}

fn end(connection: &Connection, of: &ReservationColumns, used: (i64, i64)) -> Stored<()> {
    let doing = format_args!("settle call `{}`", of.call_id);
    sql::exec(connection, &SPEND, (&of.account, used.0, used.1), doing)?;
    sql::exec(connection, RELEASE, (&of.call_id, &of.account), doing).map(drop)
}

fn amount(CallCost { tokens, nanos }: CallCost) -> (i64, i64) {
    (signed(tokens), signed(nanos))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn unsigned(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}
