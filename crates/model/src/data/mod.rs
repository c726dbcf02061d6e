//! The data of the engine: what a host passes in and reads back, what a provider returns, what the ledger stores.
//!
//! Plain values and serde. It must never know a port, do I/O or read a clock.

pub(crate) mod approval;
pub(crate) mod block;
pub(crate) mod broker;
pub(crate) mod call;
pub(crate) mod catalogue;
pub(crate) mod context;
pub(crate) mod errors;
pub(crate) mod event;
pub(crate) mod event_text;
pub(crate) mod given_history;
pub(crate) mod image;
pub(crate) mod input;
pub(crate) mod interrupted;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod message;
pub(crate) mod profile;
pub(crate) mod result;
pub(crate) mod tool;
