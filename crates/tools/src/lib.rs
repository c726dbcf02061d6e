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

pub use admission::{AdmissionQueue, Ticket};
pub use cache::ToolSetCache;
pub use result::{ToolAnswer, result_cap};
pub use result_schema::ResultSchema;
pub use runtime::{
    Ask, CallRequest, Ending, First, Invocation, Limits, OutputFuture, ReconcileFuture, Reconciled,
    StepFuture, StopFuture, ToolFuture, ToolHost, Verdict, VerdictFuture, run_call,
};
pub use set::{Prepared, ToolSet};
