//! The parts of an engine, and the handles of a run. It must never act.

use std::collections::HashMap;
use std::sync::Arc;

use base::clock::Clock;
use model::{
    ApprovalStore, Catalogue, Journal, Message, PlannerSettings, ProfileStore, RatioStore,
    RunPolicy, TurnBudget,
};
use provider::RequestHost;

use super::compaction::{CompactionOptions, PruningOptions};
use super::context::{ContextGuard, JoiningTools};
use super::events::EventQueue;
use super::failover::FailoverOptions;
use super::limits::{Budgets, GovernorOptions};
use super::providers::ProviderEntry;
use super::shared::JournalMode;
use super::state::{PromptSource, RunControl};
use super::tasks::Tasks;
use tools::ToolHost;

/// The handles that connect a run and its host.
pub(crate) struct RunHandles {
    /// Runs its tools.
    pub host: Arc<dyn ToolHost>,
    /// Receives its events.
    pub queue: Arc<EventQueue>,
    /// Abort and steering.
    pub control: Arc<RunControl>,
    /// Inspects its requests before they are sent.
    pub hook: Option<Arc<dyn RequestHost>>,
    /// Tools that join it when it begins.
    pub joining: Option<JoiningTools>,
    /// The messages of its session's queue that its turn takes; `None` for a run that no queue has started.
    pub queued: Option<QueuedTurn>,
}

/// A turn that a queue has started.
pub(crate) struct QueuedTurn {
    /// Its ULID.
    pub turn_id: String,
    /// The messages of the queue that it takes.
    pub items: Vec<String>,
    /// The dropped messages that it names.
    pub named: Vec<String>,
    /// The user messages before the context's current one.
    pub earlier: Vec<Message>,
    /// If the session's head is this turn, the new one starts a thread of its own under the same label.
    pub leaves: Option<String>,
    /// Its system prompt after a compaction; `None` where that never changes.
    pub prompt: Option<Box<dyn PromptSource>>,
    /// What it may spend.
    pub budget: Option<TurnBudget>,
    /// Dropped when the run has ended.
    pub ended: Box<dyn Send>,
}

/// The parts of an engine.
pub(crate) struct EngineParts {
    /// The providers, by the name that contexts use.
    pub providers: HashMap<String, ProviderEntry>,
    /// The known models.
    pub catalogue: Catalogue,
    /// Where turns are committed; `None` stores nothing.
    pub journal: Option<Arc<dyn Journal>>,
    /// How much of a run it records.
    pub journal_mode: JournalMode,
    /// The calls that wait for a decision; `None` without a ledger.
    pub approvals: Option<Arc<dyn ApprovalStore>>,
    /// Time and ids.
    pub clock: Clock,
    /// The tasks of the runs.
    pub tasks: Tasks,
    /// Limit of one tool in milliseconds, where neither the tool nor the context sets one.
    pub tool_timeout_ms: Option<u64>,
    /// How a full window is compacted; `None` for never.
    pub compaction: Option<CompactionOptions>,
    /// When old tool results are pruned; `None` for never.
    pub pruning: Option<PruningOptions>,
    /// When a run gets a warning because of its window, or is refused.
    pub guard: ContextGuard,
    /// The limits of spending.
    pub budgets: Budgets,
    /// What every run may do at most.
    pub policies: Vec<RunPolicy>,
    /// Who decides before a model is called, where a context does not say.
    pub planner: Option<Box<PlannerSettings>>,
    /// How runs continue when a profile or a model fails.
    pub failover: FailoverOptions,
    /// The options of the rate governor; `None` for off.
    pub governor: Option<GovernorOptions>,
    /// Where the state of profiles is stored; `None` for in memory only.
    pub profiles: Option<Arc<dyn ProfileStore>>,
    /// The store of the calibration; `None` for in memory only.
    pub ratios: Option<Arc<dyn RatioStore>>,
}
