//! The parts that all runs of an engine share.
//!
//! It must never act: each part has its own module.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::{
    CacheChainStore, Calibrations, ContextGuard, GivenConversations, PrefixCache,
};
use super::failover::Keyring;
use super::limits::{Budgets, Governor};
use super::state::SessionLanes;
use base::clock::Clock;
use base::error::{EngineError, ErrorCode};
use model::{ApprovalStore, Journal};

/// How much of a run the journal records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JournalMode {
    /// Every commit point: after a crash the turn can be resumed, and its finished tools are not run again.
    #[default]
    Full,
    /// The finished turn, as one transaction.
    Final,
}

/// The parts that all runs of an engine use.
pub(crate) struct EngineShared {
    pub(crate) clock: Clock,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) mode: JournalMode,
    /// The calls that wait for a decision; `None` without a ledger.
    pub(crate) approvals: Option<Arc<dyn ApprovalStore>>,
    pub(crate) lanes: SessionLanes,
    pub(crate) prefixes: PrefixCache,
    pub(crate) chains: CacheChainStore,
    pub(crate) given: GivenConversations,
    pub(crate) calibrations: Calibrations,
    pub(crate) guard: ContextGuard,
    pub(crate) budgets: Budgets,
    pub(crate) governor: Governor,
    pub(crate) keys: Arc<Keyring>,
    /// Cancelled when the engine closes: it ends the counts, which close() does not wait for.
    pub(crate) closing: CancellationToken,
}

/// The error of an engine that is closed.
pub(crate) fn engine_closed() -> EngineError {
    EngineError::new(ErrorCode::EngineClosed, "the engine is closed; make a new one")
}
