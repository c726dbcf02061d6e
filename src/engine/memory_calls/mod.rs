//! Calls of models for the memory: vectors of texts, and facts of a turn. Each is one request with the engine's keys, rate limits, budgets
//! and hook.
//!
//! It must never retry: the memory calls again later, with another profile if this one cools.

mod ask;
mod complete;
mod embed;

pub(crate) use ask::{CallParts, SESSION};
pub(crate) use complete::{CompletedText, TextRequest, complete};
pub(crate) use embed::{EmbeddedTexts, embed};
