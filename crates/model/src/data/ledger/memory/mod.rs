//! The memory of a ledger: scopes, chunks, facts, searches and reports.
//!
//! Plain data: the memory's crate decides, a backend stores. It must never hold a vector's meaning or a backend's row.

pub(crate) mod fact;
pub(crate) mod report;
pub(crate) mod scope;
pub(crate) mod search;
