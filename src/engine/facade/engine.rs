//! The engine: construction, state queries, manual compaction, recovery, and close.
//!
//! It must never start a run: `start` does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::super::compaction::{
    CompactionOptions, ManualCompaction, ManualParts, PruningOptions, compact_session,
};
use super::super::context::{CacheChainStore, Calibrations, GivenConversations, PrefixCache};
use super::super::failover::{FailoverOptions, Keyring};
use super::super::limits::Governor;
use super::super::parts::EngineParts;
use super::super::providers::Providers;
use super::super::recovery;
use super::super::shared::{EngineShared, JournalMode};
use super::super::state::SessionLanes;
use super::super::tasks::Tasks;
use base::error::EngineError;
use model::{
    BudgetState, CompactionResult, InterruptedTurn, LimitState, ModelFilter, ModelInfo,
    PlannerSettings, ProfileState, RunPolicy,
};
use provider::RequestHost;
use tools::ToolSetCache;

/// Runs turns.
pub(crate) struct Engine {
    pub(super) shared: Arc<EngineShared>,
    pub(super) providers: Providers,
    pub(super) compaction: Option<CompactionOptions>,
    pub(super) pruning: Option<PruningOptions>,
    pub(super) failover: FailoverOptions,
    pub(super) tool_timeout_ms: Option<u64>,
    /// What every run may do at most.
    pub(super) policies: Vec<RunPolicy>,
    /// Who decides before a model is called, where a context does not say.
    pub(super) planner: Option<Box<PlannerSettings>>,
    pub(super) tool_sets: Arc<ToolSetCache>,
    pub(super) tasks: Tasks,
    pub(super) closed: AtomicBool,
}

impl Engine {
    /// Creates an engine from its parts.
    #[must_use]
    pub(crate) fn new(parts: EngineParts) -> Self {
        let mut profiles: Vec<_> = parts
            .providers
            .iter()
            .flat_map(|(name, entry)| {
                entry.keys.profiles.iter().map(|profile| (name.clone(), Arc::clone(profile)))
            })
            .collect();
        profiles.sort_unstable_by(|(a, x), (b, y)| (a, &x.id).cmp(&(b, &y.id)));
        let policy = parts.failover.policy();
        let governor = Governor::new(parts.governor, parts.clock.clone(), parts.profiles.clone());
        let keys = Keyring::new(profiles, parts.profiles, policy, parts.clock.clone());
        let ledger = parts.journal.as_ref().map(|journal| journal.id()).unwrap_or_default();
        Self {
            shared: Arc::new(EngineShared {
                calibrations: Calibrations::new(parts.ratios, parts.clock.clone()),
                governor,
                keys: Arc::new(keys),
                clock: parts.clock,
                lanes: SessionLanes::of(ledger),
                journal: parts.journal,
                mode: parts.journal_mode,
                approvals: parts.approvals,
                prefixes: PrefixCache::default(),
                chains: CacheChainStore::default(),
                given: GivenConversations::default(),
                guard: parts.guard,
                budgets: parts.budgets,
                closing: CancellationToken::new(),
            }),
            providers: Providers::new(parts.providers, parts.catalogue),
            compaction: parts.compaction,
            pruning: parts.pruning,
            failover: parts.failover,
            tool_timeout_ms: parts.tool_timeout_ms,
            policies: parts.policies,
            planner: parts.planner,
            tool_sets: Arc::default(),
            tasks: parts.tasks,
            closed: AtomicBool::new(false),
        }
    }

    /// Compacts a session now. `None` where there is nothing to summarise, or `cancel` came first. `host` inspects the
    /// summariser's requests before they are sent.
    ///
    /// # Errors
    /// The session, the provider or the model is unknown; the summariser failed; the ledger failed. The history is unchanged.
    pub(crate) async fn compact(
        &self,
        request: ManualCompaction,
        cancel: CancellationToken,
        host: Option<Arc<dyn RequestHost>>,
    ) -> Result<Option<CompactionResult>, EngineError> {
        let parts = ManualParts {
            shared: &self.shared,
            providers: &self.providers,
            options: self.compaction.as_ref(),
            failover: &self.failover,
        };
        compact_session(parts, request, cancel, host).await
    }

    /// The turns that were begun, have not ended, and run nowhere; oldest first.
    ///
    /// # Errors
    /// `no_ledger`; any of storage.
    pub(crate) async fn recover(&self) -> Result<Vec<InterruptedTurn>, EngineError> {
        recovery::list(&self.shared).await
    }

    /// The context of an interrupted turn, without history, headers and functions: JSON.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub(crate) async fn interrupted_context(&self, turn_id: &str) -> Result<String, EngineError> {
        recovery::context(&self.shared, turn_id).await
    }

    /// Closes an interrupted turn as failed with the code `interrupted`. Its output stays, and is part of the session unless
    /// the session has continued without it.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub(crate) async fn discard(&self, turn_id: &str) -> Result<(), EngineError> {
        recovery::discard(&self.shared, turn_id).await
    }

    /// The names of its providers.
    pub(crate) fn provider_names(&self) -> Vec<&str> {
        self.providers.names()
    }

    /// The models of the engine, by provider and name.
    #[must_use]
    pub(crate) fn models(&self, filter: &ModelFilter) -> Vec<Arc<ModelInfo>> {
        self.providers.models(filter)
    }

    /// The current state of the auth profiles, read from the ledger.
    pub(crate) async fn profiles(&self) -> Vec<ProfileState> {
        self.shared.keys.states().await
    }

    /// Resets the failures of an auth profile.
    ///
    /// # Errors
    /// `unknown_profile`; any of storage.
    pub(crate) async fn reset_profile(&self, id: &str) -> Result<(), EngineError> {
        self.shared.keys.reset(id).await?;
        self.shared.governor.forget(id);
        Ok(())
    }

    /// The known rate limits, by provider, profile and model.
    #[must_use]
    pub(crate) fn limits(&self) -> Vec<LimitState> {
        self.shared.governor.states()
    }

    /// The balances of the used budgets, in the order of the options.
    #[must_use]
    pub(crate) fn budgets(&self) -> Vec<BudgetState> {
        self.shared.budgets.states()
    }

    /// Refuses new runs and waits until the running ones have committed.
    pub(crate) async fn close(&self) {
        self.refuse_runs();
        self.tasks.finished().await;
        self.shared.given.clear();
    }

    /// Closes the connections and drops the keys, when nothing is requested any more.
    pub(crate) fn disconnect(&self) {
        for (_, entry) in self.providers.entries() {
            entry.provider.disconnect();
            for profile in &entry.keys.profiles {
                profile.forget();
            }
        }
    }

    /// Whether each step of a turn is stored as it is taken.
    #[must_use]
    pub(crate) fn records_steps(&self) -> bool {
        self.shared.journal.is_some() && self.shared.mode == JournalMode::Full
    }

    /// Cancelled when the engine closes.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.shared.closing
    }

    /// Refuses new runs, and cancels the exact counts under way.
    pub(crate) fn refuse_runs(&self) {
        self.closed.store(true, Ordering::Release);
        self.shared.closing.cancel();
    }
}
