//! A server over streamable HTTP: each request is a POST whose answer is JSON or a stream of events.
//!
//! It must never read an answer without bounds, or go on with a session that the server has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::answerer::Answerer;
use super::frame::{Frame, Params, RemoteError, notification, reply};
use super::listening::ACKNOWLEDGED;
use super::marks::Marks;
use super::parts::Spawn;
use super::pending::OnProgress;
use super::stdio::OnChange;
use model::repair_surrogates;
use provider::{Endpoint, EndpointAnswer, Flow, Sent, SseParser};

/// The longest answer.
const MAX_BYTES: usize = 16 << 20;
/// The most messages of one answer.
const MAX_FRAMES: u32 = 10_000;
/// How long the end of a session, or of a request, may take to reach the server.
const GRACE: Duration = Duration::from_millis(700);
/// How long an answer to a server may take to reach it.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Resumptions of a stream in a row that brought nothing.
const MAX_RESUMPTIONS: u32 = 3;
/// The request that stays open.
pub(crate) const LISTEN: &str = "subscriptions/listen";
const ACCEPT: &str = "application/json, text/event-stream";

/// A request that is sent.
pub(crate) struct Exchange<'a> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    /// The tool, prompt or resource that it names.
    pub(crate) name: Option<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) on_progress: Option<OnProgress>,
    /// The revision of the protocol, where a request names it.
    pub(crate) protocol: Option<&'a str>,
    /// The request says all about itself: there is no session.
    pub(crate) is_stateless: bool,
}

/// A connection to an address. There is no socket of its own.
pub(crate) struct Http {
    endpoint: Arc<Endpoint>,
    last: AtomicU64,
    state: Mutex<State>,
    on_change: OnChange,
    answerer: Answerer,
    spawn: Spawn,
}

#[derive(Default)]
struct State {
    session: Option<String>,
    ended: Option<Arc<str>>,
    expired: bool,
}

/// Where a message goes that has no answer.
struct Posting {
    endpoint: Arc<Endpoint>,
    session: Option<String>,
    protocol: Option<String>,
}

impl Posting {
    async fn send(&self, body: &[u8], limit: Duration) {
        let mut headers = vec![("accept", ACCEPT), ("content-type", "application/json")];
        headers.extend(self.session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(self.protocol.as_deref().map(|protocol| ("mcp-protocol-version", protocol)));
        // Nobody waits for it, and the server may be gone.
        let _ = tokio::time::timeout(limit, self.endpoint.send(&headers, Sent::Post(body))).await;
    }
}

/// What was read of an answer so far.
#[derive(Default)]
struct Read {
    frames: u32,
    bytes: usize,
    /// It has no result, and no bound but that of one message.
    is_endless: bool,
}

/// Why a stream of events gives no result.
enum Broken {
    /// What the server sends cannot be used.
    Answer(String),
    /// The rest did not arrive.
    Connection(String),
}

/// What came of a request.
pub(crate) enum Outcome {
    Result(Box<RawValue>),
    Remote(RemoteError),
    Failed(String),
}

impl Http {
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        on_change: OnChange,
        answerer: Answerer,
        spawn: Spawn,
    ) -> Self {
        let (last, state) = (AtomicU64::new(0), Mutex::default());
        Self { endpoint, last, state, on_change, answerer, spawn }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn ended(&self) -> Option<Arc<str>> {
        self.lock().ended.clone()
    }

    /// Whether the server has ended the session.
    pub(crate) fn has_expired(&self) -> bool {
        self.lock().expired
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.endpoint.redact(text)
    }

    /// Sends a request and waits for its result. Dropping the future closes the request.
    pub(crate) async fn request(&self, exchange: Exchange<'_>) -> Outcome {
        let session = self.lock().session.clone().filter(|_| !exchange.is_stateless);
        let session = session.filter(|_| exchange.method != "initialize");
        let mut headers = vec![("accept", ACCEPT), ("content-type", "application/json")];
        headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(exchange.protocol.map(|protocol| ("mcp-protocol-version", protocol)));
        let encoded = exchange.name.as_deref().map(encoded);
        if exchange.is_stateless {
            headers.push(("mcp-method", exchange.method));
            headers.extend(encoded.as_deref().map(|name| ("mcp-name", name)));
        }
        let answer = match self.endpoint.send(&headers, Sent::Post(&exchange.body)).await {
            Ok(answer) => answer,
            Err(why) => return Outcome::Failed(why),
        };
        let status = answer.status();
        if !(200..300).contains(&status) {
            let body = answer.refusal().await;
            if session.is_some() && ends_session(status, &body) {
                let why = "has ended the session";
                let mut state = self.lock();
                state.session = None;
                state.ended = Some(why.into());
                state.expired = true;
                return Outcome::Failed(why.to_owned());
            }
            return refused(status, &body);
        }
        if exchange.method == "initialize" {
            let session = answer.header("mcp-session-id").map(str::to_owned);
            self.lock().session = session;
        }
        let kind = answer.header("content-type").unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        let read = if is_stream {
            self.stream(answer, &exchange).await
        } else {
            self.whole(answer, &exchange).await
        };
        read.unwrap_or_else(Outcome::Failed)
    }

    async fn whole(
        &self,
        mut answer: EndpointAnswer,
        exchange: &Exchange<'_>,
    ) -> Result<Outcome, String> {
        let mut body = Vec::new();
        while let Some(piece) = answer.next().await? {
            if body.len() + piece.len() > MAX_BYTES {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        let body = repair_surrogates(&body);
        let mut replies = Vec::new();
        self.message(&body, exchange, &mut replies)
            .ok_or_else(|| "answered what is no message of the protocol".to_owned())
    }

    /// Reads a stream of events up to the result. One that ends before it is resumed after its last event, where the server numbers them.
    async fn stream(
        &self,
        answer: EndpointAnswer,
        exchange: &Exchange<'_>,
    ) -> Result<Outcome, String> {
        let mut marks = Marks::default();
        let mut read = Read { is_endless: exchange.method == LISTEN, ..Read::default() };
        let mut ended = self.events(answer, exchange, &mut marks, &mut read).await;
        let mut fruitless = 0;
        loop {
            let why = match ended {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => "ended its answer before the result".to_owned(),
                Err(Broken::Answer(why)) => return Err(why),
                Err(Broken::Connection(why)) => why,
            };
            marks.cut();
            // The form without a handshake has no resumption.
            let resumes = !exchange.is_stateless && fruitless < MAX_RESUMPTIONS;
            let Some(last) = marks.last().filter(|_| resumes) else {
                return Err(why);
            };
            let (last, frames) = (last.to_owned(), read.frames);
            tokio::time::sleep(marks.pause()).await;
            ended = self.resumed(&last, exchange, &mut marks, &mut read).await;
            fruitless = if read.frames == frames { fruitless + 1 } else { 0 };
        }
    }

    /// Goes on with a stream after the event `last`.
    async fn resumed(
        &self,
        last: &str,
        exchange: &Exchange<'_>,
        marks: &mut Marks,
        read: &mut Read,
    ) -> Result<Option<Outcome>, Broken> {
        let session = self.lock().session.clone();
        let mut headers = vec![("accept", "text/event-stream"), ("last-event-id", last)];
        headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(exchange.protocol.map(|protocol| ("mcp-protocol-version", protocol)));
        let answer = self.endpoint.send(&headers, Sent::Get).await.map_err(Broken::Connection)?;
        let status = answer.status();
        if !(200..300).contains(&status) {
            let why = format!(
                "ended its answer before the result, and does not resume it (HTTP {status})"
            );
            return Err(Broken::Answer(why));
        }
        self.events(answer, exchange, marks, read).await
    }

    /// Opens the stream on which a server with a handshake sends what belongs to no request, and reads it to its end. Nothing comes of it
    /// where the server has none.
    pub(crate) async fn hear(&self, protocol: Option<&str>) {
        let session = self.lock().session.clone();
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(protocol.map(|protocol| ("mcp-protocol-version", protocol)));
        let Ok(answer) = self.endpoint.send(&headers, Sent::Get).await else { return };
        let kind = answer.header("content-type").unwrap_or_default();
        if answer.status() != 200 || !kind.starts_with("text/event-stream") {
            return;
        }
        (self.on_change)(ACKNOWLEDGED);
        let exchange = Exchange {
            id: self.next_id(),
            method: LISTEN,
            name: None,
            body: Vec::new(),
            on_progress: None,
            protocol,
            is_stateless: false,
        };
        let mut read = Read { is_endless: true, ..Read::default() };
        // However it ends, it is opened again.
        drop(self.events(answer, &exchange, &mut Marks::default(), &mut read).await);
    }

    /// Reads the events of one response; `None` where it ends before the result.
    async fn events(
        &self,
        mut answer: EndpointAnswer,
        exchange: &Exchange<'_>,
        marks: &mut Marks,
        read: &mut Read,
    ) -> Result<Option<Outcome>, Broken> {
        let mut parser = SseParser::new();
        let mut found = None;
        while let Some(piece) = answer.next().await.map_err(Broken::Connection)? {
            marks.feed(&piece);
            read.bytes += piece.len();
            if read.bytes > 2 * MAX_BYTES && !read.is_endless {
                return Err(Broken::Answer(too_large()));
            }
            let mut replies = Vec::new();
            let fed = parser.feed(&piece, &mut |_, data| {
                read.frames = read.frames.saturating_add(1);
                if found.is_none() {
                    found = self.message(&repair_surrogates(data), exchange, &mut replies);
                }
                Ok(if found.is_some() { Flow::End } else { Flow::More })
            });
            fed.map_err(|failure| Broken::Answer(failure.message))?;
            if read.frames > MAX_FRAMES && !read.is_endless {
                return Err(Broken::Answer("sent too many messages".to_owned()));
            }
            for text in replies {
                self.answer(std::future::ready(text), exchange.protocol);
            }
            if let Some(found) = found {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads a message; the outcome, if it is that of the request.
    fn message(
        &self,
        text: &[u8],
        exchange: &Exchange<'_>,
        replies: &mut Vec<Vec<u8>>,
    ) -> Option<Outcome> {
        match Frame::read(text) {
            Frame::Answer { id, outcome } if id == exchange.id => Some(match outcome {
                Ok(result) => Outcome::Result(result.to_owned()),
                Err(error) => Outcome::Remote(error),
            }),
            Frame::Request { id, method, params } if self.answerer.serves(&method) => {
                let message = self.answerer.clone().message(
                    id.to_owned(),
                    method.into_owned(),
                    params.map(ToOwned::to_owned),
                );
                self.answer(message, exchange.protocol);
                None
            }
            Frame::Request { id, method, .. } => {
                replies.push(reply(id, &method));
                None
            }
            Frame::Notification { method, params } => {
                match (method.as_ref(), params, &exchange.on_progress) {
                    ("notifications/progress", Some(params), Some(deliver)) => deliver(params),
                    ("notifications/progress", _, _) => {}
                    (method, _, _) => (self.on_change)(method),
                }
                None
            }
            Frame::Answer { .. } | Frame::Noise => None,
        }
    }

    /// Sends an answer to the server, as soon as it is there. The end of the connection ends it.
    fn answer(&self, body: impl Future<Output = Vec<u8>> + Send + 'static, protocol: Option<&str>) {
        let (posting, closed) = (self.posting(protocol), self.answerer.closed());
        (self.spawn)(Box::pin(async move {
            let sent = async { posting.send(&body.await, ANSWER_TIME).await };
            tokio::select! {
                () = sent => {}
                () = closed => {}
            }
        }));
    }

    /// Sends a notification without waiting for anything.
    pub(crate) fn post(&self, body: Vec<u8>, protocol: Option<&str>) {
        let posting = self.posting(protocol);
        (self.spawn)(Box::pin(async move { posting.send(&body, GRACE).await }));
    }

    fn posting(&self, protocol: Option<&str>) -> Posting {
        let (endpoint, session) = (Arc::clone(&self.endpoint), self.lock().session.clone());
        Posting { endpoint, session, protocol: protocol.map(str::to_owned) }
    }

    /// Sends a notification, and waits until the server has it.
    pub(crate) async fn notify(&self, method: &str, protocol: Option<&str>) -> Result<(), String> {
        let session = self.lock().session.clone();
        let mut headers = vec![("accept", ACCEPT), ("content-type", "application/json")];
        headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(protocol.map(|protocol| ("mcp-protocol-version", protocol)));
        let body = notification(method, &Params::default());
        self.endpoint.send(&headers, Sent::Post(&body)).await.map(drop)
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(&self) {
        let session = {
            let mut state = self.lock();
            state.ended.get_or_insert_with(|| "was closed".into());
            state.session.take()
        };
        if let Some(session) = session {
            let headers = [("mcp-session-id", session.as_str())];
            // A server may not know how to end one, or be gone.
            let _ = tokio::time::timeout(GRACE, self.endpoint.send(&headers, Sent::Delete)).await;
        }
    }
}

/// Whether a refusal says that the server does not know the session: 404, or as many servers answer, 400 with an error that is about no
/// request in particular. A server that did anything with the request answers its id.
fn ends_session(status: u16, body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Body {
        #[serde(default)]
        id: Option<serde::de::IgnoredAny>,
        error: RemoteError,
    }
    if status != 400 {
        return status == 404;
    }
    let Ok(Body { id: None, error }) = serde_json::from_slice(body) else { return false };
    let message = error.message.to_ascii_lowercase();
    message.contains("session") || message.contains("not initialized")
}

/// What a status other than success says. A body of the protocol says more.
fn refused(status: u16, body: &[u8]) -> Outcome {
    #[derive(serde::Deserialize)]
    struct Body {
        error: RemoteError,
    }
    if let Ok(Body { error }) = serde_json::from_slice(body) {
        return Outcome::Remote(error);
    }
    Outcome::Failed(match status {
        401 | 403 => format!("refuses the credentials (HTTP {status}); pass `headers` or `auth`"),
        _ => format!("answered HTTP {status}"),
    })
}

fn too_large() -> String {
    format!("sent an answer of more than {MAX_BYTES} bytes")
}

/// A name as the value of a header: what no header may have is in base64.
fn encoded(name: &str) -> String {
    let plain = name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let is_plain = plain && name.trim() == name && !name.starts_with("=?base64?");
    if is_plain { name.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(name)) }
}
