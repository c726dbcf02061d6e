//! One run from its start to its end.
//!
//! Owns the loop, the opening of a turn, the attempts at an answer, the tool batch and the end. It must never decide:
//! `turn/machine` does.

mod alias;
mod attempt;
mod attempt_outcome;
mod call_admission;
mod closing;
mod driver;
mod finish;
mod model_turn;
mod opening;
mod outcome;
mod output;
mod parked;
mod permissions;
mod refusal;
mod run_loop;
mod step;
mod switch;
mod tool_batch;
mod tool_events;

pub(crate) use closing::{close_turn, damaged, not_interrupted};
pub(crate) use driver::{Driver, Fallback};
pub(crate) use output::OutputCheck;
pub(crate) use run_loop::drive;
