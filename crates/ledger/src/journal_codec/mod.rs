//! The journal's entries and archived events as bytes, and the fold of a turn's entries. Pure: it must never read a file,
//! nor return a value of an entry whose checksum does not match.

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
