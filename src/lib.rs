//! `@nexus/agent-engine`: runs agent turns for TypeScript brokers, and never loses, doubles or corrupts one.
//!
//! This file owns the list of modules and must never hold logic. Start at `ARCHITECTURE.md`.
#![cfg_attr(
    not(feature = "node"),
    allow(dead_code, unused_imports, reason = "without the addon, only the tests use the engine")
)]

mod dispatch;
mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(feature = "node")]
mod node;
#[cfg(test)]
mod typescript;
