//! The public [`Ledger`](ledger::Ledger) and its ports: every call of a host or of the engine begins here. It must never contain
//! SQL.

pub(crate) mod admin_impl;
pub(crate) mod approvals_impl;
mod delivery_impl;
pub(crate) mod dispatch_impl;
pub(crate) mod engine_stores;
pub(crate) mod journal_impl;
pub(crate) mod ledger;
mod memory_impl;
pub(crate) mod prompt_impl;
pub(crate) mod queue_impl;
mod read_impl;
mod schedule_impl;
