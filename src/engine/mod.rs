//! The engine: starts runs, drives them, and closes when they are done.
//!
//! Owns the driver, the event queue, control and the tasks. It must never know SQLite or JavaScript: it speaks to a
//! [`crate::model::Journal`], a [`crate::tools::ToolHost`] and an [`EventQueue`].

mod attempt;
mod batch;
mod call;
mod control;
mod conversation;
mod driver;
mod ending;
mod outcome;
mod prefix;
mod session;
mod sessions;
mod sink;
mod tasks;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::telemetry::Instrument as _;
use futures_util::FutureExt as _;

pub use control::RunControl;
pub use sink::{Batch, EventQueue, MERGE_ABOVE, Notify, RecordKind};
pub use tasks::Tasks;

use crate::clock::Clock;
use crate::error::{EngineError, ErrorCode};
use crate::model::{
    AgentPhase, Api, AssembledContext, Catalogue, Failure, InputError, Journal, ModelInfo,
    StreamEvent,
};
use crate::provider::{Credential, Provider};
use crate::telemetry;
use crate::tools::{ToolHost, ToolSetCache};
use driver::Run;

/// A provider the engine can ask, and the key it is asked with.
pub struct ProviderEntry {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The first auth profile of this provider; `None` for servers without keys; a failure for services that need one and
    /// have none: runs end with it.
    pub credential: Result<Option<Arc<Credential>>, Failure>,
}

/// What every run shares.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) sessions: sessions::Sessions,
    pub(crate) prefixes: prefix::PrefixCache,
    pub(crate) tool_timeout_ms: Option<u64>,
}

/// Parts an engine is made of.
pub struct EngineParts {
    /// Providers by the name a context uses.
    pub providers: HashMap<String, ProviderEntry>,
    /// What is known of models.
    pub catalogue: Catalogue,
    /// Where turns are committed; `None` keeps nothing.
    pub journal: Option<Arc<dyn Journal>>,
    /// Time and ids.
    pub clock: Clock,
    /// Where runs live.
    pub tasks: Tasks,
    /// Limit of one tool in milliseconds, where neither the tool nor the context names one.
    pub tool_timeout_ms: Option<u64>,
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
        Self {
            core: Arc::new(Core {
                clock: parts.clock,
                sessions: sessions::Sessions::of(
                    parts.journal.as_ref().map(|journal| journal.id()).unwrap_or_default(),
                ),
                journal: parts.journal,
                prefixes: prefix::PrefixCache::default(),
                tool_timeout_ms: parts.tool_timeout_ms,
            }),
            providers: parts.providers,
            catalogue: parts.catalogue,
            tool_sets: ToolSetCache::default(),
            models: Mutex::default(),
            tasks: parts.tasks,
            closed: AtomicBool::new(false),
        }
    }

    /// Starts a run and returns at once. `stream_start` is in the queue when this returns. A `control` that is aborted
    /// already makes a run that asks nobody.
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
    ) -> Result<(), EngineError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::new(
                ErrorCode::EngineClosed,
                "the engine is closed; make a new one",
            ));
        }
        let entry = self.providers.get(&context.provider).ok_or_else(|| {
            let mut known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            known.sort_unstable();
            EngineError::at(
                ErrorCode::UnknownProvider,
                InputError {
                    path: "provider".to_owned(),
                    message: format!(
                        "`{}` is not among the engine's providers ({})",
                        context.provider,
                        known.join(", ")
                    ),
                },
            )
        })?;
        let model = self.model(&context, entry.provider.api())?;
        let tool_set = self
            .tool_sets
            .get_or_compile(&context.tools_json, &context.tools)
            .map_err(EngineError::context)?;
        let clock = &self.core.clock;
        let run = Run {
            turn_id: clock.new_id(),
            core: Arc::clone(&self.core),
            tool_set,
            provider: Arc::clone(&entry.provider),
            credential: entry.credential.clone(),
            model,
            queue: Arc::clone(&queue),
            control,
            host,
            started: clock.instant(),
            started_ms: clock.now_ms(),
            context,
        };
        let place = self
            .core
            .journal
            .as_ref()
            .map(|_| self.core.sessions.queue(&run.context.session_label));
        queue.phase(AgentPhase::Start, run.started_ms);
        queue.event(|seq| StreamEvent::StreamStart {
            run_id: run.context.run_id.clone(),
            session_label: run.context.session_label.clone(),
            target: run.context.target.clone(),
            seq,
        });
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
        });
        Ok(())
    }

    fn models(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<ModelInfo>>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the context's model.
    fn model(&self, context: &AssembledContext, api: Api) -> Result<Arc<ModelInfo>, EngineError> {
        /// A script has no window of its own.
        const SCRIPTED_WINDOW: u64 = 200_000;
        /// More names than an engine is asked for in its life; past it, names are looked up each time.
        const MOST_KEPT: usize = 1_000;
        let (provider, model) = (&context.provider, &context.model);
        let name = (provider.clone(), model.clone());
        if let Some(kept) = self.models().get(&name) {
            return Ok(Arc::clone(kept));
        }
        let found =
            self.catalogue.resolve_for(provider, api, model).map(|found| found.model).or_else(
                || {
                    (api == Api::Scripted).then(|| {
                        Arc::new(ModelInfo::safe_defaults(provider, api, model, SCRIPTED_WINDOW))
                    })
                },
            );
        if let Some(found) = found {
            let mut models = self.models();
            if models.len() < MOST_KEPT {
                models.insert(name, Arc::clone(&found));
            }
            return Ok(found);
        }
        Err(EngineError::at(
            ErrorCode::UnknownModel,
            InputError {
                path: "model".to_owned(),
                message: format!(
                    "`{}` of `{}` is not in the catalogue; declare its `contextWindow` in the engine's `models`",
                    context.model, context.provider
                ),
            },
        ))
    }

    /// Takes no more runs and waits until the running ones have committed.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.finished().await;
    }

    /// Takes no more runs.
    pub fn refuse_runs(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
