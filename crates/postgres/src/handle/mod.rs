//! The public `Postgres`, and the ports of the engine and of a host over it.
//!
//! It must never contain SQL.

mod admin_impl;
mod approvals_impl;
mod broker_impl;
mod dispatch_impl;
mod journal_impl;
mod memory_impl;
pub(crate) mod postgres;
mod read_impl;
mod state_impl;
mod unsupported;
