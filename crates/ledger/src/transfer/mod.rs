//! Export of sessions to files, and import from files.
//!
//! Owns `export` and `import`, which the host calls: an export is one snapshot and leaves no incomplete file; an import
//! reads line by line, and reports a problem for each line that was not imported. The queues of a broker are not exported: a
//! message that ran in two ledgers would be answered twice. It must never move a session that existed before.

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
