//! One run from its start to its end.
//!
//! Owns the loop, the opening of a turn, the attempts at an answer, the tool batch and the end. It must never decide:
//! `turn/machine` does.

mod alias;
mod attempt;
mod attempt_outcome;
mod driver;
mod finish;
mod model_turn;
mod opening;
mod outcome;
mod refusal;
mod run_loop;
mod switch;
mod tool_batch;
mod tool_events;

pub(crate) use driver::{Driver, Fallback};
pub(crate) use outcome::{Ended, TurnPosition, turn_end};
pub(crate) use run_loop::drive;
