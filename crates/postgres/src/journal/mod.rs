//! The commit points of turns, their leases, and what a run reads of its session.
//!
//! A commit point is one statement, which checks the lease and the head in the rows that it locks.

pub(crate) mod begin;
pub(crate) mod cache_chain;
pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod history;
pub(crate) mod lease;
pub(crate) mod pointer;
pub(crate) mod profiles;
pub(crate) mod record;
pub(crate) mod take_over;
