//! The one writer of a ledger: jobs, the thread that commits them in groups, and its handling of the log and of disk
//! failures. It must never answer a job with success before its transaction is in the file.

mod handle;
mod job;
mod log;
mod sync_mode;
mod thread;

pub(crate) use self::handle::Writer;
pub(crate) use self::job::{Job, Then, caught};
