//! A fresh ledger of what can still be read of a damaged one. The damaged file is never written to.

mod cells;
mod fresh_ledger;
mod journal;
mod mend;
mod pages;
mod row;
mod tables;

pub use self::fresh_ledger::LedgerSalvage;
pub(crate) use self::fresh_ledger::salvage;
