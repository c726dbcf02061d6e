//! The engine: starts runs, drives them, and closes when they are done.
//!
//! It must never know SQLite or JavaScript: it uses a [`model::Journal`], a [`crate::tools::ToolHost`] and an
//! [`EventQueue`]. This file only hands names on; `ARCHITECTURE.md` says which inner room may use which.

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
mod parts;
mod providers;
mod recovery;
mod shared;
mod state;
mod tasks;

pub use compaction::{CompactionOptions, ManualCompaction, Preset, PruningOptions, Strategy};
pub use context::ContextGuard;
pub use events::{Batch, EventQueue, MERGE_ABOVE, Notify, RECORD_BYTES, RecordKind};
pub use facade::Engine;
pub use failover::{FailoverOptions, Ladder};
pub use limits::{Budgets, GovernorOptions};
pub use parts::{EngineParts, RunHandles};
pub use providers::ProviderEntry;
pub use shared::JournalMode;
pub use state::RunControl;
pub use tasks::Tasks;

#[cfg(test)]
mod tests;
