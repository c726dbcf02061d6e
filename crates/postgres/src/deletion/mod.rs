//! Deletion: what goes is planned by the rule of `turn::removal`, and goes in batches that never hold up a turn for long.
//!
//! After a kill at any moment the ledger is sound, and the next deletion continues.

pub(crate) mod delete;
pub(crate) mod owned_rows;
mod plan;
