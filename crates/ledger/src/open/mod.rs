//! Opening a ledger once per process, and making a new file whole or not at all. It must never open a file twice.

pub(crate) mod draft;
pub(crate) mod new_ledger;
pub(crate) mod options;
pub(crate) mod registry;
