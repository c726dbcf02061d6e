//! The only way to call a model: rate limits, key, budget, request hook, span, usage, cost and attempt row.
//!
//! It must never retry: the plan of `failover` decides whether and when.

mod called;
mod deltas;
mod model_call;
mod request;
mod send;
mod waits;

pub(crate) use called::{Called, Dismissed, Ending};
pub(crate) use model_call::{HookHost, ModelCall, PromptSize};
pub(crate) use request::{request, run_hook, unsupported};
pub(crate) use send::call;
pub(crate) use waits::{NextCall, announce_wait};
