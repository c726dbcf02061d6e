//! The journal's entries and archived events as bytes, and what the entries of a turn come to. Pure: it must never read a file,
//! nor give out a value of an entry whose checksum is not its content's.

mod archive;
mod bytes;
mod event_batch;
mod fold;
mod frame;
mod records;

#[cfg(test)]
mod tests;

pub(crate) use self::archive::{pack, unpack};
pub(crate) use self::event_batch::EventBatch;
pub(crate) use self::fold::{Damage, TurnState, fold};
pub(crate) use self::frame::{EntryKind, open, seal};
pub(crate) use self::records::{CallRecord, Entry, MessageRecord, OpeningRecord, Record};
