//! Calls that a ledger in PostgreSQL does not have: each is refused with what to use instead.
//!
//! It must never answer as if there were nothing stored.

use model::PortFuture;

use crate::connect::error::unsupported;

/// The answer of a call that is not there.
pub(crate) fn missing<'a, T: Send + 'a>(what: &str, instead: &str) -> PortFuture<'a, T> {
    Box::pin(std::future::ready(Err(unsupported(what, instead))))
}
