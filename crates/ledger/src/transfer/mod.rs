//! Sessions out of the ledger into a file, and into it from one.
//!
//! Owns `export` and `import` as the host calls them: one snapshot out, whole or not at all; in, line by line, with a
//! problem for each line that was not taken. It must never move a session that existed before.

mod export;
mod finish;
mod fitted;
mod import;
mod insert;
mod lines;
mod myclaw;
mod out;
mod own;
mod pi;
mod record;
mod report;
mod restore;
mod tree;

pub(crate) use self::export::export;
pub(crate) use self::import::{Target, import};
pub(crate) use self::record::{MessageRecord, Moved, SessionRecord, TurnRecord};
pub(crate) use self::report::Problems;
pub(crate) use self::restore::{Record, Restore};
