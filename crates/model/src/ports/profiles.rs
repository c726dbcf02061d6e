//! The port to the store of auth profiles: what is known of each, over the engines of all processes.
//!
//! It must never carry a key.

use crate::{PortFuture, ProfileUsage};

/// A change of a profile's state; called again where its transaction is tried again.
pub type ProfileChange = Box<dyn FnMut(&mut ProfileUsage) + Send>;

/// Where the state of profiles is stored; the ledger implements it.
pub trait ProfileStore: Send + Sync {
    /// Everything that is stored, by the profile's name.
    fn usage(&self) -> PortFuture<'static, Vec<(String, ProfileUsage)>>;

    /// Records that a profile was used at this time, in Unix milliseconds. It is not awaited, and a crash may lose it.
    fn used(&self, id: &str, at_ms: i64);

    /// Changes one profile's state in one transaction, and returns the new state. It is submitted when it is called:
    /// dropping the future does not undo it.
    fn change(&self, id: &str, change: ProfileChange) -> PortFuture<'static, ProfileUsage>;
}
