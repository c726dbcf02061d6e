//! Chooses the model and the profile of a call, and handles failures of both.
//!
//! It must never call a model.

mod chain;
mod failure;
mod keyring;
mod options;

pub(crate) use chain::{FallbackChain, candidate, fallback_chain};
pub(crate) use failure::{FailedCall, after_failure, blame};
pub(crate) use keyring::Keyring;
pub(crate) use options::FailoverOptions;
