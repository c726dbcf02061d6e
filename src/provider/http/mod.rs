//! HTTP: one attempt from a request to a completion or a failure, over any wire API.
//!
//! It moves bytes between the socket and the API's encoder and decoder. It must never retry, follow a redirect, or know
//! an API's JSON.

mod body;
mod client;
mod errors;
mod guard;
mod limits;
#[cfg(test)]
mod tests;
mod transport;

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use reqwest::{Method, Request, Response, StatusCode, Url};
use secrecy::ExposeSecret as _;

use super::classify::{http_failure, ok_but_not_stream};
use super::redact::redact;
use super::sse::StreamReader;
use super::{
    Api, Attempted, Completion, Credential, Delta, DeltaSink, Failure, Flow, ModelRequest,
    Provider, Wire,
};
use crate::clock::Clock;
use crate::model::{FailureKind, Message};

pub use client::HttpClient;
pub(crate) use client::{Connection, authorities, proxy};
use errors::final_failure;
pub(crate) use guard::{BaseUrl, add_header};
pub use limits::Timeouts;
use limits::{ERROR_BODY_BYTES, ERROR_BODY_TIME, UNARY_BYTES};
use transport::{Collected, Exchange, Remainders, send};

/// What the options say of an HTTP provider, checked.
#[derive(Clone)]
pub struct HttpSettings {
    pub(crate) base: BaseUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) timeouts: Timeouts,
    pub(crate) connection: Connection,
    /// The value of `anthropic-version`, for that API.
    pub(crate) anthropic_version: HeaderValue,
}

impl HttpSettings {
    /// The host requests go to: what a compatible server is recognised by.
    #[must_use]
    pub fn host(&self) -> &str {
        self.base.host()
    }
}

/// A provider reached over HTTP.
pub struct HttpProvider {
    wire: Box<dyn Wire>,
    settings: HttpSettings,
    /// Every header but the credential's.
    headers: HeaderMap,
    client: Arc<HttpClient>,
    built: OnceLock<reqwest::Client>,
    /// The first path asked for and its URL; an API has but one.
    target: OnceLock<(String, Url)>,
    remainders: Remainders,
    clock: Clock,
}

impl HttpProvider {
    /// A provider over `client`; nothing is opened before the first attempt.
    #[must_use]
    pub fn new(
        wire: Box<dyn Wire>,
        settings: HttpSettings,
        client: Arc<HttpClient>,
        clock: Clock,
    ) -> Self {
        let mut headers = settings.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if wire.api() == Api::AnthropicMessages {
            let name = HeaderName::from_static("anthropic-version");
            headers.insert(name, settings.anthropic_version.clone());
        }
        Self {
            wire,
            settings,
            headers,
            client,
            built: OnceLock::new(),
            target: OnceLock::new(),
            remainders: Remainders::default(),
            clock,
        }
    }

    async fn attempt(
        &self,
        request: &ModelRequest,
        credential: Option<&Credential>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let client = self.client()?;
        self.remainders.sweep(self.clock.instant());
        let request = self.request(request, credential)?;
        let origin = self.settings.base.origin();
        let mut exchange =
            send(&client, request, origin, self.settings.timeouts, &self.clock).await?;
        check_encoding(&exchange.response, origin)?;
        if exchange.response.status() != StatusCode::OK {
            return Err(self.refused(&mut exchange).await);
        }
        match content_type(&exchange.response) {
            Content::Stream => self.stream_events(exchange, sink).await,
            Content::Json => self.whole(exchange, sink).await,
            Content::Other(kind) => {
                let collected = exchange.collect(ERROR_BODY_BYTES, Some(ERROR_BODY_TIME)).await?;
                Err(ok_but_not_stream(StatusCode::OK.as_u16(), Some(&kind), &collected.body))
            }
        }
    }

    fn client(&self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.built.get() {
            return Ok(client.clone());
        }
        let client = self
            .client
            .get(&self.settings.connection)
            .map_err(|error| final_failure(FailureKind::Unknown, "client", error.to_string()))?;
        Ok(self.built.get_or_init(|| client).clone())
    }

    fn request(
        &self,
        request: &ModelRequest,
        credential: Option<&Credential>,
    ) -> Result<Request, Failure> {
        let path = self.wire.path(request);
        let (first, url) =
            self.target.get_or_init(|| (path.clone(), self.settings.base.join(&path)));
        let url = if *first == path { url.clone() } else { self.settings.base.join(&path) };
        let mut headers = self.headers.clone();
        if let Some(credential) = credential {
            let (name, value) = credential_header(self.wire.api(), credential)?;
            headers.insert(name, value);
        }
        let mut http = Request::new(Method::POST, url);
        *http.headers_mut() = headers;
        *http.body_mut() = Some(body::request_body(self.wire.body(request)));
        Ok(http)
    }

    /// What an error of this attempt must not repeat.
    fn keys<'a>(&'a self, credential: Option<&'a Credential>) -> Vec<&'a str> {
        let headers = self.settings.headers.iter().filter(|(name, _)| holds_key(name));
        headers
            .filter_map(|(_, value)| value.to_str().ok())
            .chain(credential.map(|credential| credential.secret.expose_secret()))
            .collect()
    }

    async fn refused(&self, exchange: &mut Exchange<'_>) -> Failure {
        let status = exchange.response.status();
        if status.is_redirection() {
            let message = format!(
                "`{}` redirects elsewhere, and keys are not sent after it; name the final address as `baseUrl`",
                self.settings.base.origin()
            );
            let failure = final_failure(FailureKind::Format, "redirect_refused", message);
            return Failure { status: Some(status.as_u16()), ..failure };
        }
        // The status says enough when the body cannot be read.
        let body = exchange.collect(ERROR_BODY_BYTES, Some(ERROR_BODY_TIME)).await;
        let body = body.map(|collected| collected.body).unwrap_or_default();
        let headers = exchange.response.headers();
        let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        let content_type = header(CONTENT_TYPE.as_str());
        let (api, now) = (self.wire.api(), self.clock.now_ms());
        http_failure(api, status.as_u16(), &header, content_type.as_deref(), &body, now)
    }

    async fn whole(
        &self,
        mut exchange: Exchange<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let Collected { body, whole } = exchange.collect(UNARY_BYTES, None).await?;
        if !whole {
            return Err(too_large(self.settings.base.origin(), UNARY_BYTES));
        }
        self.wire.decoder().unary(&body, sink)
    }

    async fn stream_events(
        &self,
        mut exchange: Exchange<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let mut reader = StreamReader::new(self.wire.decoder());
        let mut sink = Counting { sink, deltas: 0 };
        loop {
            let piece = match exchange.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return reader.end(&mut sink),
                // Some servers hang up right after the terminal event, before the connection's own end.
                Err(failure) => return reader.end(&mut sink).map_err(|_| failure),
            };
            let before = sink.deltas;
            if reader.feed(&piece, &mut sink)? == Flow::End {
                let completion = reader.end(&mut sink);
                self.remainders.finish(exchange);
                return completion;
            }
            exchange.progressed(sink.deltas != before)?;
            if sink.wait_until_ready().await {
                exchange.resumed();
            }
        }
    }
}

impl Provider for HttpProvider {
    fn api(&self) -> Api {
        self.wire.api()
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        self.wire.encode_messages(messages)
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a> {
        Box::pin(async move {
            let outcome = self.attempt(request, credential, sink).await;
            outcome.map_err(|failure| without_keys(failure, &self.keys(credential)))
        })
    }
}

/// Counts the deltas, so that pings can be told from progress.
struct Counting<'a> {
    sink: &'a mut dyn DeltaSink,
    deltas: u64,
}

impl Counting<'_> {
    /// Waits for the reader; true when there was a wait.
    async fn wait_until_ready(&mut self) -> bool {
        let mut waited = false;
        std::future::poll_fn(|cx| {
            let ready = self.sink.poll_ready(cx);
            waited |= ready.is_pending();
            ready
        })
        .await;
        waited
    }
}

impl DeltaSink for Counting<'_> {
    fn delta(&mut self, delta: Delta<'_>) {
        self.deltas = self.deltas.wrapping_add(1);
        self.sink.delta(delta);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(cx)
    }
}

enum Content {
    Stream,
    Json,
    Other(String),
}

fn content_type(response: &Response) -> Content {
    let value = response.headers().get(CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("text/event-stream") {
        Content::Stream
    } else if essence.eq_ignore_ascii_case("application/json") {
        Content::Json
    } else {
        Content::Other(value.to_owned())
    }
}

/// We ask for none; one that comes anyway is refused before a byte of it is unpacked.
fn check_encoding(response: &Response, origin: &str) -> Result<(), Failure> {
    let mut encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    if encodings.all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = format!("`{origin}` answers with a content encoding that was not asked for");
    let failure = final_failure(FailureKind::ServerError, "content_encoding", message);
    Err(Failure { status: Some(response.status().as_u16()), ..failure })
}

fn too_large(origin: &str, cap: usize) -> Failure {
    let message = format!("the answer of `{origin}` is larger than `{cap}` bytes");
    final_failure(FailureKind::ServerError, "response_too_large", message)
}

fn credential_header(
    api: Api,
    credential: &Credential,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let own_header = api == Api::AnthropicMessages && !credential.bearer;
    let secret = credential.secret.expose_secret();
    let (name, value) = if own_header {
        (HeaderName::from_static("x-api-key"), HeaderValue::from_str(secret))
    } else {
        (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {secret}")))
    };
    let Ok(mut value) = value else {
        let profile = &credential.profile_id;
        let message = format!("the key of `{profile}` has a character that no header may have");
        return Err(final_failure(FailureKind::Auth, "invalid_key", message));
    };
    value.set_sensitive(true);
    Ok((name, value))
}

/// Some servers quote the key they refuse.
fn without_keys(mut failure: Failure, keys: &[&str]) -> Failure {
    failure.message = redact(&failure.message, keys);
    failure.code = failure.code.map(|code| redact(&code, keys));
    failure
}

/// Whether a header of the options holds a key, by its name: gateways have names of their own (`api-key`, `cf-access-token`).
fn holds_key(name: &HeaderName) -> bool {
    ["key", "token", "secret", "auth", "password"].iter().any(|word| name.as_str().contains(word))
}
