//! Shared by every part of the engine: time and ids, the environment, tracing, the error at the boundary to the host, a bounded
//! map, the words of texts.
//!
//! This file owns the list of modules and must never hold logic.

pub mod clock;
pub mod config;
pub mod error;
pub mod recent;
pub mod telemetry;
pub mod words;
