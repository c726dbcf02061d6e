//! The engine: starts runs, drives them, and closes when they are done.
//!
//! Owns the driver, the event queue, control and the tasks. It must never know SQLite or JavaScript: it speaks to a
//! [`model::Journal`], a [`crate::tools::ToolHost`] and an [`EventQueue`].

mod alias;
mod batch;
mod budgets;
mod calibration;
mod call;
mod chain;
mod compaction;
mod control;
mod conversation;
mod count;
mod driver;
mod ending;
mod failover;
mod governor;
mod lookup;
mod opening;
mod outcome;
mod prefix;
mod pruning;
mod recall;
mod recent;
mod record;
mod recovery;
mod session;
mod sessions;
mod sink;
mod tasks;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base::telemetry::Instrument as _;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

pub use budgets::Budgets;
pub use compaction::{CompactionOptions, ContextGuard, ManualCompaction, Preset, Strategy};
use control::Reached;
pub use control::RunControl;
pub use failover::{FailoverOptions, Ladder};
pub use governor::GovernorOptions;
pub use pruning::PruningOptions;
pub use sink::{Batch, EventQueue, MERGE_ABOVE, Notify, RECORD_BYTES, RecordKind};
pub use tasks::Tasks;

use crate::tools::{ToolHost, ToolSet, ToolSetCache};
use base::clock::Clock;
use base::error::{EngineError, ErrorCode};
use base::telemetry;
use calibration::Calibrations;
use call::{Bounds, RequestTemplate};
use driver::Run;
use failover::{Chain, Keyring};
use governor::Governor;
use model::{
    AgentPhase, AssembledContext, Block, BudgetState, Catalogue, Enrolment, InputError, Journal,
    LimitState, ModelInfo, ProfileState, ProfileStore, RatioStore, RunNames, StreamEvent,
};
use provider::{Provider, ProviderKeys, RequestHost, TurnHeaders};
use turn::fallback::Plan;

/// A provider the engine can ask, and the keys it is asked with.
pub struct ProviderEntry {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// Its auth profiles.
    pub keys: ProviderKeys,
}

/// How much of a run the journal gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JournalMode {
    /// Every commit point: what was begun is known after a crash, and its finished tools are not run again.
    #[default]
    Full,
    /// The finished turn, as one transaction.
    Final,
}

/// What a run reaches of its host, and its host of it.
pub struct RunHandles {
    /// Who runs its tools.
    pub host: Arc<dyn ToolHost>,
    /// Where its events go.
    pub queue: Arc<EventQueue>,
    /// Abort and steering.
    pub control: Arc<RunControl>,
    /// Who looks at its requests before they are sent.
    pub hook: Option<Arc<dyn RequestHost>>,
}

/// What every run shares.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) mode: JournalMode,
    pub(crate) sessions: sessions::Sessions,
    pub(crate) prefixes: prefix::PrefixCache,
    pub(crate) chains: chain::Chains,
    pub(crate) pruning: Option<PruningOptions>,
    pub(crate) tool_timeout_ms: Option<u64>,
    pub(crate) compaction: Option<CompactionOptions>,
    pub(crate) guard: ContextGuard,
    pub(crate) budgets: Budgets,
    pub(crate) failover: FailoverOptions,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) governor: Governor,
    pub(crate) calibrations: Calibrations,
    /// Cancelled when the engine closes: what asks a provider for no run ends then.
    pub(crate) closing: CancellationToken,
}

/// Parts an engine is made of.
pub struct EngineParts {
    /// Providers by the name a context uses.
    pub providers: HashMap<String, ProviderEntry>,
    /// What is known of models.
    pub catalogue: Catalogue,
    /// Where turns are committed; `None` keeps nothing.
    pub journal: Option<Arc<dyn Journal>>,
    /// How much of a run it gets.
    pub journal_mode: JournalMode,
    /// Time and ids.
    pub clock: Clock,
    /// Where runs live.
    pub tasks: Tasks,
    /// Limit of one tool in milliseconds, where neither the tool nor the context names one.
    pub tool_timeout_ms: Option<u64>,
    /// How a full window is made room in; `None` for never.
    pub compaction: Option<CompactionOptions>,
    /// When old tool results are told shorter; `None` for never.
    pub pruning: Option<PruningOptions>,
    /// When a run is warned of its window, or refused for it.
    pub guard: ContextGuard,
    /// What may be spent.
    pub budgets: Budgets,
    /// How runs go on when a profile or a model fails.
    pub failover: FailoverOptions,
    /// How calls are held back for their provider's rate limits; `None` for never.
    pub governor: Option<GovernorOptions>,
    /// Where the state of profiles is kept; `None` keeps it in memory.
    pub profiles: Option<Arc<dyn ProfileStore>>,
    /// Where it is kept how models count tokens; `None` keeps it in memory.
    pub ratios: Option<Arc<dyn RatioStore>>,
}

/// What a context's names stand for, checked.
struct Resolved<'a> {
    entry: &'a ProviderEntry,
    model: Arc<ModelInfo>,
    tool_set: Arc<ToolSet>,
    headers: TurnHeaders,
}

/// Runs turns.
pub struct Engine {
    core: Arc<Core>,
    providers: HashMap<String, ProviderEntry>,
    catalogue: Catalogue,
    tool_sets: ToolSetCache,
    /// Models that were looked up, by provider and name.
    models: Mutex<HashMap<(String, String), Arc<ModelInfo>>>,
    tasks: Tasks,
    closed: AtomicBool,
}

impl Engine {
    /// An engine of these parts.
    #[must_use]
    pub fn new(parts: EngineParts) -> Self {
        let mut profiles: Vec<_> = parts
            .providers
            .iter()
            .flat_map(|(name, entry)| {
                entry.keys.profiles.iter().map(|profile| (name.clone(), Arc::clone(profile)))
            })
            .collect();
        profiles.sort_unstable_by(|(a, x), (b, y)| (a, &x.id).cmp(&(b, &y.id)));
        let policy = parts.failover.policy();
        let keys = Keyring::new(profiles, parts.profiles, policy, parts.clock.clone());
        Self {
            core: Arc::new(Core {
                failover: parts.failover,
                calibrations: Calibrations::new(parts.ratios, parts.clock.clone()),
                governor: Governor::new(parts.governor, parts.clock.clone()),
                keys: Arc::new(keys),
                clock: parts.clock,
                sessions: sessions::Sessions::of(
                    parts.journal.as_ref().map(|journal| journal.id()).unwrap_or_default(),
                ),
                journal: parts.journal,
                mode: parts.journal_mode,
                prefixes: prefix::PrefixCache::default(),
                chains: chain::Chains::default(),
                pruning: parts.pruning,
                tool_timeout_ms: parts.tool_timeout_ms,
                compaction: parts.compaction,
                guard: parts.guard,
                budgets: parts.budgets,
                closing: CancellationToken::new(),
            }),
            providers: parts.providers,
            catalogue: parts.catalogue,
            tool_sets: ToolSetCache::default(),
            models: Mutex::default(),
            tasks: parts.tasks,
            closed: AtomicBool::new(false),
        }
    }

    /// Starts a run and returns at once. `stream_start` is in the queue when this returns, or among the kept events. A `control` that is aborted
    /// already makes a run that asks nobody. `hook` looks at each request before it is sent.
    ///
    /// # Errors
    /// The engine is closed, the provider or the model is unknown, or a tool's schema does not compile. Nothing was
    /// written or sent then.
    pub fn start(
        &self,
        context: AssembledContext,
        host: Arc<dyn ToolHost>,
        queue: Arc<EventQueue>,
        control: Arc<RunControl>,
        hook: Option<Arc<dyn RequestHost>>,
    ) -> Result<(), EngineError> {
        let blank = |block: &Block| block.as_text().is_some_and(|text| text.trim().is_empty());
        if context.current_message.blocks.iter().all(blank) {
            // No provider takes a message that says nothing.
            return Err(EngineError::context(InputError {
                path: "currentMessage.content".to_owned(),
                message: "is empty; pass a text or an image".to_owned(),
            }));
        }
        self.spawn(context, None, RunHandles { host, queue, control, hook })
    }

    fn spawn(
        &self,
        mut context: AssembledContext,
        resumed: Option<String>,
        RunHandles { host, queue, control, hook }: RunHandles,
    ) -> Result<(), EngineError> {
        self.core.offer_recall(&mut context)?;
        let Resolved { entry, model, tool_set, headers } = self.resolve(&context)?;
        self.core.guard.admits(&context, &model)?;
        let Chain { chairs, seats, notes } = self.chain(&context, entry, &model)?;
        let sticky = self.core.keys.sticky(&context.session_label, &context.provider);
        let clock = &self.core.clock;
        let run = Run {
            resumes: resumed.is_some(),
            turn_id: resumed.unwrap_or_else(|| clock.new_id()),
            core: Arc::clone(&self.core),
            tool_set,
            provider: Arc::clone(&entry.provider),
            model,
            plan: Plan::new(seats, sticky.clone()).waiting_at_most(self.core.failover.max_wait()),
            profile: sticky,
            compactor: chairs.first().and_then(|chair| chair.compactor.clone()),
            chain: chairs,
            notes,
            queue: Arc::clone(&queue),
            host,
            template: RequestTemplate::of(&context, headers, hook),
            bounds: Bounds {
                abort: control.abort_token(),
                deadline: clock.instant() + Duration::from_millis(context.timeout_ms),
            },
            control,
            started: clock.instant(),
            started_ms: clock.now_ms(),
            context,
        };
        let reached =
            Arc::new(Reached { control: Arc::clone(&run.control), queue: Arc::clone(&queue) });
        let enrolment = self.enrol(&run, &reached);
        let place = self
            .core
            .journal
            .as_ref()
            .map(|_| self.core.sessions.queue(&run.context.session_label));
        queue.phase(AgentPhase::Start, run.started_ms);
        // Once a run: one that goes on after kept events has it among them.
        if !queue.has_begun() {
            queue.event(|seq| StreamEvent::StreamStart {
                run_id: run.context.run_id.clone(),
                session_label: run.context.session_label.clone(),
                target: run.context.target.clone(),
                seq,
            });
        }
        let span = telemetry::run_span(
            &run.turn_id,
            &run.context.run_id,
            &run.context.provider,
            &run.context.model,
        );
        let task = AssertUnwindSafe(run.drive(place).instrument(span)).catch_unwind();
        self.tasks.spawn(async move {
            if task.await.is_err() {
                // A defect of ours must not leave the host waiting: its result is rejected.
                queue.host(
                    RecordKind::Defect,
                    "a run ended by a defect of the engine; its turn was not committed",
                );
            }
            queue.forget();
            drop((reached, enrolment));
        });
        Ok(())
    }

    /// Makes a run known to the journal that keeps turns as they go on, and its events with them.
    fn enrol(&self, run: &Run, reached: &Arc<Reached>) -> Option<Arc<dyn Enrolment>> {
        let journal = self.core.journal.as_ref().filter(|_| self.core.mode == JournalMode::Full)?;
        let names = RunNames {
            turn_id: run.turn_id.clone(),
            run_id: run.context.run_id.clone(),
            session_label: run.context.session_label.clone(),
            resumes: run.resumes,
        };
        let weak: Weak<Reached> = Arc::downgrade(reached);
        let enrolment = journal.enrol(names, weak)?;
        if enrolment.keeps() {
            run.queue.keep(Arc::clone(&enrolment));
        }
        Some(enrolment)
    }

    /// What a context's names stand for.
    fn resolve(&self, context: &AssembledContext) -> Result<Resolved<'_>, EngineError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let entry = self.provider_named(&context.provider)?;
        let model = self.model_named(&context.provider, &context.model, entry.provider.api())?;
        let tool_set = self
            .tool_sets
            .get_or_compile(&context.tools_json, &context.tools)
            .map_err(EngineError::context)?;
        let headers = TurnHeaders::check(&context.request.headers).map_err(EngineError::context)?;
        Ok(Resolved { entry, model, tool_set, headers })
    }

    /// The state of the auth profiles, as the ledger has it now.
    pub async fn profiles(&self) -> Vec<ProfileState> {
        self.core.keys.states().await
    }

    /// Forgets the failures of an auth profile.
    ///
    /// # Errors
    /// `unknown_profile`; any of storage.
    pub async fn reset_profile(&self, id: &str) -> Result<(), EngineError> {
        self.core.keys.reset(id).await?;
        self.core.governor.forget(id);
        Ok(())
    }

    /// What is known of rate limits, by provider, profile and model.
    #[must_use]
    pub fn limits(&self) -> Vec<LimitState> {
        self.core.governor.states()
    }

    /// What the budgets stand at: those that have been paid from, by their place in the options.
    #[must_use]
    pub fn budgets(&self) -> Vec<BudgetState> {
        self.core.budgets.states()
    }

    /// Takes no more runs and waits until the running ones have committed.
    pub async fn close(&self) {
        self.refuse_runs();
        self.tasks.finished().await;
    }

    /// Closes the connections that nobody uses. For when nothing is asked any more: what is asked opens them anew.
    pub fn disconnect(&self) {
        for entry in self.providers.values() {
            entry.provider.disconnect();
        }
    }

    /// Takes no more runs, and ends the exact counts that are under way.
    pub fn refuse_runs(&self) {
        self.closed.store(true, Ordering::Release);
        self.core.closing.cancel();
    }
}

fn closed() -> EngineError {
    EngineError::new(ErrorCode::EngineClosed, "the engine is closed; make a new one")
}

#[cfg(test)]
mod tests;
