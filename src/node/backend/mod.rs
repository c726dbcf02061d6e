//! The backends of a ledger: opened by their options, and copied from one to another.

pub(super) mod copying;
mod notes;
mod open;

pub(super) use self::open::{check, open, salvage};
