//! Time and size limits of one attempt. It must never limit the total time: the run's `timeoutMs` does.

use std::time::Duration;

/// The time limits; each can be set per provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// DNS, TCP and TLS together.
    pub connect: Duration,
    /// From the start of the attempt to the response's headers.
    pub headers: Duration,
    /// Between two pieces of the body; pings count as pieces.
    pub idle: Duration,
    /// Between two deltas; pings do not count.
    pub no_progress: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            headers: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            no_progress: Duration::from_secs(600),
        }
    }
}

/// The time limit for reading an error's body: its status is already known.
pub(super) const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// The size of an error's body, or of a body that is no stream.
pub(super) const ERROR_BODY_BYTES: usize = 64 * 1024;
/// A whole JSON response.
pub(super) const UNARY_BYTES: usize = 16 * 1024 * 1024;
/// Header lines of a response.
pub(super) const HEADER_LINES: usize = 100;
/// Headers of an HTTP/2 response.
pub(super) const HEADER_BYTES: u32 = 64 * 1024;
