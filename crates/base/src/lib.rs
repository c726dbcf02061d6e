//! What every part of the engine stands on: time and ids, the environment, tracing, the error that a host sees.
//!
//! This file owns the list of modules and must never hold logic.

pub mod clock;
pub mod config;
pub mod error;
pub mod telemetry;
