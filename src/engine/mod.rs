//! The engine: starts runs, drives them, and closes when they have ended.
//!
//! It must never know SQLite or JavaScript: it uses a [`model::Journal`], a [`tools::ToolHost`] and an
//! [`EventQueue`]. This file only re-exports names; `ARCHITECTURE.md` defines which submodule may use which.

mod active_run;
mod call;
mod compaction;
mod context;
mod count;
mod drive;
mod events;
mod facade;
mod failover;
mod limits;
mod memory_calls;
mod parts;
mod providers;
mod recovery;
mod shared;
mod state;
mod tasks;

pub(crate) use compaction::{CompactionOptions, ManualCompaction, PruningOptions};
pub(crate) use context::{ContextGuard, JoinedTools, JoiningTools};
pub(crate) use events::{Delivery, EventQueue, Notify, RECORD_BYTES, RecordBatch, RecordKind};
pub(crate) use facade::{Engine, MemoryModelCall};
pub(crate) use failover::FailoverOptions;
pub(crate) use limits::{Budgets, GovernorOptions};
pub(crate) use memory_calls::{SESSION as MEMORY_SESSION, TextRequest};
pub(crate) use parts::{EngineParts, QueuedTurn, RunHandles};
pub(crate) use providers::ProviderEntry;
pub(crate) use shared::JournalMode;
pub(crate) use state::{ParkingStep, PromptSource, RunControl, Steered};
pub(crate) use tasks::Tasks;

#[cfg(test)]
mod tests;
