//! The tables of the ledger, and their migrations.
//!
//! It must never change a migration that was published.

pub(crate) mod migrate;
