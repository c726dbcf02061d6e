//! A loopback server with scripted bytes, a tiny wire API, and a sink that records its deltas.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::http::{HttpClient, HttpProvider};
use crate::{
    Api, BlockStart, Completion, Credential, Decoder, Delta, DeltaSink, Failure, Flow,
    ModelRequest, Provider as _, ProviderSettings, Stop, Wire, parse_providers,
};
use base::clock::Clock;
use base::config::Environment;
use model::{FailureKind, Message, RunWarning};

pub(super) const KEY: &str = "sk-test-0123456789";

/// A server that runs `handler` on each connection, and counts them.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the server of a test ends with its runtime")]
    pub(super) async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                // A small piece must not wait for the acknowledgement of the previous one.
                socket.set_nodelay(true).unwrap();
                tokio::spawn(handler(socket));
            }
        });
        Self { address, connections }
    }

    /// Answers one request per connection with these bytes, then closes it.
    pub(super) async fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Bytes = bytes.into().into();
        Self::start(move |mut socket| {
            let bytes = bytes.clone();
            async move {
                read_request(&mut socket).await;
                // A client that refuses the answer closes the connection in the middle.
                let _ = socket.write_all(&bytes).await;
            }
        })
        .await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request; its head and body as text. Empty when the client closed the connection.
pub(super) async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(at) = memchr::memmem::find(&seen, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..at]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if seen.len() >= at + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap()) {
                return String::from_utf8(seen).unwrap();
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return String::new(),
            Ok(read) => seen.extend_from_slice(&buffer[..read]),
        }
    }
}

pub(super) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n";

/// A stream of these events without a length: it ends when the connection does.
pub(super) fn unbounded(events: &str) -> String {
    format!("{STREAM}connection: close\r\n\r\n{events}")
}

/// The head of a chunked stream and one chunk, without the end of the chunks.
pub(super) fn chunked(events: &str) -> String {
    format!("{STREAM}transfer-encoding: chunked\r\n\r\n{:x}\r\n{events}\r\n", events.len())
}

pub(super) const WHOLE: &str =
    "event: text\ndata: hel\n\nevent: text\ndata: lo\n\nevent: end\ndata: stop\n\n";

/// A wire API of three events: `text`, `end`, and anything else is a ping.
pub(super) struct Lines(pub(super) Api);

struct LinesDecoder {
    ended: bool,
}

impl Wire for Lines {
    fn api(&self) -> Api {
        self.0
    }

    fn path(&self, _: &ModelRequest) -> String {
        "/v1/lines".to_owned()
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        let mut pieces = vec![Bytes::from(format!("{}:", request.model))];
        pieces.extend(request.messages.iter().cloned());
        pieces
    }

    fn unsupported(&self, _: &ModelRequest) -> Vec<RunWarning> {
        Vec::new()
    }

    fn encode_messages(&self, _: &[Message]) -> Bytes {
        Bytes::new()
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(LinesDecoder { ended: false })
    }
}

impl Decoder for LinesDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        match name {
            "text" => {
                let text = std::str::from_utf8(data).unwrap();
                sink.delta(Delta::Text { index: 0, text });
                Ok(Flow::More)
            }
            "end" => {
                self.ended = true;
                Ok(Flow::End)
            }
            "last" => {
                self.ended = true;
                Ok(Flow::More)
            }
            _ => Ok(Flow::More),
        }
    }

    fn end(&mut self, _: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        if self.ended {
            return Ok(completion());
        }
        Err(Failure::new(FailureKind::Network, "stream_truncated", "no terminal event"))
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let text = std::str::from_utf8(body).unwrap();
        sink.delta(Delta::BlockStart { index: 0, start: BlockStart::Text });
        sink.delta(Delta::Text { index: 0, text });
        Ok(completion())
    }
}

pub(super) fn completion() -> Completion {
    Completion { stop: Stop::EndTurn, stop_raw: "stop".to_owned(), status: 200 }
}

/// Collects the text. Each delta may make the transport wait once.
#[derive(Default)]
pub(super) struct Captured {
    pub(super) text: Arc<Mutex<String>>,
    pub(super) waits: usize,
    owes_a_wait: bool,
}

impl DeltaSink for Captured {
    fn delta(&mut self, delta: Delta<'_>) {
        if let Delta::Text { text, .. } = delta {
            self.text.lock().unwrap().push_str(text);
            self.owes_a_wait = true;
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.owes_a_wait) {
            self.waits += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// A provider at `base`, with more options as JSON members.
pub(super) fn provider(base: &str, api: Api, more: &str) -> HttpProvider {
    let api_name = api.as_str();
    let options = format!(r#"{{"test":{{"api":"{api_name}","baseUrl":"{base}"{more}}}}}"#);
    let raw = RawValue::from_string(options).unwrap();
    let mut set = parse_providers(Some(&raw), None, &Environment::fixed([])).unwrap();
    let Some(ProviderSettings::Http { settings, .. }) = set.providers.remove("test") else {
        panic!("an HTTP provider")
    };
    HttpProvider::new(Box::new(Lines(api)), *settings, HttpClient::new(), Clock::default())
}

pub(super) fn chat(server: &Server, more: &str) -> HttpProvider {
    provider(&server.url(), Api::OpenaiChat, more)
}

pub(super) fn credential() -> Credential {
    Credential { profile_id: "test:key".to_owned(), secret: KEY.into(), bearer: false, aws: None }
}

pub(super) fn request() -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        system: String::new(),
        tools: Arc::new([]),
        messages: vec![Bytes::from_static(b"one,"), Bytes::from_static(b"two")],
        max_tokens: 16,
        temperature: None,
        thinking: None,
        reasoning_model: false,
        ..ModelRequest::default()
    }
}

/// One attempt: its outcome and the received text.
pub(super) async fn stream_text(provider: &HttpProvider) -> (Result<Completion, Failure>, String) {
    let mut sink = Captured::default();
    let outcome = provider.stream(&request(), Some(&credential()), &mut sink).await;
    let text = sink.text.lock().unwrap().clone();
    (outcome, text)
}

/// A failed attempt: kind, code, status, retry hint, and the received text.
pub(super) type FailureFacts = (FailureKind, String, Option<u16>, Option<bool>, String);

pub(super) async fn fails(provider: &HttpProvider) -> FailureFacts {
    let (outcome, text) = stream_text(provider).await;
    let failure = outcome.expect_err("a failure");
    for shown in [failure.to_string(), format!("{failure:?}")] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    let code = failure.code.unwrap_or_default();
    (failure.kind, code, failure.status, failure.should_retry, text)
}
