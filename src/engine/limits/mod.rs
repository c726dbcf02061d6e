//! What holds calls back: rate limits and budgets.
//!
//! It must never send a request.

mod budgets;
mod rate;

pub use budgets::Budgets;
pub(crate) use budgets::{Payer, SpendingRecord, WorstCase};
pub use rate::GovernorOptions;
pub(crate) use rate::{Governor, RateKey, RatePermit, priority_of};
