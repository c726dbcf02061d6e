//! Export of sessions to files, and import from files: the formats are `portable`'s.
//!
//! An export is one snapshot and leaves no incomplete file; an import is written by the writer. The queues of a broker are not
//! exported: a message that ran in two ledgers would be answered twice.

mod export;
mod insert;
mod rows;
mod table_rows;
mod target;

pub(crate) use self::export::export;
pub(crate) use self::rows::SqliteRows;
pub(crate) use self::target::Target;
