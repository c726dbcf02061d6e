//! The plan of one run's calls: which model, which of its profiles, when to wait, when to fail.
//!
//! Pure: the caller passes the time and the usages of the profiles. It must never return to a model it has left, request an answer
//! with one profile more often than the host's number of retries allows, or continue once a token was emitted.

mod choice;
mod plan;
mod progress;

#[cfg(test)]
mod tests;

pub use plan::{Candidate, Choice, MAX_WAIT_MS, Pause, Plan};
