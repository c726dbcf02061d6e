//! An open ledger as the code above its backend holds it: each port of the one backend.
//!
//! It must never name a backend.

use std::sync::Arc;

use crate::{Journal, LedgerAdmin, LedgerRead, ProfileStore, RatioStore};

/// The ports of an open ledger.
#[derive(Clone)]
pub struct LedgerPorts {
    /// What the engine commits through.
    pub journal: Arc<dyn Journal>,
    /// The state of auth profiles.
    pub profiles: Arc<dyn ProfileStore>,
    /// How models count tokens.
    pub ratios: Arc<dyn RatioStore>,
    /// What a host reads.
    pub read: Arc<dyn LedgerRead>,
    /// What a host changes and maintains.
    pub admin: Arc<dyn LedgerAdmin>,
}

impl LedgerPorts {
    /// The ports of a backend that has them all.
    #[must_use]
    pub fn of<B>(backend: &Arc<B>) -> Self
    where
        B: Journal + ProfileStore + RatioStore + LedgerRead + LedgerAdmin + 'static,
    {
        Self {
            journal: Arc::clone(backend) as Arc<dyn Journal>,
            profiles: Arc::clone(backend) as Arc<dyn ProfileStore>,
            ratios: Arc::clone(backend) as Arc<dyn RatioStore>,
            read: Arc::clone(backend) as Arc<dyn LedgerRead>,
            admin: Arc::clone(backend) as Arc<dyn LedgerAdmin>,
        }
    }
}
