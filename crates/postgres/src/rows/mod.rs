//! The bodies and rows of turns, messages and calls, between the data of `model` and the columns.
//!
//! It must never send a statement.

pub(crate) mod body;
pub(crate) mod turn_body;
pub(crate) mod turn_read;
pub(crate) mod written;
