//! Failures: of a call, of a run, of the ledger.

pub(crate) mod error;
pub(crate) mod failure;
