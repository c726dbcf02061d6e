//! The right to write a session: owners, leases by epoch, and the thread that renews them. It must never write a turn.

pub(crate) mod claim;
pub(crate) mod heartbeat;
pub(crate) mod owner;
