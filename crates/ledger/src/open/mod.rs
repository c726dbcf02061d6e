//! Opening a ledger once per process, and creating a new file atomically. It must never open a file twice.

pub(crate) mod draft;
pub(crate) mod new_ledger;
pub(crate) mod options;
pub(crate) mod registry;
