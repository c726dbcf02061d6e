//! The rate governor: it orders the calls of a provider, profile and model so that they stay within its limits.

mod admission;
mod call;
mod lane;
mod meter;
mod pace;
mod shared;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;

pub use call::{Claim, Local, Next, Priority};
pub use lane::Lane;
pub use shared::{Claimed, SharedLimits};
