//! A connection to a server after its beginning, in one of the two forms of the protocol: with a handshake (up to 2025-11-25), or
//! with what each request says about itself (2026-07-28).
//!
//! A request that nobody waits for any more is cancelled, and its answer dropped. It must never wait without a limit of its caller.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::frame::{Params, notification, request};
use super::pending::OnProgress;
use super::redaction::Secrets;
use super::settings::{Protocol, ServerSettings};
use super::stdio::{OnChange, Stdio};
use base::clock::Clock;

/// The revision that a handshake offers.
const OFFERED: &str = "2025-11-25";
/// The revisions with a handshake that are understood.
const UNDERSTOOD: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", OFFERED];
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
    pub(crate) has_resources: bool,
    pub(crate) has_prompts: bool,
}

/// A connection.
pub(crate) struct Session {
    connection: Stdio,
    is_stateless: bool,
    pub(crate) about: About,
    secrets: Secrets,
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
    tools: Option<serde::de::IgnoredAny>,
    resources: Option<serde::de::IgnoredAny>,
    prompts: Option<serde::de::IgnoredAny>,
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
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        let connection = &self.session.connection;
        if connection.pending.forget(self.id) && self.is_cancellable {
            let params = Params::default()
                .with("requestId", &self.id)
                .with("reason", "the caller does not wait any more");
            // A server that does not read any more need not know.
            let _ = connection.send(notification("notifications/cancelled", &params));
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
        clock: Clock,
    ) -> Result<Self, (McpError, String)> {
        let started = Stdio::start(&settings.name, settings.command.clone(), on_change, clock);
        let secrets = settings.secrets.clone();
        let connection =
            started.await.map_err(|why| (McpError::Failed(secrets.clean(&why)), String::new()))?;
        let about = About::default();
        let mut session = Self { connection, is_stateless: false, about, secrets };
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
            .with("capabilities", &json!({}))
            .with("clientInfo", &client());
        let raw = self.request("initialize", params, None).await?;
        let begun: Begun = self.parsed(&raw)?;
        if !UNDERSTOOD.contains(&begun.protocol_version.as_str()) {
            let version = self.secrets.clean(&begun.protocol_version);
            let why = format!("speaks version `{version}` of the protocol, which is not known");
            return Err(McpError::Failed(why));
        }
        let protocol = begun.protocol_version.clone();
        self.about = self.about(begun, protocol);
        if !self.connection.send(notification("notifications/initialized", &Params::default())) {
            return Err(McpError::Failed("does not read what it is sent".to_owned()));
        }
        Ok(())
    }

    async fn discover(&mut self) -> Result<(), McpError> {
        self.is_stateless = true;
        let raw = self.request("server/discover", Params::default(), None).await?;
        let begun: Begun = self.parsed(&raw)?;
        if !begun.supported_versions.iter().any(|version| version == STATELESS) {
            let versions = self.secrets.clean(&begun.supported_versions.join(", "));
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
            name: self.secrets.clean(&name),
            version: self.secrets.clean(&version),
            has_tools: capabilities.tools.is_some(),
            has_resources: capabilities.resources.is_some(),
            has_prompts: capabilities.prompts.is_some(),
        }
    }

    fn parsed<'t, T: Deserialize<'t>>(&self, raw: &'t RawValue) -> Result<T, McpError> {
        serde_json::from_str(raw.get()).map_err(|error| {
            McpError::Failed(self.secrets.clean(&format!("answered what cannot be read: {error}")))
        })
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
        let reports = on_progress.is_some();
        let opened = self.connection.pending.open(on_progress);
        let (id, answer) = opened.map_err(|why| McpError::Failed(why.to_string()))?;
        let is_cancellable = method != "initialize";
        let outstanding = Outstanding { session: self, id, is_cancellable };
        let params = self.with_meta(params, reports.then_some(id));
        if !self.connection.send(request(id, method, &params)) {
            return Err(McpError::Failed("does not read what it is sent".to_owned()));
        }
        let answered = answer.await;
        drop(outstanding);
        match answered {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => {
                let message = self.secrets.clean(&error.message);
                Err(McpError::Remote { code: error.code, message })
            }
            Ok(Err(why)) => Err(McpError::Failed(why.to_string())),
            Err(_) => Err(McpError::Failed("has ended".to_owned())),
        }
    }

    fn with_meta(&self, params: Params, progress: Option<u64>) -> Params {
        let mut meta = serde_json::Map::new();
        if self.is_stateless {
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), STATELESS.into());
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), client());
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
        }
        if let Some(id) = progress {
            meta.insert("progressToken".to_owned(), id.into());
        }
        if meta.is_empty() { params } else { params.with("_meta", &meta) }
    }

    /// Why it cannot be used any more; `None` while it can.
    pub(crate) fn ended(&self) -> Option<Arc<str>> {
        self.connection.pending.ended()
    }

    /// The end of what it logged.
    pub(crate) fn log(&self) -> String {
        self.connection.log(&self.secrets)
    }

    /// Ends it.
    pub(crate) async fn close(&self) {
        self.connection.close().await;
    }
}

fn client() -> serde_json::Value {
    json!({ "name": "nexus-agent-engine", "version": env!("CARGO_PKG_VERSION") })
}
