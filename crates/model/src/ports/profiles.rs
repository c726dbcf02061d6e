//! The port to the store of auth profiles: what is known of each, over the engines of all processes.
//!
//! It must never carry a key.

use crate::{PortFuture, ProfileUsage};

/// A change of a profile's state; called again where its transaction is tried again.
pub type ProfileChange = Box<dyn FnMut(&mut ProfileUsage) + Send>;

/// A change of the limits of a rate queue: from the stored text and the store's time, in Unix milliseconds, to the new text. Called again
/// where its transaction is tried again.
pub type RateChange = Box<dyn FnMut(Option<&str>, i64) -> String + Send>;

/// Where the state of profiles is stored; the ledger implements it.
pub trait ProfileStore: Send + Sync {
    /// Everything that is stored, by the profile's name.
    fn usage(&self) -> PortFuture<'static, Vec<(String, ProfileUsage)>>;

    /// Records that a profile was used at this time, in Unix milliseconds. It is not awaited, and a crash may lose it.
    fn used(&self, id: &str, at_ms: i64);

    /// Changes one profile's state in one transaction, and returns the new state. It is submitted when it is called:
    /// dropping the future does not undo it.
    fn change(&self, id: &str, change: ProfileChange) -> PortFuture<'static, ProfileUsage>;

    /// What the processes share of the limits of a rate queue, and the store's time.
    fn rates(&self, queue: &str) -> PortFuture<'static, (Option<String>, i64)>;

    /// Changes that in one transaction. It is submitted when it is called: dropping the future does not undo it.
    fn change_rates(&self, queue: &str, change: RateChange) -> PortFuture<'static, ()>;
}
