//! The one way in which a model is called: rate limits, key, budget, request hook, span, usage, cost and attempt row.
//!
//! It must never try again: whether and when is the plan's to decide, see `failover`.

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
