//! The tables of runs under way: `runs`, `journal`, `event_archive`, `approvals`, and the accounts of budgets. It must never write a
//! turn's own rows.

pub(crate) mod approval_rows;
pub(crate) mod archive_rows;
pub(crate) mod budget_rows;
pub(crate) mod entry_rows;
pub(crate) mod event_rows;
pub(crate) mod run_rows;
pub(crate) mod run_state;
pub(crate) mod running;
