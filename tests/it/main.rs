//! The integration tests: one binary, one module per subject. It must never hold a test itself.

mod recorded;
mod recorded_anthropic;
