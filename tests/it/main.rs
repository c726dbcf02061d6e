//! The integration tests: one binary, one module per subject. It must never hold a test itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a helper of a test may fail it, and reports on the terminal what it ran or skipped"
)]

mod recorded;
mod recorded_anthropic;
mod recorded_responses;
mod recordings;
