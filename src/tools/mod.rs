//! Tools: what is on offer, whether a call's arguments are valid, and how a call is run.
//!
//! A tool's failure is an answer for the model. It must never end a run, and nothing here knows JavaScript.

mod arguments;
mod cache;
mod coerce;
mod complexity;
mod explain;
mod gate;
mod instance;
mod meter;
mod name_patterns;
mod pattern;
mod result;
mod runtime;
mod schema;
mod set;
mod slow_check;
mod validator;

pub(crate) use cache::ToolSetCache;
pub(crate) use gate::{Gate, Ticket};
pub(crate) use result::{ToolAnswer, result_cap};
pub(crate) use runtime::{
    CallRequest, Ending, First, Invocation, Limits, ReconcileFuture, Reconciled, ToolFuture,
    ToolHost, run_call,
};
pub(crate) use set::{Prepared, ToolSet};
