//! Limits of calls: rate limits, budgets, and the policies of runs.
//!
//! It must never send a request.

mod budgets;
pub(crate) mod policy;
mod prepaid;
mod rate;
mod reserved;
mod shared_rate;

pub(crate) use budgets::Budgets;
pub(crate) use budgets::{Payer, SpendingRecord, WorstCase};
pub(crate) use prepaid::Prepayment;
pub(crate) use rate::GovernorOptions;
pub(crate) use rate::{Governor, RateKey, RatePermit, priority_of};
