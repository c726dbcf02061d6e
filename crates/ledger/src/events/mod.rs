//! The events of runs: their log in the file, the runs of this process, and their followers here and in other processes. It
//! must never emit an event that is not in the file yet.

pub(crate) mod approval_wait;
pub(crate) mod archive;
pub(crate) mod command_rows;
pub(crate) mod commands;
pub(crate) mod event_log;
pub(crate) mod follow;
pub(crate) mod next_page;
pub(crate) mod poller;
pub(crate) mod references;
pub(crate) mod run_entry;
pub(crate) mod runs;
pub(crate) mod trim;
