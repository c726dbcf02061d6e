//! The ledger: turns in SQLite, all or nothing.
//!
//! Owns the file, its schema, the commit of a turn and every read of it. It must never hold a transaction across an
//! await, and never open a file that another SQLite in this process holds (docs/rules/faults.md#no-second-sqlite): on Linux that is checked; on
//! macOS and Windows the rule is the host's to keep.

mod events;
mod handle;
mod journal;
mod lease;
mod maintenance;
mod open;
mod reading;
mod rows;
mod salvage;
mod search;
mod sessions;
mod sqlite;
mod transfer;

#[cfg(test)]
mod tests;

pub use self::events::command_rows::SessionCommand;
pub use self::events::follow::{Cursor, EventPage, Follows, SessionPage};
pub use self::events::retention::Retention;
pub use self::handle::ledger::Ledger;
pub use self::maintenance::{
    BlobCounts, LedgerBackup, LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, LedgerStats,
    LedgerVacuum, TurnCounts,
};
pub use self::open::options::LedgerOptions;
pub use self::reading::lists::{SessionFilter, SessionStatus, ToolCallFilter, ToolCallRow};
pub use self::reading::query::{QueryLimits, QueryResult, QueryRow, Truncation};
pub use self::reading::turn_tree::{SessionMove, TurnSummary};
pub use self::reading::usage::{UsageBy, UsageFilter, UsageRow};
pub use self::rows::page::{Limit, Page, PageOptions};
pub use self::rows::row_types::{HistoryMessage, SessionRow, TurnError, TurnRow};
pub use self::salvage::LedgerSalvage;
pub use self::search::message_search::{SearchHit, SearchOptions};
pub use self::sessions::aliases::AliasRow;
pub use self::sessions::persona::PersonaRow;
pub use self::sqlite::synchronous::Synchronous;
pub use self::transfer::{LedgerExport, LedgerFormat, LedgerImport, TransferCode, TransferProblem};
