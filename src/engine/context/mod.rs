//! What a model reads: the encoded conversation, its size, and what is cached of it.
//!
//! It must never send a request.

pub(crate) mod cache_chain;
pub(crate) mod calibration;
pub(crate) mod conversation;
pub(crate) mod prefix_cache;
pub(crate) mod recall;
pub(crate) mod recent;
pub(crate) mod session;
pub(crate) mod size;
