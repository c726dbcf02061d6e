//! The tables of runs under way: `runs`, `journal`, `event_archive`. It must never decide who may write: the lease does.

pub(crate) mod archive_rows;
pub(crate) mod entry_rows;
pub(crate) mod event_rows;
pub(crate) mod run_rows;
