//! Maintenance of a ledger: `verify`, `backup`, `stats` and `vacuum` as the host calls them.
//!
//! It must never change a turn.

pub(crate) mod backup;
mod check;
mod each;
mod index;
mod journal_check;
mod shape;
pub(crate) mod stats;
pub(crate) mod vacuum;
pub(crate) mod verify;

pub(crate) use self::journal_check::open_blobs;
