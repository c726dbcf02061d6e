//! The public [`Ledger`](ledger::Ledger): every call of a host or of the engine begins here. It must never contain SQL.

pub(crate) mod engine_stores;
pub(crate) mod files;
pub(crate) mod following;
pub(crate) mod host_impl;
pub(crate) mod journal_impl;
pub(crate) mod ledger;
pub(crate) mod reading;
pub(crate) mod session_names;
