//! An open ledger, independent of its backend: one port for each use.
//!
//! It must never name a backend.

use std::sync::Arc;

use crate::{
    ApprovalStore, DeliveryStore, DispatchStore, Journal, LedgerAdmin, LedgerRead, MemoryStore,
    ProfileStore, PromptStore, QueueStore, RatioStore, ScheduleStore,
};

/// The ports of an open ledger.
#[derive(Clone)]
pub struct LedgerPorts {
    /// The port through which the engine commits.
    pub journal: Arc<dyn Journal>,
    /// The calls that wait for a decision.
    pub approvals: Arc<dyn ApprovalStore>,
    /// The state of auth profiles.
    pub profiles: Arc<dyn ProfileStore>,
    /// The stored token ratios of models.
    pub ratios: Arc<dyn RatioStore>,
    /// The port of a host's reads.
    pub read: Arc<dyn LedgerRead>,
    /// The port of a host's changes and maintenance.
    pub admin: Arc<dyn LedgerAdmin>,
    /// The port of the broker's queues.
    pub queue: Arc<dyn QueueStore>,
    /// The broker's outbox.
    pub deliveries: Arc<dyn DeliveryStore>,
    /// The broker's schedules.
    pub schedules: Arc<dyn ScheduleStore>,
    /// The files that system prompts have.
    pub prompts: Arc<dyn PromptStore>,
    /// The port of messages between agents.
    pub dispatches: Arc<dyn DispatchStore>,
    /// The port of the memory.
    pub memory: Arc<dyn MemoryStore>,
}

impl LedgerPorts {
    /// The ports of a backend that has them all.
    #[must_use]
    pub fn of<B>(backend: &Arc<B>) -> Self
    where
        B: Journal
            + ApprovalStore
            + ProfileStore
            + RatioStore
            + LedgerRead
            + LedgerAdmin
            + QueueStore
            + DeliveryStore
            + ScheduleStore
            + PromptStore
            + DispatchStore
            + MemoryStore
            + 'static,
    {
        Self {
            journal: Arc::clone(backend) as Arc<dyn Journal>,
            approvals: Arc::clone(backend) as Arc<dyn ApprovalStore>,
            profiles: Arc::clone(backend) as Arc<dyn ProfileStore>,
            ratios: Arc::clone(backend) as Arc<dyn RatioStore>,
            read: Arc::clone(backend) as Arc<dyn LedgerRead>,
            admin: Arc::clone(backend) as Arc<dyn LedgerAdmin>,
            queue: Arc::clone(backend) as Arc<dyn QueueStore>,
            deliveries: Arc::clone(backend) as Arc<dyn DeliveryStore>,
            schedules: Arc::clone(backend) as Arc<dyn ScheduleStore>,
            prompts: Arc::clone(backend) as Arc<dyn PromptStore>,
            dispatches: Arc::clone(backend) as Arc<dyn DispatchStore>,
            memory: Arc::clone(backend) as Arc<dyn MemoryStore>,
        }
    }
}
