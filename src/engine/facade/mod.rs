//! The engine as a host uses it.
//!
//! It must never decide how a turn continues.

mod abort;
mod approvals;
mod engine;
mod memory_models;
mod start;

pub(crate) use engine::Engine;
pub(crate) use memory_models::MemoryModelCall;
