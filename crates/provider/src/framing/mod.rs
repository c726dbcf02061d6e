//! How a body is cut into events: server-sent events, and AWS's binary frames.
//!
//! It must never read what an event says: that is the wires' part.

pub(crate) mod eventstream;
pub(crate) mod sse;
