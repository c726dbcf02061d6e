//! The engine as a host uses it.
//!
//! It must never decide how a turn goes on.

mod engine;
mod start;

pub(crate) use engine::Engine;
