//! What holds calls back: rate limits and budgets.
//!
//! It must never send a request.

pub(crate) mod budgets;
pub(crate) mod rate;
