//! The plan of one run's calls: which model, which of its profiles, when to wait, when to give up.
//!
//! Pure: it is given the time and reads the book. It must never go back to a model it has left, ask a profile more than
//! three times for one answer, or go on once a token was emitted.

mod choice;
mod plan;
mod progress;

#[cfg(test)]
mod tests;

pub use plan::{Candidate, Choice, MAX_WAIT_MS, Pause, Plan};
