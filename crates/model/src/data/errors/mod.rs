//! What fails: the failure of a call, the error of a run, the error of the ledger.

pub(crate) mod error;
pub(crate) mod failure;
