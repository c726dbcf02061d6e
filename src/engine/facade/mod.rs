//! The engine as a host uses it.
//!
//! It must never decide how a turn continues.

mod approvals;
mod embeddings;
mod engine;
mod start;

pub(crate) use engine::Engine;
