//! How a body is cut into events: server-sent events, and AWS's binary frames.
//!
//! It must never read an event's data: the wires do.

pub(crate) mod eventstream;
pub(crate) mod sse;
