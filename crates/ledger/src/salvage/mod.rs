//! A fresh ledger from the readable rows of a damaged one. The damaged file must never be written to.

mod cells;
mod fresh_ledger;
mod indexed_ids;
mod journal;
mod mend;
mod narrow_rows;
mod pages;
mod remembered;
mod row;
mod tables;

pub use self::fresh_ledger::LedgerSalvage;
pub(crate) use self::fresh_ledger::salvage;
