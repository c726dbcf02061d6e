//! Tools: the set of a run, the validation of a call's arguments, and the execution of a call.
//!
//! A tool's failure is a result for the model. It must never end a run, and this module must never know JavaScript.

mod admission;
mod arguments;
mod cache;
mod coerce;
mod complexity;
mod explain;
mod instance;
mod meter;
mod name_patterns;
mod pattern;
mod result;
mod result_schema;
mod runtime;
mod schema;
mod set;
mod slow_check;
mod validator;

pub(crate) use admission::{AdmissionQueue, Ticket};
pub(crate) use cache::ToolSetCache;
pub(crate) use result::{ToolAnswer, result_cap};
pub(crate) use result_schema::ResultSchema;
pub(crate) use runtime::{
    Ask, CallRequest, Ending, First, Invocation, Limits, OutputFuture, ReconcileFuture, Reconciled,
    StepFuture, StopFuture, ToolFuture, ToolHost, Verdict, VerdictFuture, run_call,
};
pub(crate) use set::{Prepared, ToolSet};
