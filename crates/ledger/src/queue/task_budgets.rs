//! Budgets of tasks: reserved in the account of the turn that gives a task, in the transaction that stores it, and settled in the
//! transaction that ends it.
//!
//! A task's reservation is its active row of `dispatches`. It must never be reserved or settled in a transaction of its own.

use std::sync::LazyLock;

use broker::agents::task_budget;
use rusqlite::Connection;

use crate::journal_rows::budget_rows;
use crate::sqlite::checksum::set;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{AgentTask, Dispatch, SpendingLimits};

/// What a new task may spend, and the account in which that is reserved; or why it is refused.
pub(crate) fn reserve(
    connection: &Connection,
    task: &AgentTask,
) -> Stored<Result<(SpendingLimits, Option<String>), String>> {
    let Some(parent) = &task.parent_budget else {
        let limits = task_budget(task.kind, task.limits_of_agent, SpendingLimits::default());
        return Ok(limits.map(|limits| (limits, None)));
    };
    let left = budget_rows::left(connection, parent)?;
    let limits = task_budget(task.kind, task.limits_of_agent, left);
    Ok(limits.map(|limits| (limits, Some(parent.account.clone()))))
}

/// The tasks of a task that has ended, and that go on, are reserved where it was.
static MOVE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_account", "?2")]);
    format!("UPDATE dispatches SET {change} WHERE parent_account = ?1 AND status = 'active'")
});

/// A task has ended: what it has spent is spent of the budget in which it was reserved.
pub(crate) fn settle(
    connection: &Connection,
    dispatch: &Dispatch,
    parent_account: Option<&str>,
) -> Stored<()> {
    let Some(budget) = dispatch.budget() else { return Ok(()) };
    let doing = format_args!("settle dispatch `{}`", dispatch.id);
    sql::exec(connection, &MOVE, (&budget.account, parent_account), doing)?;
    budget_rows::fold(connection, &budget.account, parent_account)
}
