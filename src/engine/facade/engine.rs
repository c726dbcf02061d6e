//! The engine as a host uses it: made of parts, it starts runs, answers what is known of them, and closes.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::telemetry::Instrument as _;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::active_run::ActiveRun;
use super::compaction::{
    CompactionOptions, ManualCompaction, ManualParts, PruningOptions, compact_session, compactor,
};
use super::context::{CacheChainStore, Calibrations, PrefixCache, offer_recall};
use super::count::{CountParts, count};
use super::drive::{Driver, Fallback, drive};
use super::events::{EventQueue, ReachableRun, RecordKind};
use super::failover::{FailoverOptions, FallbackChain, Keyring, fallback_chain};
use super::limits::Governor;
use super::parts::{EngineParts, RunHandles};
use super::providers::{ProviderEntry, Providers};
use super::recovery;
use super::shared::{EngineShared, JournalMode, engine_closed};
use super::state::{Bounds, RequestTemplate, Run, RunControl, SessionLanes};
use super::tasks::Tasks;
use crate::tools::{ToolHost, ToolSet, ToolSetCache};
use base::error::{EngineError, ErrorCode};
use base::telemetry;
use model::{
    AgentPhase, AssembledContext, Block, BudgetState, CompactionResult, InputError,
    InterruptedTurn, LimitState, ModelFilter, ModelInfo, ProfileState, RunNames, RunRegistration,
    RunWarning, StreamEvent, TokenCount,
};
use provider::{RequestHost, TurnHeaders};
use turn::fallback::Plan;

/// What a context's names stand for, checked.
struct Resolved<'a> {
    entry: &'a ProviderEntry,
    model: Arc<ModelInfo>,
    tool_set: Arc<ToolSet>,
    headers: TurnHeaders,
}

/// Runs turns.
pub(crate) struct Engine {
    shared: Arc<EngineShared>,
    providers: Providers,
    compaction: Option<CompactionOptions>,
    pruning: Option<PruningOptions>,
    failover: FailoverOptions,
    tool_timeout_ms: Option<u64>,
    tool_sets: ToolSetCache,
    tasks: Tasks,
    closed: AtomicBool,
}

impl Engine {
    /// An engine of these parts.
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
        let keys = Keyring::new(profiles, parts.profiles, policy, parts.clock.clone());
        let ledger = parts.journal.as_ref().map(|journal| journal.id()).unwrap_or_default();
        Self {
            shared: Arc::new(EngineShared {
                calibrations: Calibrations::new(parts.ratios, parts.clock.clone()),
                governor: Governor::new(parts.governor, parts.clock.clone()),
                keys: Arc::new(keys),
                clock: parts.clock,
                lanes: SessionLanes::of(ledger),
                journal: parts.journal,
                mode: parts.journal_mode,
                prefixes: PrefixCache::default(),
                chains: CacheChainStore::default(),
                guard: parts.guard,
                budgets: parts.budgets,
                closing: CancellationToken::new(),
            }),
            providers: Providers::new(parts.providers, parts.catalogue),
            compaction: parts.compaction,
            pruning: parts.pruning,
            failover: parts.failover,
            tool_timeout_ms: parts.tool_timeout_ms,
            tool_sets: ToolSetCache::default(),
            tasks: parts.tasks,
            closed: AtomicBool::new(false),
        }
    }

    /// Starts a run and returns at once. `stream_start` is in the queue when this returns, or among the stored events. A
    /// `control` that is aborted already makes a run that calls no model. `hook` inspects each request before it is sent.
    ///
    /// # Errors
    /// The engine is closed, the provider or the model is unknown, or a tool's schema does not compile. Nothing was
    /// written or sent then.
    pub(crate) fn start(
        &self,
        context: AssembledContext,
        host: Arc<dyn ToolHost>,
        queue: Arc<EventQueue>,
        control: Arc<RunControl>,
        hook: Option<Arc<dyn RequestHost>>,
    ) -> Result<(), EngineError> {
        let blank = |block: &Block| block.as_text().is_some_and(|text| text.trim().is_empty());
        if context.current_message.blocks.iter().all(blank) {
            // No provider takes an empty message.
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
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        self.prepare_tools(&mut context)?;
        let resolved = self.resolve(&context)?;
        self.shared.guard.admits(&context, &resolved.model)?;
        let queue = Arc::clone(&handles.queue);
        let prepared = self.prepare(context, resumed, resolved, handles)?;
        let PreparedRun { driver, notes } = prepared;
        let (run, shared) = (&driver.active.run, &self.shared);
        let reachable =
            Arc::new(ReachableRun { control: Arc::clone(&run.control), queue: Arc::clone(&queue) });
        let registration = self.register(run, &queue, &reachable);
        let ticket =
            shared.journal.as_ref().map(|_| shared.lanes.queue(&run.context.session_label));
        queue.phase(AgentPhase::Start, run.started_ms);
        // Once a run: one that goes on after stored events has it among them.
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
        let driving = drive(driver, ticket, notes).instrument(span);
        let task = AssertUnwindSafe(driving).catch_unwind();
        self.tasks.spawn(async move {
            if task.await.is_err() {
                // A defect of ours must not leave the host waiting: its result is rejected.
                queue.host(
                    RecordKind::Defect,
                    "a run ended by a defect of the engine; its turn was not committed",
                );
            }
            queue.stop_storing();
            drop((reachable, registration));
        });
        Ok(())
    }

    /// A run of a checked context, ready to be driven.
    fn prepare(
        &self,
        context: AssembledContext,
        resumed: Option<String>,
        resolved: Resolved<'_>,
        handles: RunHandles,
    ) -> Result<PreparedRun, EngineError> {
        let Resolved { entry, model, tool_set, headers } = resolved;
        let RunHandles { host, queue, control, hook } = handles;
        let shared = &self.shared;
        let FallbackChain { targets, candidates, warnings } = fallback_chain(
            &self.providers,
            &self.failover,
            &shared.guard,
            &context,
            entry,
            &model,
        )?;
        let pin = context.auth_profile_id.as_deref();
        let mut fallbacks = Vec::with_capacity(targets.len());
        for target in targets {
            let compactor = match &self.compaction {
                Some(options) => {
                    let made = compactor(&self.providers, options, &self.failover, &target, pin)?;
                    Some(Arc::new(made))
                }
                None => None,
            };
            fallbacks.push(Fallback { target, compactor });
        }
        let Some(Fallback { target, compactor }) = fallbacks.first().cloned() else {
            return Err(EngineError::new(ErrorCode::Internal, "a run has no model to call"));
        };
        let sticky = shared.keys.sticky(&context.session_label, &context.provider);
        let clock = &shared.clock;
        let tool_timeout = context.tool_timeout_ms.or(self.tool_timeout_ms);
        let run = Run {
            resumes: resumed.is_some(),
            turn_id: resumed.unwrap_or_else(|| clock.new_id()),
            tool_set,
            target,
            plan: Plan::new(candidates, sticky.clone()).waiting_at_most(self.failover.max_wait()),
            profile: sticky,
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
        let driver = Driver {
            active: ActiveRun { shared: Arc::clone(shared), run, queue },
            fallbacks,
            compactor,
            pruning: self.pruning,
            host,
            tool_timeout: tool_timeout.map(Duration::from_millis),
            recalls: self.recalls(),
        };
        Ok(PreparedRun { driver, notes: warnings })
    }

    /// Registers a run with the journal that records turns as they go on, and its events with it.
    fn register(
        &self,
        run: &Run,
        queue: &Arc<EventQueue>,
        reachable: &Arc<ReachableRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        let shared = &self.shared;
        let journal = shared.journal.as_ref().filter(|_| shared.mode == JournalMode::Full)?;
        let names = RunNames {
            turn_id: run.turn_id.clone(),
            run_id: run.context.run_id.clone(),
            session_label: run.context.session_label.clone(),
            resumes: run.resumes,
        };
        let weak: Weak<ReachableRun> = Arc::downgrade(reachable);
        let registration = journal.register(names, weak)?;
        if registration.stores_events() {
            queue.store_with(Arc::clone(&registration));
        }
        Some(registration)
    }

    /// Whether the model gets the tool `recall`.
    fn recalls(&self) -> bool {
        let asked = self.compaction.as_ref().is_some_and(|options| options.recall);
        self.shared.journal.is_some() && asked
    }

    /// Adds the engine's own tools to those of a context.
    fn prepare_tools(&self, context: &mut AssembledContext) -> Result<(), EngineError> {
        if self.recalls() { offer_recall(context) } else { Ok(()) }
    }

    /// What a context's names stand for.
    fn resolve(&self, context: &AssembledContext) -> Result<Resolved<'_>, EngineError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(engine_closed());
        }
        let entry = self.providers.named(&context.provider)?;
        let model =
            self.providers.model(&context.provider, &context.model, entry.provider.api())?;
        let tool_set = self
            .tool_sets
            .get_or_compile(&context.tools_json, &context.tools)
            .map_err(EngineError::context)?;
        let headers = TurnHeaders::check(&context.request.headers).map_err(EngineError::context)?;
        Ok(Resolved { entry, model, tool_set, headers })
    }

    /// Counts what a run of `context` would send with its first call, from the session's history as it is now: a running
    /// turn of the session is not waited for. With `exact` the provider is asked where its API can count, and `hook`
    /// inspects that request.
    ///
    /// # Errors
    /// As [`Engine::start`]; the future's: the ledger failed, or the provider did.
    pub(crate) fn count_tokens(
        &self,
        mut context: AssembledContext,
        exact: bool,
        hook: Option<Arc<dyn RequestHost>>,
    ) -> Result<impl Future<Output = Result<TokenCount, EngineError>> + Send + use<>, EngineError>
    {
        self.prepare_tools(&mut context)?;
        let Resolved { entry, model, tool_set, headers } = self.resolve(&context)?;
        let template = RequestTemplate::of(&context, headers, hook);
        let parts = CountParts::new(&self.failover, entry, model, context, tool_set, template);
        Ok(count(Arc::clone(&self.shared), parts, exact))
    }

    /// Compacts a session now. `None` where there is nothing to summarise, or `cancel` came first. `host` inspects the
    /// summariser's requests before they are sent.
    ///
    /// # Errors
    /// The session, the provider or the model is unknown; the summariser failed; the ledger did. The history is as it was.
    pub(crate) async fn compact(
        &self,
        asked: ManualCompaction,
        cancel: CancellationToken,
        host: Option<Arc<dyn RequestHost>>,
    ) -> Result<Option<CompactionResult>, EngineError> {
        let parts = ManualParts {
            shared: &self.shared,
            providers: &self.providers,
            options: self.compaction.as_ref(),
            failover: &self.failover,
        };
        compact_session(parts, asked, cancel, host).await
    }

    /// The turns that were begun, have not ended, and run nowhere; oldest first.
    ///
    /// # Errors
    /// `no_ledger`; any of storage.
    pub(crate) async fn recover(&self) -> Result<Vec<InterruptedTurn>, EngineError> {
        recovery::list(&self.shared).await
    }

    /// The context an interrupted turn was begun with, without history, headers and functions: JSON.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub(crate) async fn interrupted_context(&self, turn_id: &str) -> Result<String, EngineError> {
        recovery::context(&self.shared, turn_id).await
    }

    /// Resumes an interrupted turn from its last commit point, as [`Engine::start`] starts a new one. `context` is its
    /// own, with the tools the host has now.
    ///
    /// # Errors
    /// As [`Engine::start`], and `no_ledger`. That the turn cannot be resumed any more is the run's result.
    pub(crate) fn resume(
        &self,
        turn_id: String,
        context: AssembledContext,
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        recovery::journal_of(&self.shared)?;
        self.spawn(context, Some(turn_id), handles)
    }

    /// Closes an interrupted turn as failed with the code `interrupted`. What it produced stays, and is part of the
    /// session where the session has not gone on without it.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub(crate) async fn discard(&self, turn_id: &str) -> Result<(), EngineError> {
        recovery::discard(&self.shared, turn_id).await
    }

    /// The models that the engine knows, by provider and name.
    #[must_use]
    pub(crate) fn models(&self, filter: &ModelFilter) -> Vec<Arc<ModelInfo>> {
        self.providers.models(filter)
    }

    /// The state of the auth profiles, as the ledger has it now.
    pub(crate) async fn profiles(&self) -> Vec<ProfileState> {
        self.shared.keys.states().await
    }

    /// Forgets the failures of an auth profile.
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

    /// The balances of the budgets that something was spent of, in the order of the options.
    #[must_use]
    pub(crate) fn budgets(&self) -> Vec<BudgetState> {
        self.shared.budgets.states()
    }

    /// Takes no more runs and waits until the running ones have committed.
    pub(crate) async fn close(&self) {
        self.refuse_runs();
        self.tasks.finished().await;
    }

    /// Closes the connections that are unused. Later requests open new ones.
    pub(crate) fn disconnect(&self) {
        for (_, entry) in self.providers.entries() {
            entry.provider.disconnect();
        }
    }

    /// Takes no more runs, and ends the exact counts that are under way.
    pub(crate) fn refuse_runs(&self) {
        self.closed.store(true, Ordering::Release);
        self.shared.closing.cancel();
    }
}

/// A run that is ready to be driven.
struct PreparedRun {
    driver: Driver,
    /// Warnings from before the run.
    notes: Vec<RunWarning>,
}
