//! The native engine: options in, runs out, one close.
//!
//! It builds the parts and hands over JSON text. It must never hold up the JavaScript thread: what waits is answered
//! through the hub.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::hub::{HubCore, NativeHub, RunEntry};
use super::tool_host::{JsToolHost, ToolAnswers};
use super::{js_error, reply};
use crate::clock::Clock;
use crate::config::Environment;
use crate::engine::{Engine, EngineParts, EventQueue, Notify, ProviderEntry, RunControl, Tasks};
use crate::error::{EngineError, ErrorCode};
use crate::ledger::{Ledger, LedgerOptions, Synchronous};
use crate::model::{
    AssembledContext, Catalogue, Defaults, InputError, Journal, ModelDeclaration, input_error,
    parse_context, repair_surrogates, typed,
};
use crate::provider::{
    AnthropicWire, Api, ChatQuirks, ChatWire, HttpClient, HttpProvider, Provider, ProviderSettings,
    ScriptedProvider, Wire, parse_providers,
};
use crate::telemetry;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options<'a> {
    #[serde(default)]
    ledger: Option<LedgerFields>,
    #[serde(borrow, default)]
    providers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    auth_profiles: Option<&'a RawValue>,
    #[serde(borrow, default)]
    models: Option<&'a RawValue>,
    #[serde(default)]
    tool_timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LedgerFields {
    path: String,
    #[serde(default)]
    synchronous: Option<SynchronousName>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum SynchronousName {
    Full,
    Normal,
}

/// An engine of one JavaScript environment.
/// @internal
#[napi]
pub struct NativeEngine {
    engine: Arc<Engine>,
    hub: Arc<HubCore>,
    tasks: Tasks,
    pub(super) ledger: Option<Arc<Ledger>>,
    scripted: HashMap<String, Arc<ScriptedProvider>>,
    clock: Clock,
}

impl NativeEngine {
    pub(super) fn hub(&self) -> &Arc<HubCore> {
        &self.hub
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn build(hub: &NativeHub, options: &str) -> std::result::Result<Self, EngineError> {
        let environment = Environment::process();
        telemetry::install_stderr_log(&environment);
        let mut reader = serde_json::Deserializer::from_str(options);
        let options: Options<'_> =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let path = error.path().to_string();
                let path = if path == "." { "options".to_owned() } else { path };
                EngineError::option(input_error(path, &error.into_inner()))
            })?;
        if options.tool_timeout_ms == Some(0) {
            return Err(EngineError::option(InputError {
                path: "toolTimeoutMs".to_owned(),
                message: "`0` leaves no time; pass at least 1 or leave it out".to_owned(),
            }));
        }
        let clock = Clock::default();
        let set = parse_providers(options.providers, options.auth_profiles, &environment)
            .map_err(EngineError::option)?;
        let declared: Vec<ModelDeclaration> = match options.models {
            Some(raw) if raw.get() != "null" => {
                typed("models", raw).map_err(EngineError::option)?
            }
            Some(_) | None => Vec::new(),
        };
        let catalogue = Catalogue::with_declared(declared).map_err(EngineError::option)?;
        let client = HttpClient::new();
        let mut scripted = HashMap::new();
        let mut providers = HashMap::new();
        for (name, settings) in &set.providers {
            let provider: Arc<dyn Provider> = match settings {
                ProviderSettings::Http { api, settings } => Arc::new(HttpProvider::new(
                    wire(*api, settings.host())?,
                    settings.as_ref().clone(),
                    Arc::clone(&client),
                    clock.clone(),
                )),
                ProviderSettings::Scripted(script) => {
                    let provider = Arc::new(ScriptedProvider::new(script.clone()));
                    scripted.insert(name.clone(), Arc::clone(&provider));
                    provider
                }
            };
            let credential = set.credential(name);
            providers.insert(name.clone(), ProviderEntry { provider, credential });
        }
        // Last, so that a wrong option leaves no file behind.
        let ledger = options
            .ledger
            .map(|fields| {
                if fields.path.is_empty() {
                    return Err(EngineError::option(InputError {
                        path: "ledger.path".to_owned(),
                        message: "is empty; pass the path of a file".to_owned(),
                    }));
                }
                let synchronous = match fields.synchronous {
                    Some(SynchronousName::Normal) => Synchronous::Normal,
                    Some(SynchronousName::Full) | None => Synchronous::Full,
                };
                let options = LedgerOptions { path: PathBuf::from(fields.path), synchronous };
                Ledger::open(&options, clock.clone()).map_err(EngineError::from)
            })
            .transpose()?;
        let tasks = hub.tasks().sibling();
        let engine = Engine::new(EngineParts {
            providers,
            catalogue,
            journal: ledger.clone().map(|ledger| ledger as Arc<dyn Journal>),
            clock: clock.clone(),
            tasks: tasks.sibling(),
            tool_timeout_ms: options.tool_timeout_ms,
        });
        Ok(Self {
            engine: Arc::new(engine),
            hub: Arc::clone(hub.core()),
            tasks,
            ledger,
            scripted,
            clock,
        })
    }

    /// Reads a context. A lone surrogate half, which JavaScript strings may hold, becomes U+FFFD.
    pub(super) fn context(&self, json: &str) -> std::result::Result<AssembledContext, EngineError> {
        let repaired = repair_surrogates(json.as_bytes());
        let json = std::str::from_utf8(&repaired).unwrap_or(json);
        let mut new_id = || self.clock.new_id();
        let mut defaults = Defaults { new_id: &mut new_id, now_ms: self.clock.now_ms() };
        parse_context(json, &mut defaults).map_err(EngineError::context)
    }

    fn start(
        &self,
        run: u32,
        context: &str,
        aborted: bool,
    ) -> std::result::Result<(), EngineError> {
        let context = self.context(context)?;
        let notify = Arc::clone(&self.hub) as Arc<dyn Notify>;
        let queue = EventQueue::new(run, context.coalesce, notify);
        let answers = Arc::new(ToolAnswers::default());
        let host = JsToolHost { queue: Arc::clone(&queue), answers: Arc::clone(&answers) };
        let control = Arc::new(RunControl::default());
        if aborted {
            // Before the run's task exists, so that it asks nobody.
            control.abort();
        }
        self.engine.start(context, Arc::new(host), Arc::clone(&queue), Arc::clone(&control))?;
        self.hub.add_run(run, RunEntry { queue, control, answers });
        Ok(())
    }
}

fn wire(api: Api, host: &str) -> std::result::Result<Box<dyn Wire>, EngineError> {
    match api {
        Api::AnthropicMessages => Ok(Box::new(AnthropicWire)),
        Api::OpenaiChat => Ok(Box::new(ChatWire::new(ChatQuirks::for_host(host)))),
        Api::Scripted => Err(EngineError::new(ErrorCode::Internal, "a script has no wire")),
    }
}

#[napi]
impl NativeEngine {
    /// `options` is the JSON of `AgentEngineOptions`.
    #[napi(constructor, catch_unwind)]
    pub fn new(hub: &NativeHub, options: String) -> Result<Self> {
        Self::build(hub, &options).map_err(|error| js_error(&error))
    }

    /// Starts run number `run`; `context` is the JSON of an `AssembledContext`. `aborted`: its signal is aborted already. The
    /// caller drains the hub before it gives up the thread, whether this throws or not: the start of a run costs no wake.
    #[napi(catch_unwind)]
    pub fn run(&self, run: u32, context: String, aborted: bool) -> Result<()> {
        self.hub.expect_drain();
        self.start(run, &context, aborted).map_err(|error| js_error(&error))
    }

    /// Opens a gate of a scripted provider.
    #[napi(catch_unwind)]
    pub fn open_gate(&self, provider: String, gate: String) {
        if let Some(provider) = self.scripted.get(&provider) {
            provider.open_gate(&gate);
        }
    }

    /// The requests a scripted provider got, as a JSON array.
    #[napi(catch_unwind)]
    pub fn scripted_requests(&self, provider: String) -> String {
        self.scripted
            .get(&provider)
            .map_or_else(|| "[]".to_owned(), |provider| provider.requests_json())
    }

    /// Closes: no more runs, the running ones commit, the ledger's files are closed. Answers request `id`.
    #[napi(catch_unwind)]
    pub fn close(&self, id: u32) {
        let (engine, ledger, hub) =
            (Arc::clone(&self.engine), self.ledger.clone(), Arc::clone(&self.hub));
        engine.refuse_runs();
        // What was asked of the ledger before is answered first. The task that waits for it is not one of them.
        let asked = self.tasks.clone();
        self.tasks.sibling().spawn(async move {
            engine.close().await;
            asked.finished().await;
            let closed = match ledger {
                Some(ledger) => ledger.close().await,
                None => Ok(()),
            };
            reply(&hub, id, closed.map(|()| "null".to_owned()).map_err(EngineError::from));
        });
    }
}
