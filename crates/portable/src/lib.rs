//! Ledgers as files, and copies of ledgers: what every backend has in common.
//!
//! Owns the formats (the engine's JSONL, pi's and MyClaw's), the order and the repair of what is imported, and the steps of a
//! copy. A backend implements [`Rows`]. It must never name one, nor send SQL.

pub mod copy;
mod error;
mod export;
mod finish;
mod fitted;
mod import;
pub mod iso_time;
mod lines;
mod myclaw;
mod out;
mod own;
mod pi;
pub mod recalled;
mod record;
mod report;
mod restore;
mod rows;
mod tree;

pub use self::error::{Stored, moved};
pub use self::export::{Export, export};
pub use self::import::{Target, import};
pub use self::record::{MessageNotes, MessageRecord, Moved, SessionRecord, TurnRecord};
pub use self::report::Problems;
pub use self::restore::{Record, Restore};
pub use self::rows::{Answer, Mark, Parent, Rows, There, at_once};
