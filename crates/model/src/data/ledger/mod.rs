//! What the ledger stores and returns, with any backend.

pub(crate) mod context_layer;
pub(crate) mod deletion;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod maintenance;
pub(crate) mod memory;
pub(crate) mod metadata;
pub(crate) mod page;
pub(crate) mod query;
pub(crate) mod recall;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod session_key;
pub(crate) mod transfer;
pub(crate) mod turn;
pub(crate) mod turn_diff;
pub(crate) mod usage_report;
