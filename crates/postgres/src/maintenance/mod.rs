//! The maintenance of the ledger that is not the server's own: its numbers, and the check of what it has stored.
//!
//! It must never repair anything.

pub(crate) mod stats;
pub(crate) mod verify;
