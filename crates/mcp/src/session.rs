//! A connection to a server after its beginning, in one of the two forms of the protocol: with a handshake (up to 2025-11-25), or
//! with what each request says about itself (2026-07-28).
//!
//! A request that nobody waits for any more is cancelled, and its answer dropped. It must never wait without a limit of its caller.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::answerer::Answerer;
use super::frame::{Params, notification, request};
use super::http::{Exchange, Http, LISTEN, Outcome};
use super::listening::Listening;
use super::parts::{ServerParts, Spawn};
use super::pending::OnProgress;
use super::redaction::Secrets;
use super::settings::{Place, Protocol, ServerSettings};
use super::stdio::{OnChange, Stdio};
use provider::{Endpoint, EndpointToken};

/// The revision that a handshake offers.
const OFFERED: &str = "2025-11-25";
/// The revisions with a handshake that are understood.
const UNDERSTOOD: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", OFFERED];
/// How often a request may ask for input.
const MAX_ROUNDS: u32 = 10;
/// The revision without one.
const STATELESS: &str = "2026-07-28";

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The server answered an error.
    #[error("answered an error: {message} (code {code})")]
    Remote {
        /// Its code.
        code: i64,
        /// Its text, without secrets.
        message: String,
    },
    /// There is no answer, or none that can be used.
    #[error("{0}")]
    Failed(String),
}

/// What a server says about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) protocol: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) has_tools: bool,
    /// It says when its tools change, to those who subscribe.
    changes_tools: bool,
    pub(crate) has_resources: bool,
    pub(crate) has_prompts: bool,
}

/// How a server is reached.
enum Connection {
    Stdio(Stdio),
    Http(Arc<Http>),
}

/// A connection.
pub(crate) struct Session {
    connection: Connection,
    is_stateless: bool,
    /// The revision that the handshake found.
    protocol: Option<String>,
    pub(crate) about: About,
    secrets: Secrets,
    answerer: Answerer,
    listening: Listening,
    /// Ends what belongs to it, also where it is only dropped.
    closing: watch::Sender<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Begun {
    protocol_version: String,
    supported_versions: Vec<String>,
    capabilities: Capabilities,
    server_info: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Capabilities {
    tools: Option<ToolCapabilities>,
    resources: Option<serde::de::IgnoredAny>,
    prompts: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToolCapabilities {
    list_changed: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    version: String,
}

/// Cancels a request that is dropped before its answer.
struct Outstanding<'a> {
    session: &'a Session,
    id: u64,
    is_cancellable: bool,
    /// Of a request over HTTP.
    is_answered: bool,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        let session = self.session;
        let params = Params::default()
            .with("requestId", &self.id)
            .with("reason", "the caller does not wait any more");
        let message = || notification("notifications/cancelled", &params);
        match &session.connection {
            Connection::Stdio(stdio) if stdio.pending.forget(self.id) => {
                if self.is_cancellable {
                    // A server that does not read any more need not know.
                    let _ = stdio.send(message());
                }
            }
            // Without a session the end of the request is its cancellation.
            Connection::Http(http) if !self.is_answered && !session.is_stateless => {
                if self.is_cancellable {
                    http.post(message(), session.protocol.as_deref());
                }
            }
            Connection::Stdio(_) | Connection::Http(_) => {}
        }
    }
}

impl Session {
    /// Starts a server, and begins with it.
    ///
    /// # Errors
    /// Why it cannot be used, and what it logged.
    pub(crate) async fn connect(
        settings: &ServerSettings,
        on_change: OnChange,
        parts: &ServerParts,
    ) -> Result<Self, (McpError, String)> {
        let secrets = settings.secrets.clone();
        let clock = parts.clock.clone();
        let (closing, closed) = watch::channel(false);
        let host = parts.client_host.clone();
        let answerer = Answerer::new(&settings.name, settings.functions, host, closed);
        let listening = Listening::default();
        let on_change = listening.through(on_change);
        let connection = match &settings.place {
            Place::Process(command) => {
                let started = Stdio::start(
                    &settings.name,
                    command.clone(),
                    on_change,
                    answerer.clone(),
                    parts,
                )
                .await;
                let failed = |why: String| (McpError::Failed(secrets.clean(&why)), String::new());
                Connection::Stdio(started.map_err(failed)?)
            }
            Place::Address(address, number) => {
                let token = number.zip(parts.keys.clone());
                let token = token.map(|(number, host)| EndpointToken { host, number });
                let sockets = Arc::clone(&parts.client);
                let endpoint = Arc::new(Endpoint::new(address.clone(), token, sockets, clock));
                let spawn = Arc::clone(&parts.spawn);
                Connection::Http(Arc::new(Http::new(endpoint, on_change, answerer.clone(), spawn)))
            }
        };
        let about = About::default();
        let (is_stateless, protocol) = (false, None);
        let mut session = Self {
            connection,
            is_stateless,
            protocol,
            about,
            secrets,
            answerer,
            listening,
            closing,
        };
        let begun = session.begin(settings.protocol).await;
        match begun {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close().await;
                Err((error, session.log()))
            }
        }
    }

    async fn begin(&mut self, protocol: Protocol) -> Result<(), McpError> {
        match protocol {
            Protocol::Handshake => self.handshake().await,
            Protocol::Stateless => self.discover().await,
            Protocol::Auto => match self.handshake().await {
                // One that knows no handshake answers that it does not.
                Err(McpError::Remote { code, message }) => {
                    let refused = McpError::Remote { code, message };
                    self.discover().await.map_err(|error| match error {
                        McpError::Remote { .. } => refused,
                        failed @ McpError::Failed(_) => failed,
                    })
                }
                begun => begun,
            },
        }
    }

    async fn handshake(&mut self) -> Result<(), McpError> {
        self.is_stateless = false;
        let params = Params::default()
            .with("protocolVersion", OFFERED)
            .with("capabilities", &self.answerer.capabilities())
            .with("clientInfo", &client());
        let raw = self.request("initialize", params, None).await?;
        let begun: Begun = self.parsed(&raw)?;
        if !UNDERSTOOD.contains(&begun.protocol_version.as_str()) {
            let version = self.clean(&begun.protocol_version);
            let why = format!("speaks version `{version}` of the protocol, which is not known");
            return Err(McpError::Failed(why));
        }
        let protocol = begun.protocol_version.clone();
        self.about = self.about(begun, protocol.clone());
        self.protocol = Some(protocol);
        let method = "notifications/initialized";
        match &self.connection {
            Connection::Stdio(stdio) if stdio.send(notification(method, &Params::default())) => {
                Ok(())
            }
            Connection::Stdio(_) => Err(does_not_read()),
            Connection::Http(http) => {
                let sent = http.notify(method, self.protocol.as_deref()).await;
                sent.map_err(|why| McpError::Failed(self.clean(&why)))
            }
        }
    }

    async fn discover(&mut self) -> Result<(), McpError> {
        self.is_stateless = true;
        let raw = self.request("server/discover", Params::default(), None).await?;
        let begun: Begun = self.parsed(&raw)?;
        if !begun.supported_versions.iter().any(|version| version == STATELESS) {
            let versions = self.clean(&begun.supported_versions.join(", "));
            let why = format!("speaks versions `{versions}` of the protocol, which are not known");
            return Err(McpError::Failed(why));
        }
        self.about = self.about(begun, STATELESS.to_owned());
        Ok(())
    }

    fn about(&self, begun: Begun, protocol: String) -> About {
        let Begun { capabilities, server_info, .. } = begun;
        let Named { name, version } = server_info.unwrap_or_default();
        About {
            protocol,
            name: self.clean(&name),
            version: self.clean(&version),
            changes_tools: capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed),
            has_tools: capabilities.tools.is_some(),
            has_resources: capabilities.resources.is_some(),
            has_prompts: capabilities.prompts.is_some(),
        }
    }

    fn parsed<'t, T: Deserialize<'t>>(&self, raw: &'t RawValue) -> Result<T, McpError> {
        serde_json::from_str(raw.get()).map_err(|error| {
            McpError::Failed(self.clean(&format!("answered what cannot be read: {error}")))
        })
    }

    /// As [`Session::request`], for a request whose result may ask for more: then it is made again with the answers of the host.
    ///
    /// # Errors
    /// As there; or it asks too often.
    pub(crate) async fn request_with_input(
        &self,
        method: &str,
        params: &Params,
        on_progress: Option<&OnProgress>,
    ) -> Result<Box<RawValue>, McpError> {
        let mut next = params.clone();
        for _ in 0..MAX_ROUNDS {
            let result = self.request(method, next, on_progress.cloned()).await?;
            match self.answerer.answered(&result, params).await {
                Ok(None) => return Ok(result),
                Ok(Some(answered)) => next = answered,
                Err(why) => return Err(McpError::Failed(self.clean(&why))),
            }
        }
        Err(McpError::Failed("asks for input without an end".to_owned()))
    }

    /// Sends a request and waits for its result. Dropping the future cancels the request.
    ///
    /// # Errors
    /// The server's error, or why there is no answer.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Params,
        on_progress: Option<OnProgress>,
    ) -> Result<Box<RawValue>, McpError> {
        let stdio = match &self.connection {
            Connection::Stdio(stdio) => stdio,
            Connection::Http(http) => {
                return self.request_over_http(http, method, params, on_progress).await;
            }
        };
        let reports = on_progress.is_some();
        let opened = stdio.pending.open(on_progress);
        let (id, answer) = opened.map_err(|why| McpError::Failed(why.to_string()))?;
        let is_cancellable = method != "initialize";
        let is_answered = false;
        let outstanding = Outstanding { session: self, id, is_cancellable, is_answered };
        let params = self.with_meta(params, reports.then_some(id));
        if !stdio.send(request(id, method, &params)) {
            return Err(does_not_read());
        }
        let answered = answer.await;
        drop(outstanding);
        match answered {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => {
                let message = self.clean(&error.message);
                Err(McpError::Remote { code: error.code, message })
            }
            Ok(Err(why)) => Err(McpError::Failed(why.to_string())),
            Err(_) => Err(McpError::Failed("has ended".to_owned())),
        }
    }

    async fn request_over_http(
        &self,
        http: &Http,
        method: &str,
        params: Params,
        on_progress: Option<OnProgress>,
    ) -> Result<Box<RawValue>, McpError> {
        let id = http.next_id();
        let is_cancellable = method != "initialize";
        let is_answered = false;
        let mut outstanding = Outstanding { session: self, id, is_cancellable, is_answered };
        let name = params.text("name").or_else(|| params.text("uri"));
        let params = self.with_meta(params, on_progress.is_some().then_some(id));
        let protocol = if self.is_stateless { Some(STATELESS) } else { self.protocol.as_deref() };
        let exchange = Exchange {
            id,
            method,
            name,
            body: request(id, method, &params),
            on_progress,
            protocol,
            is_stateless: self.is_stateless,
        };
        let mut closing = self.closing.subscribe();
        let outcome = tokio::select! {
            outcome = http.request(exchange) => outcome,
            // The end of the session tells the server.
            _ = closing.wait_for(|closing| *closing) => Outcome::Failed("was closed".to_owned()),
        };
        outstanding.is_answered = true;
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Remote(error) => {
                let message = self.clean(&error.message);
                Err(McpError::Remote { code: error.code, message })
            }
            Outcome::Failed(why) => Err(McpError::Failed(self.clean(&why))),
        }
    }

    /// A text without secrets.
    fn clean(&self, text: &str) -> String {
        match &self.connection {
            Connection::Stdio(_) => self.secrets.clean(text),
            Connection::Http(http) => self.secrets.clean(&http.redact(text)),
        }
    }

    fn with_meta(&self, params: Params, progress: Option<u64>) -> Params {
        let mut meta = serde_json::Map::new();
        if self.is_stateless {
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), STATELESS.into());
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), client());
            let capabilities = self.answerer.capabilities();
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), capabilities);
        }
        if let Some(id) = progress {
            meta.insert("progressToken".to_owned(), id.into());
        }
        if meta.is_empty() { params } else { params.with("_meta", &meta) }
    }

    /// Why it cannot be used any more; `None` while it can.
    pub(crate) fn ended(&self) -> Option<Arc<str>> {
        match &self.connection {
            Connection::Stdio(stdio) => stdio.pending.ended(),
            Connection::Http(http) => http.ended(),
        }
    }

    /// Whether the server has ended a session over HTTP: it did nothing with the request that showed it.
    pub(crate) fn has_expired(&self) -> bool {
        match &self.connection {
            Connection::Stdio(_) => false,
            Connection::Http(http) => http.has_expired(),
        }
    }

    /// Whether it may change its tools without saying so here.
    pub(crate) fn is_silent(&self) -> bool {
        let says = match &self.connection {
            Connection::Stdio(_) => !self.is_stateless,
            Connection::Http(_) => false,
        };
        let hears = self.listening.is_on() && self.about.changes_tools;
        !says && !hears
    }

    /// Hears what a server sends unasked, for as long as the connection lives: that its tools changed, and over HTTP what it asks.
    pub(crate) async fn listen(&self, spawn: &Spawn) {
        if self.is_stateless {
            self.subscribe(spawn);
        } else if let Connection::Http(http) = &self.connection
            && (self.about.changes_tools || self.answerer.serves_any())
        {
            let (listening, closing) = (self.listening.clone(), self.closing.subscribe());
            let (http, protocol) = (Arc::clone(http), self.protocol.clone());
            (spawn)(Box::pin(async move {
                listening.run(closing, || http.hear(protocol.as_deref())).await;
            }));
            self.listening.settled().await;
        }
    }

    /// Has a server without a handshake say when its tools change.
    fn subscribe(&self, spawn: &Spawn) {
        if !self.about.changes_tools {
            return;
        }
        let wanted = json!({ "toolsListChanged": true });
        let params = self.with_meta(Params::default().with("notifications", &wanted), None);
        let (listening, closing) = (self.listening.clone(), self.closing.subscribe());
        match &self.connection {
            Connection::Stdio(stdio) => {
                // The process ends with its connection: one request is enough.
                let Ok((id, answer)) = stdio.pending.open(None) else { return };
                if stdio.send(request(id, LISTEN, &params)) {
                    (spawn)(Box::pin(listening.once(closing, answer)));
                }
            }
            Connection::Http(http) => {
                let http = Arc::clone(http);
                (spawn)(Box::pin(async move {
                    let request = || async {
                        let id = http.next_id();
                        let exchange = Exchange {
                            id,
                            method: LISTEN,
                            name: None,
                            body: request(id, LISTEN, &params),
                            on_progress: None,
                            protocol: Some(STATELESS),
                            is_stateless: true,
                        };
                        // Whatever came of it, it is made again.
                        drop(http.request(exchange).await);
                    };
                    listening.run(closing, request).await;
                }));
            }
        }
    }

    /// The end of what it logged.
    pub(crate) fn log(&self) -> String {
        match &self.connection {
            Connection::Stdio(stdio) => stdio.log(&self.secrets),
            Connection::Http(_) => String::new(),
        }
    }

    /// Ends it.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        match &self.connection {
            Connection::Stdio(stdio) => stdio.close().await,
            Connection::Http(http) => http.close().await,
        }
    }
}

fn does_not_read() -> McpError {
    McpError::Failed("does not read what it is sent".to_owned())
}

fn client() -> serde_json::Value {
    json!({ "name": "nexus-agent-engine", "version": env!("CARGO_PKG_VERSION") })
}
