//! Projection: converts the messages of the ledger or the host to what an API accepts (docs/rules/projection.md#passes).
//!
//! Pure, total, deterministic and idempotent. It works piece by piece, so that the encoded prefix of a session can be
//! reused. Its output must never be written back: the ledger stores the original messages.

mod clean;
mod error;
mod ids;
mod merge;
mod pair;
mod piece;
mod projector;
mod provider_run;
mod reasoning;
mod report;
mod signature;
mod target;

pub use error::TranscriptError;
pub use merge::join;
#[cfg(test)]
pub(crate) use merge::needs_merge;
pub use projector::Projector;
#[cfg(any(test, feature = "testing"))]
pub use projector::project_all;
pub use report::Dropped;
pub use target::Target;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validator;
