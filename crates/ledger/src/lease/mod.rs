//! The right to write a session: owners, leases by epoch, the queue of those that wait for one, and the thread that renews
//! leases. It must never write a turn.

pub(crate) mod claim;
pub(crate) mod heartbeat;
pub(crate) mod held;
pub(crate) mod owner;
pub(crate) mod waits;
