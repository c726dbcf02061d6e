//! One run from its start to its end.
//!
//! Owns the loop, the opening of a turn, the tool batch and the end. It must never decide: deciding is `turn/machine`.

pub(crate) mod alias;
pub(crate) mod attempt;
pub(crate) mod finish;
pub(crate) mod opening;
pub(crate) mod outcome;
pub(crate) mod run_loop;
pub(crate) mod tool_batch;
