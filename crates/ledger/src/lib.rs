//! The ledger: turns in SQLite, all or nothing.
//!
//! Owns the file, its schema, the commit of a turn and every read of it. It must never hold a transaction across an
//! await, and never open a file that another SQLite in this process holds (docs/rules/faults.md#no-second-sqlite): on Linux that is checked; on
//! macOS and Windows the host is responsible for it.

mod deletion;
mod events;
mod handle;
mod journal;
mod journal_codec;
mod journal_rows;
mod lease;
mod maintenance;
mod memory_rows;
mod open;
mod queue;
mod reading;
mod rows;
mod salvage;
mod search;
mod sessions;
mod sqlite;
mod transfer;

#[cfg(test)]
mod tests;

pub use self::handle::ledger::Ledger;
pub use self::open::options::LedgerOptions;
pub use self::salvage::LedgerSalvage;
pub use self::sqlite::synchronous::Synchronous;
