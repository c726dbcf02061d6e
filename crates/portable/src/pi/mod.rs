//! Sessions of pi: parsed into records, and written from records. It must never write to the ledger.

mod calls;
mod content;
pub(super) mod entries;
mod export;
mod import;
mod messages;
mod sums;
mod turns;

pub(super) use self::export::export;
pub(crate) use self::import::{Origin, records};
