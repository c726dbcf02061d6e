//! What a host makes an engine of, and what it gives to a run.

use std::collections::HashMap;
use std::sync::Arc;

use base::clock::Clock;
use model::{Catalogue, Journal, ProfileStore, RatioStore};
use provider::RequestHost;

use super::compaction::{CompactionOptions, PruningOptions};
use super::context::ContextGuard;
use super::events::EventQueue;
use super::failover::FailoverOptions;
use super::limits::{Budgets, GovernorOptions};
use super::providers::ProviderEntry;
use super::shared::JournalMode;
use super::state::RunControl;
use super::tasks::Tasks;
use crate::tools::ToolHost;

/// What connects a run and its host.
pub(crate) struct RunHandles {
    /// Runs its tools.
    pub host: Arc<dyn ToolHost>,
    /// Receives its events.
    pub queue: Arc<EventQueue>,
    /// Abort and steering.
    pub control: Arc<RunControl>,
    /// Inspects its requests before they are sent.
    pub hook: Option<Arc<dyn RequestHost>>,
}

/// Parts an engine is made of.
pub(crate) struct EngineParts {
    /// Providers by the name a context uses.
    pub providers: HashMap<String, ProviderEntry>,
    /// The known models.
    pub catalogue: Catalogue,
    /// Where turns are committed; `None` stores nothing.
    pub journal: Option<Arc<dyn Journal>>,
    /// How much of a run it gets.
    pub journal_mode: JournalMode,
    /// Time and ids.
    pub clock: Clock,
    /// Where runs live.
    pub tasks: Tasks,
    /// Limit of one tool in milliseconds, where neither the tool nor the context names one.
    pub tool_timeout_ms: Option<u64>,
    /// How room is made in a full window; `None` for never.
    pub compaction: Option<CompactionOptions>,
    /// When old tool results are pruned; `None` for never.
    pub pruning: Option<PruningOptions>,
    /// When a run gets a warning for its window, or is refused for it.
    pub guard: ContextGuard,
    /// The limits of spending.
    pub budgets: Budgets,
    /// How runs go on when a profile or a model fails.
    pub failover: FailoverOptions,
    /// How calls are held back for their provider's rate limits; `None` for never.
    pub governor: Option<GovernorOptions>,
    /// Where the state of profiles is stored; `None` for in memory only.
    pub profiles: Option<Arc<dyn ProfileStore>>,
    /// Where it is stored how models count tokens; `None` for in memory only.
    pub ratios: Option<Arc<dyn RatioStore>>,
}
