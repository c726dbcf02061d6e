//! Starts runs: checks a context, creates its run, registers it, and spawns its task.
//!
//! It must never write or send anything before the context was checked.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::telemetry::Instrument as _;
use futures_util::FutureExt as _;

use super::super::active_run::ActiveRun;
use super::super::compaction::compactor;
use super::super::context::{Joining, JoiningTools, check_choice, offer_recall};
use super::super::count::{CountParts, count};
use super::super::drive::{Driver, Fallback, OutputCheck, drive};
use super::super::events::RecordKind;
use super::super::failover::{FallbackChain, fallback_chain};
use super::super::limits::policy;
use super::super::parts::{QueuedTurn, RunHandles};
use super::super::providers::ProviderEntry;
use super::super::recovery;
use super::super::shared::{JournalMode, engine_closed};
use super::super::state::{Bounds, RequestTemplate, Run, StepChanges, TurnItems};
use super::engine::Engine;
use base::error::{EngineError, ErrorCode};
use base::telemetry;
use model::{
    AgentPhase, AssembledContext, Block, InputError, ModelInfo, RunWarning, StreamEvent, TokenCount,
};
use provider::{RequestHost, TurnHeaders};
use tools::ToolSet;
use turn::fallback::Plan;

/// The parts that a context names, resolved.
struct Resolved<'a> {
    entry: &'a ProviderEntry,
    model: Arc<ModelInfo>,
    tool_set: Arc<ToolSet>,
    headers: TurnHeaders,
}

/// A run that is ready to start.
struct PreparedRun {
    driver: Box<Driver>,
    /// Warnings from before the run.
    notes: Vec<RunWarning>,
    /// The tools that it waits for.
    joining: Option<Joining>,
}

impl Engine {
    /// Starts a run and returns immediately. `stream_start` is in the queue when this returns, or among the stored events. With
    /// an aborted control the run calls no model.
    ///
    /// # Errors
    /// The engine is closed, the provider or the model is unknown, or a tool's schema does not compile. Nothing is written or
    /// sent then.
    pub(crate) fn start(
        &self,
        context: AssembledContext,
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        let blank = |block: &Block| block.as_text().is_some_and(|text| text.trim().is_empty());
        if context.current_message.blocks.iter().all(blank) {
            // No provider accepts an empty message.
            return Err(EngineError::context(InputError {
                path: "currentMessage.content".to_owned(),
                message: "is empty; pass a text or an image".to_owned(),
            }));
        }
        if !context.current_turn.is_empty() && self.shared.journal.is_some() {
            return Err(EngineError::context(InputError {
                path: "currentTurn".to_owned(),
                message:
                    "is for an engine without a ledger, which stores whole turns; leave it out"
                        .to_owned(),
            }));
        }
        self.spawn(context, None, handles)
    }

    /// Resumes an interrupted turn from its last commit point, as [`Engine::start`] starts a new one. `context` is the turn's
    /// context with the current tools of the host.
    ///
    /// # Errors
    /// As [`Engine::start`], and `no_ledger`. A turn that cannot be resumed any more is reported in the run's result.
    pub(crate) fn resume(
        &self,
        turn_id: String,
        context: AssembledContext,
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        recovery::journal_of(&self.shared)?;
        self.spawn(context, Some(turn_id), handles)
    }

    /// Counts the tokens of the first call of a run of `context`, with the session's current history: it does not wait for a
    /// running turn of the session. With `exact` the provider counts, where its API supports that, and `hook` inspects that
    /// request.
    ///
    /// # Errors
    /// As [`Engine::start`]; of the future: the ledger or the provider failed.
    pub(crate) fn count_tokens(
        &self,
        mut context: AssembledContext,
        exact: bool,
        hook: Option<Arc<dyn RequestHost>>,
        joining: Option<JoiningTools>,
    ) -> Result<impl Future<Output = Result<TokenCount, EngineError>> + Send + use<>, EngineError>
    {
        self.prepare_tools(&mut context, joining.as_ref())?;
        let Resolved { entry, model, tool_set, headers } = self.resolve(&context)?;
        let template = RequestTemplate::of(&context, headers, hook);
        let parts = CountParts::new(&self.failover, entry, model, context, tool_set, template);
        Ok(count(Arc::clone(&self.shared), parts, self.joining(joining), exact))
    }

    fn joining(&self, tools: Option<JoiningTools>) -> Option<Joining> {
        tools.map(|tools| Joining { tools, sets: Arc::clone(&self.tool_sets) })
    }

    fn spawn(
        &self,
        mut context: AssembledContext,
        resumed: Option<String>,
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        self.check_external(&context)?;
        self.prepare_tools(&mut context, handles.joining.as_ref())?;
        if context.planner.is_none() {
            context.planner.clone_from(&self.planner);
        }
        let resolved = self.resolve(&context)?;
        self.shared.guard.admits(&context, &resolved.model)?;
        let queue = Arc::clone(&handles.queue);
        let mut handles = handles;
        let (queued, ended) = match handles.queued.take() {
            Some(queued) => {
                let QueuedTurn { turn_id, items, named, earlier, leaves, prompt, budget, ended } =
                    queued;
                let taken = TurnItems { items, named, earlier, leaves, prompt, budget };
                (Some((turn_id, taken)), Some(ended))
            }
            None => (None, None),
        };
        let prepared = self.prepare(context, (resumed, queued), resolved, handles)?;
        let PreparedRun { mut driver, notes, joining } = prepared;
        driver.registration = driver.active.register();
        let (run, shared) = (&driver.active.run, &self.shared);
        let ticket =
            shared.journal.as_ref().map(|_| shared.lanes.queue(&run.context.session_label));
        if let (Some(registration), Some(ticket)) = (&driver.registration, &ticket) {
            registration.waits(ticket);
        }
        queue.phase(AgentPhase::Start, run.started_ms);
        // Once per run: a resumed run has it among its stored events.
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
        // On the heap before anything wraps it: each wrapper would copy it.
        let driving = Box::pin(drive(driver, ticket, notes, joining)).instrument(span);
        let task = AssertUnwindSafe(driving).catch_unwind();
        self.tasks.spawn(async move {
            if task.await.is_err() {
                // A panic of the engine must not leave the host waiting: its result promise is rejected.
                queue.host(
                    RecordKind::Defect,
                    "a run ended by a defect of the engine; its turn was not committed",
                );
            }
            queue.stop_storing();
            drop(ended);
        });
        Ok(())
    }

    /// Refuses tools whose calls wait for a result, if there is no place to wait in.
    fn check_external(&self, context: &AssembledContext) -> Result<(), EngineError> {
        let shared = &self.shared;
        if shared.journal.is_some() && shared.mode == JournalMode::Full {
            return Ok(());
        }
        match context.tools.iter().position(|tool| tool.external) {
            None => Ok(()),
            Some(at) => Err(EngineError::context(InputError {
                path: format!("tools[{at}].run"),
                message: "is missing, so that its calls wait for `provideToolResult`, and waiting needs a ledger with \
                          `journal: 'full'`"
                    .to_owned(),
            })),
        }
    }

    /// Creates the run of a checked context.
    fn prepare(
        &self,
        context: AssembledContext,
        (resumed, queued): (Option<String>, Option<(String, TurnItems)>),
        resolved: Resolved<'_>,
        handles: RunHandles,
    ) -> Result<PreparedRun, EngineError> {
        let Resolved { entry, model, tool_set, headers } = resolved;
        let RunHandles { host, queue, control, hook, joining, queued: _ } = handles;
        let resumes = resumed.is_some();
        let (named, mut queued) = queued.unzip();
        let leaves = queued.as_mut().and_then(|it: &mut TurnItems| it.leaves.take());
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
        let output = OutputCheck::of(&context).map_err(EngineError::context)?;
        let sticky = shared.keys.sticky(&context.session_label, &context.provider);
        let clock = &shared.clock;
        let tool_timeout = context.tool_timeout_ms.or(self.tool_timeout_ms);
        let run = Run {
            resumes,
            turn_id: resumed.or(named).unwrap_or_else(|| clock.new_id()),
            queued,
            leaves,
            tool_set,
            target,
            plan: Plan::new(candidates, sticky.clone())
                .waiting_at_most(self.failover.max_wait())
                .retrying(self.failover.max_retries),
            profile: sticky,
            template: RequestTemplate::of(&context, headers, hook),
            bounds: Bounds {
                abort: control.abort_token(),
                deadline: clock.instant() + Duration::from_millis(context.timeout_ms),
                run: Some(Arc::clone(&control)),
            },
            approvals: Vec::new(),
            own_names: HashMap::new(),
            step: StepChanges::default(),
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
            output,
            recalls: self.recalls(),
            registration: None,
            continues: false,
        };
        let joining = self.joining(joining);
        Ok(PreparedRun { driver: Box::new(driver), notes: warnings, joining })
    }

    /// Whether the model gets the tool `recall`.
    fn recalls(&self) -> bool {
        let enabled = self.compaction.as_ref().is_some_and(|options| options.recall);
        self.shared.journal.is_some() && enabled
    }

    /// Adds the engine's own tools to those of a context, and leaves out what the policies forbid.
    fn prepare_tools(
        &self,
        context: &mut AssembledContext,
        joining: Option<&JoiningTools>,
    ) -> Result<(), EngineError> {
        if self.recalls() {
            offer_recall(context)?;
        }
        check_choice(context, joining.map(|joining| &*joining.may_have as &dyn Fn(&str) -> bool))
            .map_err(EngineError::context)?;
        if self.policies.is_empty() && context.policies.is_empty() {
            return Ok(());
        }
        policy::apply(context, &self.policies, joining.is_some()).map_err(EngineError::context)
    }

    /// Checks the tools, the choice of one and the headers of a context; `may_join`: whether a server may have a tool.
    ///
    /// # Errors
    /// The first that is wrong, by its path.
    pub(crate) fn check_tools(
        &self,
        context: &AssembledContext,
        may_join: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<(), InputError> {
        check_choice(context, may_join)?;
        self.tool_sets.get_or_compile(&context.tools_json, &context.tools)?;
        OutputCheck::of(context)?;
        TurnHeaders::check(&context.request.headers).map(drop)
    }

    /// Checks the names of the provider and the model of a context.
    ///
    /// # Errors
    /// `unknown_provider`, `unknown_model`.
    pub(crate) fn check_names(&self, context: &AssembledContext) -> Result<(), EngineError> {
        let entry = self.providers.named(&context.provider)?;
        self.providers.model(&context.provider, &context.model, entry.provider.api()).map(drop)
    }

    /// Resolves the names of a context.
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
}
