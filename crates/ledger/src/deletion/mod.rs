//! Deleting sessions and turns: what may go (`plan`), what belongs to it (`owned_rows`), and deleting it a batch at a time.
//!
//! A batch is one transaction and leaves a sound ledger: it must never delete a part of a turn, nor a turn that another follows.

pub(crate) mod batch;
pub(crate) mod candidates;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod heads;
pub(crate) mod overwrite;
pub(crate) mod owned_rows;
pub(crate) mod plan;
pub(crate) mod sessions;
