//! `@nexus/agent-engine`: runs agent turns for TypeScript brokers, and never loses, doubles or corrupts one.
//!
//! This file owns the list of rooms and must never hold logic. Start at `ARCHITECTURE.md`.

pub mod clock;
pub mod config;
pub mod engine;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod ledger;
pub mod model;
#[cfg(feature = "node")]
pub mod node;
pub mod provider;
pub mod telemetry;
pub mod tools;
pub mod turn;
#[cfg(test)]
mod typescript;
