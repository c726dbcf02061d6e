//! `@nexus/agent-engine`: runs agent turns for TypeScript brokers, and never loses, doubles or corrupts one.
//!
//! This file owns the list of rooms and must never hold logic. Start at `ARCHITECTURE.md`.

pub mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(feature = "node")]
pub mod node;
pub mod tools;
#[cfg(test)]
mod typescript;
