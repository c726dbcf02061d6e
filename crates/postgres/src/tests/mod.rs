//! Tests of the crate: the options without a server, and the contract of every ledger with one (feature `server`).

#[cfg(feature = "server")]
mod conformance;
#[cfg(feature = "server")]
mod deletion;
#[cfg(feature = "server")]
mod heads;
#[cfg(feature = "server")]
mod line;
#[cfg(feature = "server")]
mod lost;
mod options;
#[cfg(feature = "server")]
mod panics;
#[cfg(feature = "server")]
mod plans;
#[cfg(feature = "server")]
mod store;
mod tasks;
