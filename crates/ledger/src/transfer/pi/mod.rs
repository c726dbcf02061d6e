//! Sessions of pi: read into records, and written from them. It must never write to the ledger.

mod content;
pub(super) mod entries;
mod export;
mod import;
mod speech;
mod sums;

pub(super) use self::export::export;
pub(crate) use self::import::{Origin, records};
