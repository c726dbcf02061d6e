//! The backends of a ledger: opened by their options, and copied from one to another.

pub(super) mod copying;
mod open;
mod table_rows;

pub(super) use self::open::{check, open, salvage};
