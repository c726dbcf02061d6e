//! The tables of what runs write while they are under way: `runs`, `journal`, `event_archive`. It must never decide who may
//! write: that is the lease's.

pub(crate) mod archive_rows;
pub(crate) mod entry_rows;
pub(crate) mod event_rows;
pub(crate) mod run_rows;
