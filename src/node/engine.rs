//! The native engine: options in, runs out, one close.
//!
//! It builds the parts of the engine and passes JSON text. It must never block the JavaScript thread: every operation that
//! waits is answered through the hub.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::backend;
use super::errors::js_error;
use super::hosts::{
    Asker, ClientAnswers, CodingHost, EmbedAnswers, JsClientHost, JsKeyHost, JsRequestHost,
    JsToolHost, KeyAnswers, McpHost, RequestAnswers, ToolAnswers, js_embedder, mcp_servers,
    start_memory,
};
use super::hub::{HubCore, NativeHub, RunEntry};
use super::input::{CrossingContext, GivenHistories, KnownHistory, ReadOptions, RunFlags};
use super::options::JournalName;
use super::pending::{Followers, Requests, end_all, followers};
use super::reply::{Answer, json, reply};
use crate::engine::{
    Delivery, Engine, EngineParts, EventQueue, JournalMode, Notify, ProviderEntry, QueuedTurn,
    RunControl, RunHandles, Tasks,
};
use crate::retrieval::OwnedMemory;
use base::clock::Clock;
use base::config::Environment;
use base::error::{EngineError, ErrorCode};
use base::telemetry;
use mcp::McpServers;
use model::{AssembledContext, InputError, LedgerPorts, ModelFilter, ModelInfo, from_json};
use napi::Result;
use napi_derive::napi;
use provider::{
    HostKey, HttpClient, HttpProvider, KeyHost, Provider, ProviderSettings, RequestHost,
    ScriptedProvider, wire_of,
};
use secrecy::zeroize::Zeroizing;
use serde_json::json as object;
use serde_json::value::RawValue;
use workspace::{ProtectedPath, Support, protect};

/// How a run begins.
pub(super) enum Begin {
    /// With a new turn.
    New,
    /// With a new turn that takes messages of its session's queue.
    Queued(QueuedTurn),
    /// With an interrupted turn, after that number of its events.
    Resumed(String, u64, Option<QueuedTurn>),
}

/// An engine of one JavaScript environment.
/// @internal
#[napi]
pub struct NativeEngine {
    engine: Arc<Engine>,
    hub: Arc<HubCore>,
    tasks: Tasks,
    pub(super) ledger: Option<LedgerPorts>,
    scripted: HashMap<String, Arc<ScriptedProvider>>,
    pub(super) clock: Clock,
    pub(super) requests: Requests,
    pub(super) followers: Followers,
    keys: Arc<KeyAnswers>,
    /// Answers to MCP servers.
    client_answers: Arc<ClientAnswers>,
    /// Requests of compactions and counts to `onRequest`.
    request_hooks: Arc<RequestAnswers>,
    pub(super) given: GivenHistories,
    pub(super) mcp: Option<Arc<McpServers>>,
    pub(super) memory: Option<OwnedMemory>,
    /// Requests for vectors to the host's function.
    pub(super) embeddings: Arc<EmbedAnswers>,
    /// Whether a tool without its own time limit has one of the engine.
    limits_tools: bool,
    /// Until the ledger is closed, no coding tool of this process touches it.
    protected: Arc<Mutex<Option<ProtectedPath>>>,
}

impl NativeEngine {
    pub(super) fn hub(&self) -> &Arc<HubCore> {
        &self.hub
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn build(
        hub: &NativeHub,
        options: &str,
        keys: u32,
        hook: Option<u32>,
    ) -> std::result::Result<Self, EngineError> {
        let environment = Environment::process();
        telemetry::install_stderr_log(&environment);
        let clock = Clock::default();
        let answers = Arc::new(KeyAnswers::default());
        let host = Arc::new(JsKeyHost {
            hub: Arc::downgrade(hub.core()),
            keys,
            answers: Arc::clone(&answers),
        }) as Arc<dyn KeyHost>;
        let ReadOptions {
            ledger,
            tool_timeout_ms,
            set,
            catalogue,
            compaction,
            pruning,
            guard,
            budgets,
            policies,
            planner,
            governor,
            failover,
            mcp,
            memory,
        } = ReadOptions::of(options, Some(&host), &environment)?;
        let client = HttpClient::new();
        let mut scripted = HashMap::new();
        let mut providers = HashMap::new();
        for (name, settings) in &set.providers {
            let provider: Arc<dyn Provider> = match settings {
                ProviderSettings::Http { api, settings } => Arc::new(HttpProvider::new(
                    wire_of(*api, settings).ok_or_else(|| {
                        EngineError::new(ErrorCode::Internal, format!("`{name}` has no wire"))
                    })?,
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
            let keys = set.keys(name);
            providers.insert(name.clone(), ProviderEntry { provider, keys });
        }
        let journal_mode = match ledger.as_ref().and_then(|ledger| ledger.journal) {
            Some(JournalName::Final) => JournalMode::Final,
            Some(JournalName::Full) | None => JournalMode::Full,
        };
        // Before the file is opened, so that no tool ever finds it unprotected.
        let path = ledger.as_ref().and_then(|fields| fields.path.clone());
        let protected = path.map(|path| protect(path.into()));
        // Last, so that a wrong option leaves no file behind.
        let ledger = ledger
            .map(|fields| backend::open(fields, &environment, &clock, Some(&host)))
            .transpose()?;
        let port = ledger.as_ref();
        let tasks = hub.tasks().sibling();
        let engine = Engine::new(EngineParts {
            providers,
            catalogue,
            journal: port.map(|ledger| Arc::clone(&ledger.journal)),
            journal_mode,
            approvals: port.map(|ledger| Arc::clone(&ledger.approvals)),
            clock: clock.clone(),
            tasks: tasks.sibling(),
            tool_timeout_ms,
            compaction,
            pruning,
            guard,
            budgets,
            policies,
            planner,
            failover,
            governor,
            profiles: port.map(|ledger| Arc::clone(&ledger.profiles)),
            ratios: port.map(|ledger| Arc::clone(&ledger.ratios)),
        });
        let engine = Arc::new(engine);
        let embeddings = Arc::new(EmbedAnswers::default());
        let request_hooks: Arc<RequestAnswers> = Arc::default();
        let memory_hook = hook.map(|id| {
            let asker = Asker::Request(Arc::downgrade(hub.core()), id);
            let answers = Arc::clone(&request_hooks);
            Arc::new(JsRequestHost { asker, answers }) as Arc<dyn RequestHost>
        });
        let memory = memory.zip(port).map(|(options, ledger)| {
            let host = js_embedder(hub.core(), keys, &embeddings);
            start_memory(options, ledger, (&clock, &tasks), &engine, host, memory_hook)
        });
        let client_answers = Arc::new(ClientAnswers::default());
        let client_host = Arc::new(JsClientHost {
            hub: Arc::downgrade(hub.core()),
            keys,
            answers: Arc::clone(&client_answers),
        });
        Ok(Self {
            engine,
            hub: Arc::clone(hub.core()),
            mcp: mcp_servers(mcp, &tasks, &clock, &client, &host, client_host),
            client_answers,
            memory,
            embeddings,
            limits_tools: tool_timeout_ms.is_some(),
            tasks,
            ledger,
            scripted,
            clock,
            requests: Requests::default(),
            followers: followers(),
            keys: answers,
            request_hooks,
            given: GivenHistories::default(),
            protected: Arc::new(Mutex::new(protected)),
        })
    }

    /// The request hook of JavaScript's request `id`, if it has an `onRequest`.
    pub(super) fn request_host(&self, id: u32, hooked: bool) -> Option<Arc<dyn RequestHost>> {
        let asker = || Asker::Request(Arc::downgrade(&self.hub), id);
        let host = || JsRequestHost { asker: asker(), answers: Arc::clone(&self.request_hooks) };
        hooked.then(|| Arc::new(host()) as Arc<dyn RequestHost>)
    }

    /// The servers whose tools join a run of this context.
    pub(super) fn mcp_host(&self, context: &AssembledContext) -> Option<Arc<McpHost>> {
        let wants = !context.mcp.as_ref().is_some_and(Vec::is_empty);
        self.mcp.as_ref().filter(|_| wants).map(McpHost::new)
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Answers request `id` when `work` is done; `close()` waits for it.
    pub(super) fn answer(&self, id: u32, work: impl Future<Output = Answer> + Send + 'static) {
        let hub = Arc::clone(&self.hub);
        self.tasks.spawn(async move { reply(&hub, id, work.await) });
    }

    /// Starts a run, of a new turn or of one that was interrupted. Returns the number of its history; `None` where the
    /// beginning of the history is not there any more, and nothing was started.
    pub(super) fn start(
        &self,
        run: u32,
        begin: Begin,
        crossing: &CrossingContext,
        flags: RunFlags,
    ) -> std::result::Result<Option<i64>, EngineError> {
        let coding = self.hub.offered(run);
        let Some((context, history)) = self.read(crossing)? else { return Ok(None) };
        let notify = Arc::clone(&self.hub) as Arc<dyn Notify>;
        let delivery = Delivery {
            coalesce: context.coalesce,
            phases: flags.phases(),
            skipped: flags.skipped(),
        };
        let queue = EventQueue::new(run, delivery, notify);
        let answers = Arc::new(ToolAnswers::default());
        let mcp = self.mcp_host(&context);
        let joining =
            mcp.as_ref().map(|mcp| mcp.join(&context, flags.decides(), self.limits_tools));
        let host = JsToolHost {
            queue: Arc::clone(&queue),
            answers: Arc::clone(&answers),
            decides: flags.decides(),
            stops: flags.stops(),
            prepares: flags.prepares(),
            replaces: flags.replaces(),
            mcp,
            coding: coding.map(|tools| Arc::new(CodingHost { tools, tasks: self.tasks.clone() })),
            checks_output: flags.checks_output(),
        };
        let request_hooks = Arc::new(RequestAnswers::default());
        let hook = flags.hooked().then(|| {
            let asker = Asker::Run(Arc::clone(&queue));
            Arc::new(JsRequestHost { asker, answers: Arc::clone(&request_hooks) })
                as Arc<dyn RequestHost>
        });
        let control = Arc::new(RunControl::default());
        if flags.aborted() {
            // Before the run's task exists: an aborted run calls neither a tool nor a hook.
            control.abort_for(flags.timed_out());
        }
        let (host, events, handle) = (Arc::new(host), Arc::clone(&queue), Arc::clone(&control));
        let handles =
            |queued| RunHandles { host, queue: events, control: handle, hook, joining, queued };
        match begin {
            Begin::New => self.engine.start(context, handles(None))?,
            Begin::Queued(queued) => self.engine.start(context, handles(Some(queued)))?,
            Begin::Resumed(turn, last_seq, queued) => {
                queue.continue_after(last_seq);
                self.engine.resume(turn, context, handles(queued))?;
            }
        }
        self.hub.add_run(run, RunEntry { queue, control, answers, request_hooks });
        Ok(Some(self.store_history(history)))
    }
}

#[napi]
impl NativeEngine {
    /// `options` is the JSON of `AgentEngineOptions`; `keys` is the number that identifies its key functions, `hook` that of the `onRequest`
    /// for the requests of its memory.
    #[napi(constructor, catch_unwind)]
    pub fn new(hub: &NativeHub, options: String, keys: u32, hook: Option<u32>) -> Result<Self> {
        // It has the keys that are given as texts.
        let options = Zeroizing::new(options);
        Self::build(hub, &options, keys, hook).map_err(|error| js_error(&error))
    }

    /// Starts run number `run`; `context` is the JSON of an `AssembledContext`, whose history begins with `known`; `flags` are
    /// those of `RunFlags`. Returns the number of the whole history, 0 for none, or null where `known` is not stored any
    /// more: then nothing was started, and the caller must pass the whole history. The caller drains the hub before it
    /// returns to the event loop, even if this throws, so that the start of a run needs no wake.
    #[napi(catch_unwind)]
    pub fn run(
        &self,
        run: u32,
        context: String,
        known: Option<KnownHistory>,
        flags: u32,
    ) -> Result<Option<i64>> {
        self.hub.expect_drain();
        let crossing = CrossingContext { json: context, known };
        self.start(run, Begin::New, &crossing, RunFlags(flags)).map_err(|error| js_error(&error))
    }

    /// A new ULID: of a run whose caller gives no id.
    #[napi(catch_unwind)]
    pub fn new_id(&self) -> String {
        self.clock.new_id()
    }

    /// A history of this number is not named again.
    #[napi(catch_unwind)]
    pub fn forget_history(&self, number: i64) {
        self.given.forget(number);
    }

    /// The names of its providers.
    #[napi(catch_unwind)]
    pub fn provider_names(&self) -> Vec<&str> {
        self.engine.provider_names()
    }

    /// The models of the catalogue that match `filter`, the JSON of a `ModelFilter`: a JSON array.
    #[napi(catch_unwind)]
    pub fn models(&self, filter: String) -> Result<String> {
        let filter: ModelFilter = from_json(&filter).map_err(|error: InputError| {
            let path = format!("filter.{}", error.path);
            js_error(&EngineError::option(InputError { path, ..error }))
        })?;
        let models = self.engine.models(&filter);
        let models: Vec<&ModelInfo> = models.iter().map(AsRef::as_ref).collect();
        json(&models).map_err(|error| js_error(&error))
    }

    /// What this platform enforces: the JSON of an `EngineCapabilities`.
    #[napi(catch_unwind)]
    pub fn capabilities(&self) -> Result<String> {
        let Support { files, sandbox } = workspace::support();
        let capabilities = object!({
            "codingTools": files,
            "sandbox": {
                "landlock": sandbox.landlock,
                "files": sandbox.files,
                "tcp": sandbox.tcp,
                "signals": sandbox.signals,
                "unixSockets": false,
                "udp": false,
            },
            // Processes that a command leaves are found by their environment: one that clears it is not.
            "descendants": if files { "environment" } else { "none" },
            // No cgroup is made: that needs rights which a library seldom has.
            "limits": { "perProcess": files, "processes": files, "together": false },
        });
        json(&capabilities).map_err(|error| js_error(&error))
    }

    /// The balances of the budgets: a JSON array of `BudgetState`.
    #[napi(catch_unwind)]
    pub fn budgets(&self) -> Result<String> {
        json(&self.engine.budgets()).map_err(|error| js_error(&error))
    }

    /// The known rate limits: a JSON array of `LimitState`.
    #[napi(catch_unwind)]
    pub fn limits(&self) -> Result<String> {
        json(&self.engine.limits()).map_err(|error| js_error(&error))
    }

    /// Counts the tokens that a context would send, and answers request `id`. An invalid context is thrown.
    /// `hooked`: it has an `onRequest`. `known` and the returned number are those of [`Self::run`].
    #[napi(catch_unwind)]
    pub fn count_tokens(
        &self,
        id: u32,
        context: String,
        known: Option<KnownHistory>,
        exact: bool,
        hooked: bool,
    ) -> Result<Option<i64>> {
        let crossing = CrossingContext { json: context, known };
        let read = self.read(&crossing).map_err(|error| js_error(&error))?;
        let Some((context, history)) = read else { return Ok(None) };
        let host = self.request_host(id, hooked);
        let joining =
            self.mcp_host(&context).map(|mcp| mcp.join(&context, false, self.limits_tools));
        let counting = self
            .engine
            .count_tokens(context, exact, host, joining)
            .map_err(|error| js_error(&error))?;
        let hub = Arc::clone(&self.hub);
        self.tasks.spawn(async move {
            let counted = counting.await.and_then(|count| json(&count));
            reply(&hub, id, counted);
        });
        Ok(Some(self.store_history(history)))
    }

    /// Answers key request `number`: the key and its expiry, or why there is none.
    #[napi(catch_unwind)]
    pub fn answer_key(
        &self,
        number: u32,
        key: Option<String>,
        expires_at: Option<i64>,
        error: Option<String>,
    ) {
        let Some(waiting) = self.keys.take(number) else { return };
        let given = match (key, error) {
            (Some(key), _) => Ok(HostKey { key: key.into(), expires_at }),
            (None, error) => Err(error.unwrap_or_else(|| "it gave no key".to_owned())),
        };
        // The run may have ended meanwhile; then the answer is dropped.
        let _ = waiting.send(given);
    }

    /// Answers request `number` of an MCP server: the JSON of the result, or why there is none.
    #[napi(catch_unwind)]
    pub fn answer_client(&self, number: u32, result: Option<String>, error: Option<String>) {
        let Some(waiting) = self.client_answers.take(number) else { return };
        let result = result.and_then(|json| RawValue::from_string(json).ok());
        let given = result.ok_or_else(|| error.unwrap_or_else(|| "the client declines".to_owned()));
        // The connection may have ended meanwhile; then the answer is dropped.
        let _ = waiting.send(given);
    }

    /// Answers `onRequest` for a compaction or a count: as [`super::hub::NativeHub::answer_request`] does for a run.
    #[napi(catch_unwind)]
    pub fn answer_look(&self, number: u32, body: Option<String>, error: Option<String>) {
        if let Some(waiting) = self.request_hooks.take(number) {
            // It may have ended meanwhile; then the answer is dropped.
            let _ = waiting.send(error.map_or(Ok(body), Err));
        }
    }

    /// Opens a gate of a scripted provider.
    #[napi(catch_unwind)]
    pub fn open_gate(&self, provider: String, gate: String) {
        if let Some(provider) = self.scripted.get(&provider) {
            provider.open_gate(&gate);
        }
    }

    /// The requests that a scripted provider received, as a JSON array.
    #[napi(catch_unwind)]
    pub fn scripted_requests(&self, provider: String) -> String {
        self.scripted
            .get(&provider)
            .map_or_else(|| "[]".to_owned(), |provider| provider.requests_json())
    }

    /// Refuses new runs, waits for the running ones to commit, and closes connections and ledger. Answers request `id`.
    #[napi(catch_unwind)]
    pub fn close(&self, id: u32) {
        let (engine, ledger, hub) =
            (Arc::clone(&self.engine), self.ledger.clone(), Arc::clone(&self.hub));
        engine.refuse_runs();
        // Earlier requests to the ledger are answered first. The task that waits for them is not counted among them.
        let (earlier, followers) = (self.tasks.clone(), Arc::clone(&self.followers));
        let (protected, mcp) = (Arc::clone(&self.protected), self.mcp.clone());
        let memory = self.memory.as_ref().map(OwnedMemory::get);
        self.given.clear();
        self.tasks.sibling().spawn(async move {
            engine.close().await;
            if let Some(memory) = memory {
                memory.close();
            }
            end_all(&followers);
            if let Some(servers) = mcp {
                servers.close().await;
            }
            earlier.finished().await;
            engine.disconnect();
            let closed = match ledger {
                Some(ledger) => ledger.admin.close().await,
                None => Ok(()),
            };
            drop(protected.lock().unwrap_or_else(PoisonError::into_inner).take());
            reply(&hub, id, closed.map(|()| "null".to_owned()).map_err(EngineError::from));
        });
    }
}
