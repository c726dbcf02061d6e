//! One server over the life of an engine: started when it is first needed, started again after it failed, at growing intervals.
//!
//! What it listed last stays known while it is down. It must never make one run wait because of another run's server, or start a
//! server twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::content::CallResult;
use super::frame::Params;
use super::listing::list;
use super::parts::{SchemaCheck, ServerParts};
use super::pending::OnProgress;
use super::session::{About, McpError, Session};
use super::settings::ServerSettings;
use super::stdio::OnChange;
use super::tool::McpTool;

/// The wait after the second failure in a row; it doubles. After the first one there is none.
const BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The time limit of a request that is no call of a run, where the options have none: a server may never answer.
const TIMEOUT_MS: u64 = 60_000;
/// A list of a server that does not say when it changes is older than this at most, when a run begins.
const LIST_AGE: Duration = Duration::from_secs(60);

/// The tools of a server, and those that cannot be used.
#[derive(Debug, Default)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<Arc<McpTool>>,
    refused: Vec<Refused>,
}

/// A tool that cannot be used.
#[derive(Debug, Clone, Serialize)]
struct Refused {
    tool: String,
    reason: String,
}

enum Phase {
    Idle,
    Connecting,
    Ready(Arc<Session>),
    Closed,
}

struct State {
    phase: Phase,
    /// In a row.
    failures: u32,
    retry_at: Option<Instant>,
    why: Option<String>,
    about: About,
    /// What it logged before it failed.
    log: String,
    tools: Option<Arc<ToolList>>,
    /// When they were listed.
    listed_at: Option<Instant>,
}

/// The state of a server as a host sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerState {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerNames>,
    tools: Vec<String>,
    refused: Vec<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    log: String,
}

#[derive(Debug, Serialize)]
struct ServerNames {
    name: String,
    version: String,
}

pub(crate) struct Server {
    pub(crate) settings: ServerSettings,
    name: Arc<str>,
    parts: ServerParts,
    state: Mutex<State>,
    /// Changes with the phase.
    version: watch::Sender<u64>,
    /// It has told that its tools changed.
    stale: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn new(settings: ServerSettings, parts: ServerParts) -> Arc<Self> {
        let state = State {
            phase: Phase::Idle,
            failures: 0,
            retry_at: None,
            why: None,
            about: About::default(),
            log: String::new(),
            tools: None,
            listed_at: None,
        };
        Arc::new(Self {
            name: settings.name.as_str().into(),
            settings,
            parts,
            state: Mutex::new(state),
            version: watch::Sender::new(0),
            stale: Arc::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// Its connection, made if there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<Arc<Session>, McpError> {
        let mut version = self.version.subscribe();
        let mut has_waited = false;
        loop {
            if let Some(outcome) = self.connection(has_waited) {
                return outcome;
            }
            has_waited = true;
            // The sender is in `self`.
            let _ = version.changed().await;
        }
    }

    /// Its connection; `None` while it is made.
    fn connection(self: &Arc<Self>, has_waited: bool) -> Option<Result<Arc<Session>, McpError>> {
        let failed = |why: String| Some(Err(McpError::Failed(why)));
        let mut state = self.lock();
        if let Phase::Ready(session) = &state.phase {
            let Some(why) = session.ended() else { return Some(Ok(Arc::clone(session))) };
            let log = session.log();
            self.failed(&mut state, &why, log);
        }
        match &state.phase {
            Phase::Closed => failed("is closed".to_owned()),
            Phase::Connecting | Phase::Ready(_) => None,
            Phase::Idle => {
                let why = state.why.clone().unwrap_or_else(|| "is not running".to_owned());
                let now = self.parts.clock.instant();
                let waits = state.retry_at.and_then(|at| at.checked_duration_since(now));
                match waits.filter(|wait| !wait.is_zero()) {
                    Some(wait) => {
                        let ms = wait.as_millis();
                        failed(format!("{why}; it is started again in {ms} ms at the earliest"))
                    }
                    // Whoever waited for this attempt has its outcome.
                    None if has_waited => failed(why),
                    None => {
                        state.phase = Phase::Connecting;
                        drop(state);
                        let server = Arc::clone(self);
                        (self.parts.spawn)(Box::pin(async move { server.connect().await }));
                        None
                    }
                }
            }
        }
    }

    fn failed(&self, state: &mut State, why: &str, log: String) {
        let wait = match state.failures {
            0 => Duration::ZERO,
            failures => BACKOFF.saturating_mul(1 << failures.min(8).saturating_sub(1)),
        };
        state.failures = state.failures.saturating_add(1);
        state.retry_at = Some(self.parts.clock.instant() + wait.min(MAX_BACKOFF));
        state.why = Some(why.to_owned());
        state.log = log;
        state.phase = Phase::Idle;
    }

    async fn connect(self: Arc<Self>) {
        let limit = self.settings.start_timeout;
        let connecting = tokio::time::timeout(limit, self.begin());
        let outcome = tokio::select! {
            outcome = connecting => outcome.unwrap_or_else(|_| {
                let why = format!("did not start within {} ms", limit.as_millis());
                Err((McpError::Failed(why), String::new()))
            }),
            () = self.closed() => return,
        };
        let unwanted = {
            let mut state = self.lock();
            match (outcome, &state.phase) {
                (Ok((session, _)), Phase::Closed) => Some(session),
                (Ok((session, tools)), _) => {
                    state.about = session.about.clone();
                    state.tools = Some(tools);
                    state.listed_at = Some(self.parts.clock.instant());
                    state.why = None;
                    state.phase = Phase::Ready(session);
                    None
                }
                (Err(_), Phase::Closed) => None,
                (Err((error, log)), _) => {
                    self.failed(&mut state, &error.to_string(), log);
                    None
                }
            }
        };
        self.changed();
        if let Some(session) = unwanted {
            session.close().await;
        }
    }

    async fn begin(&self) -> Result<(Arc<Session>, Arc<ToolList>), (McpError, String)> {
        let stale = Arc::clone(&self.stale);
        let on_change: OnChange = Arc::new(move |method| {
            if method == "notifications/tools/list_changed" {
                stale.store(true, Ordering::Release);
            }
        });
        self.stale.store(false, Ordering::Release);
        let connected = Session::connect(&self.settings, on_change, &self.parts).await;
        let session = Arc::new(connected?);
        // Before its tools are listed: a change after that is not missed.
        session.listen(&self.parts.spawn).await;
        match self.list_tools(&session).await {
            Ok(tools) => Ok((session, tools)),
            Err(error) => {
                session.close().await;
                Err((error, session.log()))
            }
        }
    }

    async fn closed(&self) {
        let mut version = self.version.subscribe();
        while !matches!(self.lock().phase, Phase::Closed) {
            // As above.
            let _ = version.changed().await;
        }
    }

    /// Its tools as it lists them now, in the order of their names: a server that reorders them must not break a prompt cache.
    async fn list_tools(&self, session: &Session) -> Result<Arc<ToolList>, McpError> {
        if !session.about.has_tools {
            return Ok(Arc::default());
        }
        let items = list(session, "tools/list", "tools").await?;
        let mut found = ToolList::default();
        for item in items {
            match McpTool::read(&self.name, &item, &self.settings.rules) {
                Ok(tool) => {
                    let is_wanted =
                        self.settings.tools.has_own_tool(&self.name, &tool.name, &tool.exposed);
                    if is_wanted {
                        found.tools.push(Arc::new(tool));
                    }
                }
                Err((tool, reason)) => found.refuse(tool, reason),
            }
        }
        found.tools.sort_by(|one, other| one.exposed.cmp(&other.exposed));
        let check = Arc::clone(&self.parts.check);
        let checked = tokio::task::spawn_blocking(move || found.checked(&check)).await;
        checked
            .map(Arc::new)
            .map_err(|_| McpError::Failed("has tools that could not be checked".to_owned()))
    }

    /// Its tools as they were listed last, listed again if it said that they changed; and why they may not be usable now.
    pub(crate) async fn tools(self: &Arc<Self>) -> (Arc<ToolList>, Option<String>) {
        let problem = match self.ready().await {
            Ok(session) if self.is_stale(&session) => {
                let limit = self.settings.start_timeout;
                let listed = tokio::time::timeout(limit, self.list_tools(&session)).await;
                match listed {
                    Ok(Ok(tools)) => {
                        let mut state = self.lock();
                        state.tools = Some(tools);
                        state.listed_at = Some(self.parts.clock.instant());
                        None
                    }
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => Some("did not list its tools in time".to_owned()),
                }
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if problem.is_some() {
            self.stale.store(true, Ordering::Release);
        }
        (self.lock().tools.clone().unwrap_or_default(), problem)
    }

    /// Whether its tools may be others than those that are known. Once: who is told lists them.
    fn is_stale(&self, session: &Session) -> bool {
        let now = self.parts.clock.instant();
        let mut state = self.lock();
        let is_old = |at: Instant| now.saturating_duration_since(at) >= LIST_AGE;
        let is_old = session.is_silent() && state.listed_at.is_none_or(is_old);
        if is_old {
            state.listed_at = Some(now);
        }
        self.stale.swap(false, Ordering::AcqRel) || is_old
    }

    /// Calls a tool with the JSON of its arguments. Dropping the future cancels the call.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &McpTool,
        arguments: &RawValue,
        on_progress: OnProgress,
    ) -> Result<CallResult, McpError> {
        let params = Params::default().with("name", &tool.name).with("arguments", arguments);
        let raw = self.request("tools/call", &params, Some(&on_progress)).await?;
        self.lock().failures = 0;
        CallResult::read(raw).map_err(McpError::Failed)
    }

    /// What a server lists, within the time of a call; `method` and `field` as for [`list`].
    pub(crate) async fn items(
        self: &Arc<Self>,
        method: &str,
        field: &str,
    ) -> Result<Vec<Box<RawValue>>, McpError> {
        self.in_time(async {
            let session = self.ready().await?;
            match offered(&session, method, field).await {
                Err(_) if session.has_expired() => {
                    let session = self.ready().await?;
                    offered(&session, method, field).await
                }
                listed => listed,
            }
        })
        .await
    }

    /// The result of a request, within the time of a call.
    pub(crate) async fn get(
        self: &Arc<Self>,
        method: &str,
        params: &Params,
    ) -> Result<Box<RawValue>, McpError> {
        self.in_time(self.request(method, params, None)).await
    }

    /// The result of a request. It is made once more where its session was one over HTTP that had ended before: the server did nothing
    /// then.
    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: &Params,
        on_progress: Option<&OnProgress>,
    ) -> Result<Box<RawValue>, McpError> {
        let session = self.ready().await?;
        match session.request_with_input(method, params, on_progress).await {
            Err(_) if session.has_expired() => {
                let session = self.ready().await?;
                session.request_with_input(method, params, on_progress).await
            }
            answered => answered,
        }
    }

    /// Does something within the time of a call; the start of the server has its own.
    async fn in_time<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, McpError>>,
    ) -> Result<T, McpError> {
        self.ready().await?;
        let limit = self.settings.rules.timeout_ms.unwrap_or(TIMEOUT_MS);
        let done = tokio::time::timeout(Duration::from_millis(limit), work).await;
        done.unwrap_or_else(|_| Err(McpError::Failed(format!("did not answer within {limit} ms"))))
    }

    /// Ends the connection, if there is one, and makes a new one.
    pub(crate) async fn reload(self: &Arc<Self>) -> Result<(), McpError> {
        let session = {
            let mut state = self.lock();
            state.failures = 0;
            state.retry_at = None;
            match std::mem::replace(&mut state.phase, Phase::Idle) {
                Phase::Ready(session) => Some(session),
                phase @ (Phase::Idle | Phase::Connecting | Phase::Closed) => {
                    state.phase = phase;
                    None
                }
            }
        };
        if let Some(session) = session {
            session.close().await;
        }
        self.ready().await.map(drop)
    }

    /// Ends it for good.
    pub(crate) async fn close(&self) {
        let phase = std::mem::replace(&mut self.lock().phase, Phase::Closed);
        self.changed();
        if let Phase::Ready(session) = phase {
            session.close().await;
        }
    }

    pub(crate) fn state(&self) -> ServerState {
        let state = self.lock();
        let (name, mut error, mut log) =
            (self.name.to_string(), state.why.clone(), state.log.clone());
        let shown = match &state.phase {
            Phase::Idle if state.why.is_some() => "failed",
            Phase::Idle => "idle",
            Phase::Connecting => "connecting",
            Phase::Closed => "closed",
            Phase::Ready(session) => {
                log = session.log();
                match session.ended() {
                    Some(why) => {
                        error = Some(why.to_string());
                        "failed"
                    }
                    None => "ready",
                }
            }
        };
        let about = &state.about;
        let tools = state.tools.clone().unwrap_or_default();
        ServerState {
            name,
            state: shown,
            protocol: (!about.protocol.is_empty()).then(|| about.protocol.clone()),
            server: (!about.protocol.is_empty())
                .then(|| ServerNames { name: about.name.clone(), version: about.version.clone() }),
            tools: tools.tools.iter().map(|tool| tool.exposed.clone()).collect(),
            refused: tools.refused.clone(),
            error,
            log,
        }
    }
}

/// The items of a list; none where the server does not have such.
async fn offered(
    session: &Session,
    method: &str,
    field: &str,
) -> Result<Vec<Box<RawValue>>, McpError> {
    let about = &session.about;
    let offers = if field == "prompts" { about.has_prompts } else { about.has_resources };
    if offers { list(session, method, field).await } else { Ok(Vec::new()) }
}

impl ToolList {
    fn refuse(&mut self, tool: String, reason: String) {
        let tool = tool.chars().take(128).collect();
        self.refused.push(Refused { tool, reason });
    }

    /// Without the tools whose schemas cannot be used, and without a second tool of a name.
    fn checked(mut self, check: &SchemaCheck) -> Self {
        let tools = std::mem::take(&mut self.tools);
        let mut last = String::new();
        for tool in tools {
            let schemas =
                [("schema", Some(&tool.parameters)), ("output schema", tool.output.as_ref())];
            let unusable = schemas.into_iter().find_map(|(what, schema)| {
                let why = check(schema?.get()).err()?;
                Some(format!("its {what} {why}"))
            });
            match unusable {
                Some(reason) => self.refuse(tool.name.clone(), reason),
                None if tool.exposed == last => {
                    self.refuse(tool.name.clone(), "it is listed twice".to_owned());
                }
                None => {
                    last.clone_from(&tool.exposed);
                    self.tools.push(tool);
                }
            }
        }
        self
    }
}
