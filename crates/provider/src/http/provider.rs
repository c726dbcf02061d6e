//! One attempt over HTTP, from a request to a completion or a failure, over any wire API.
//!
//! It must never retry, follow a redirect, or know an API's JSON.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, StatusCode, Url};
use secrecy::ExposeSecret as _;

use super::cleaned::Cleaned;
use super::client::HttpClient;
use super::content::{Content, check_encoding, content_type, without_mark};
use super::counting::Counting;
use super::credential::{credential_header, invalid_key, without_keys};
use super::errors::final_failure;
use super::limits::{ERROR_BODY_BYTES, ERROR_BODY_TIME, UNARY_BYTES};
use super::settings::HttpSettings;
use super::sniff::Beginning;
use super::transport::{Collected, Exchange, Remainders, send};
use super::{body, headers, signing};
use crate::classify::{http_failure, ok_but_not_stream, rate_limits};
use crate::framing::sse::StreamReader;
use crate::hook::HookedRequest;
use crate::redact::{LiveKeys, redact};
use crate::{
    Api, Attempted, Completion, CountCall, Counted, Credential, Decoder, DeltaSink, EmbedAnswer,
    Embedding, Failure, Flow, Framing, ModelRequest, Provider, Wire,
};
use base::clock::Clock;
use model::{FailureKind, Message, RunWarning, TranscriptRules};

/// A provider that is called over HTTP.
pub struct HttpProvider {
    wire: Box<dyn Wire>,
    settings: HttpSettings,
    /// Every header except the credential's.
    headers: HeaderMap,
    client: Arc<HttpClient>,
    built: Mutex<Option<reqwest::Client>>,
    /// The first requested path and its URL; most APIs have only one.
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
        let accept = match wire.framing() {
            Framing::EventSource => "text/event-stream, application/json",
            Framing::AwsEventStream => "application/vnd.amazon.eventstream, application/json",
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
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
            built: Mutex::default(),
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
        let url = self.url(self.wire.path(request), &request.model);
        let body = self.wire.body(request);
        let body = self.shown(&url, body, request, credential).await?;
        let mut exchange = self.exchange(url, body, request, credential, Some(&mut *sink)).await?;
        let decoder = self.wire.decoder_for(request);
        let mut content = content_type(&exchange.response, self.wire.framing());
        if let Content::Unnamed = content {
            content = match exchange.sniff(self.wire.framing()).await? {
                Beginning::Stream => Content::Stream,
                Beginning::Json => Content::Json,
                Beginning::Unknown | Beginning::Other => Content::Unnamed,
            };
        }
        let kind = match content {
            Content::Stream => return self.stream_events(exchange, decoder, sink).await,
            Content::Json => return self.whole(exchange, decoder, sink).await,
            Content::Unnamed => None,
            Content::Other(kind) => Some(kind),
        };
        let collected = exchange.collect(ERROR_BODY_BYTES, Some(ERROR_BODY_TIME)).await?;
        Err(ok_but_not_stream(
            StatusCode::OK.as_u16(),
            kind.as_deref(),
            without_mark(&collected.body),
        ))
    }

    /// The body as it is sent, after the request hook.
    async fn shown(
        &self,
        url: &Url,
        body: Vec<Bytes>,
        request: &ModelRequest,
        credential: Option<&Credential>,
    ) -> Result<Vec<Bytes>, Failure> {
        let Some(hook) = &request.hook else { return Ok(body) };
        let shown = redact(url.as_str(), &self.keys(request, credential));
        let hooked = HookedRequest { api: self.wire.api(), model: &request.model, url: &shown };
        hook.apply(hooked, body).await
    }

    fn client(&self) -> Result<reqwest::Client, Failure> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*built {
            return Ok(client.clone());
        }
        let client = self
            .client
            .get(&self.settings.connection)
            .map_err(|error| final_failure(FailureKind::Unknown, "client", error.to_string()))?;
        Ok(built.insert(client).clone())
    }

    /// Requests a count of tokens. `None` from a server without that path.
    async fn request_count(
        &self,
        request: &ModelRequest,
        credential: Option<&Credential>,
    ) -> Result<Option<u64>, Failure> {
        let Some(CountCall { path, body }) = self.wire.count(request) else { return Ok(None) };
        let url = self.url(path, &request.model);
        let body = self.shown(&url, body, request, credential).await?;
        let mut exchange = match self.exchange(url, body, request, credential, None).await {
            Ok(exchange) => exchange,
            // An error in the API's own form concerns the request; a bare status concerns the path.
            Err(Failure { status: Some(404 | 405 | 501), code: None, .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let Collected { body, whole } = exchange.collect(ERROR_BODY_BYTES, None).await?;
        match self.wire.counted(&body).filter(|_| whole) {
            Some(tokens) => Ok(Some(tokens)),
            None => {
                let origin = self.settings.base.origin();
                let message = format!("`{origin}` did not answer with a number of tokens");
                Err(final_failure(FailureKind::ServerError, "not_a_count", message))
            }
        }
    }

    /// Requests vectors. `None` from an API without them.
    async fn request_vectors(
        &self,
        request: &ModelRequest,
        credential: Option<&Credential>,
    ) -> Result<Option<EmbedAnswer>, Failure> {
        let (Some(api), Some(input)) = (self.wire.embeddings(), &request.embed) else {
            return Ok(None);
        };
        let path = self.wire.embed_path(&request.model, (api.path)(&request.model));
        let url = self.url(path, &request.model);
        let body = vec![Bytes::from((api.body)(&request.model, input))];
        let body = self.shown(&url, body, request, credential).await?;
        let mut exchange = self.exchange(url, body, request, credential, None).await?;
        let Collected { body, whole } = exchange.collect(UNARY_BYTES, None).await?;
        if !whole {
            return Err(too_large(self.settings.base.origin(), UNARY_BYTES));
        }
        match (api.answer)(&body).filter(|answer| answer.vectors.len() == input.texts.len()) {
            Some(answer) => Ok(Some(answer)),
            None => {
                let origin = self.settings.base.origin();
                let message = format!("`{origin}` did not answer with a vector for each text");
                Err(final_failure(FailureKind::ServerError, "not_vectors", message))
            }
        }
    }

    /// Sends one request and waits for an answer of status 200.
    async fn exchange(
        &self,
        url: Url,
        body: Vec<Bytes>,
        request: &ModelRequest,
        credential: Option<&Credential>,
        sink: Option<&mut dyn DeltaSink>,
    ) -> Result<Exchange<'_>, Failure> {
        let client = self.client()?;
        self.remainders.sweep(self.clock.instant());
        let request = self.request(url, body, request, credential)?;
        let origin = self.settings.base.origin();
        let mut exchange =
            send(&client, request, origin, self.settings.timeouts, &self.clock).await?;
        if let Some(sink) = sink {
            let headers = exchange.response.headers();
            let header = |name: &str| headers.get(name)?.to_str().ok();
            let limits = rate_limits(&header, self.clock.now_ms());
            sink.answered(exchange.response.status().as_u16(), &limits);
        }
        check_encoding(&exchange.response, origin)?;
        if exchange.response.status() != StatusCode::OK {
            return Err(self.refused(&mut exchange).await);
        }
        Ok(exchange)
    }

    fn url(&self, path: String, model: &str) -> Url {
        let path = self.settings.paths.shape(self.wire.api(), path, model);
        let (first, url) =
            self.target.get_or_init(|| (path.clone(), self.settings.base.join(&path)));
        if *first == path { url.clone() } else { self.settings.base.join(&path) }
    }

    fn request(
        &self,
        url: Url,
        body: Vec<Bytes>,
        request: &ModelRequest,
        credential: Option<&Credential>,
    ) -> Result<Request, Failure> {
        let mut headers = self.headers.clone();
        request.headers.put_over(&mut headers);
        match credential {
            Some(Credential { aws: Some(identity), profile_id, secret, .. }) => {
                let region = self.settings.region.as_deref().unwrap_or_default();
                let now = self.clock.now_ms();
                signing::sign(&mut headers, &url, &body, region, now, identity, secret)
                    .ok_or_else(|| invalid_key(profile_id))?;
            }
            Some(credential) => {
                let own = self.settings.key_header.as_ref();
                let (name, value) = credential_header(own, credential)?;
                headers.insert(name, value);
            }
            None => {}
        }
        let mut http = Request::new(Method::POST, url);
        *http.headers_mut() = headers;
        *http.body_mut() = Some(body::request_body(body));
        Ok(http)
    }

    /// The texts that an error of this attempt must not repeat.
    fn keys<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
    ) -> Vec<&'a str> {
        headers::keys(&self.settings.headers)
            .chain(request.headers.keys())
            .chain(credential.map(|credential| credential.secret.expose_secret()))
            .chain(credential.and_then(|credential| {
                Some(credential.aws.as_ref()?.session_token.as_ref()?.expose_secret())
            }))
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
        // The status is enough if the body cannot be read.
        let body = exchange.collect(ERROR_BODY_BYTES, Some(ERROR_BODY_TIME)).await;
        let body = body.map(|collected| collected.body).unwrap_or_default();
        let headers = exchange.response.headers();
        let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        let content_type = header(CONTENT_TYPE.as_str());
        let (api, now) = (self.wire.api(), self.clock.now_ms());
        let body = without_mark(&body);
        http_failure(api, status.as_u16(), &header, content_type.as_deref(), body, now)
    }

    async fn whole(
        &self,
        mut exchange: Exchange<'_>,
        mut decoder: Box<dyn Decoder>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let Collected { body, whole } = exchange.collect(UNARY_BYTES, None).await?;
        if !whole {
            return Err(too_large(self.settings.base.origin(), UNARY_BYTES));
        }
        decoder.unary(without_mark(&body), sink)
    }

    async fn stream_events(
        &self,
        mut exchange: Exchange<'_>,
        decoder: Box<dyn Decoder>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        exchange.drop_headers();
        let mut reader = StreamReader::framed(self.wire.framing(), decoder);
        let mut sink = Counting { sink, deltas: 0 };
        loop {
            let piece = match exchange.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return reader.end(&mut sink),
                // Some servers close the connection right after the terminal event, without a proper end.
                Err(failure) => return reader.end(&mut sink).map_err(|_| failure),
            };
            let before = sink.deltas;
            let flow = reader.feed(&piece, &mut sink)?;
            if let Some(refusal) = sink.refusal() {
                // Closes the connection: the rest of the answer is not needed.
                return Err(refusal);
            }
            if flow == Flow::End {
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

    fn transcript_rules(&self) -> TranscriptRules {
        self.wire.transcript_rules()
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
            let given = self.keys(request, credential);
            let keys = LiveKeys::new(&given);
            let mut sink = Cleaned { sink, keys: &keys };
            let outcome = self.attempt(request, credential, &mut sink).await;
            // Content at the end of the bytes, or in one piece, may have exceeded a limit too.
            let outcome = match sink.refusal() {
                Some(refusal) => Err(refusal),
                None => outcome,
            };
            match outcome {
                Ok(mut completion) => {
                    completion.stop_raw = keys.clean_word(&completion.stop_raw);
                    Ok(completion)
                }
                Err(failure) => Err(without_keys(failure, &given)),
            }
        })
    }

    fn disconnect(&self) {
        self.built.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.client.disconnect();
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        self.wire.unsupported(request)
    }

    fn count<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
    ) -> Counted<'a> {
        Box::pin(async move {
            let outcome = self.request_count(request, credential).await;
            outcome.map_err(|failure| without_keys(failure, &self.keys(request, credential)))
        })
    }

    fn most_embedded(&self, model: &str) -> Option<usize> {
        self.wire.embeddings().map(|api| (api.most)(model))
    }

    fn embed<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
    ) -> Embedding<'a> {
        Box::pin(async move {
            let outcome = self.request_vectors(request, credential).await;
            outcome.map_err(|failure| without_keys(failure, &self.keys(request, credential)))
        })
    }
}

fn too_large(origin: &str, cap: usize) -> Failure {
    let message = format!("the answer of `{origin}` is larger than `{cap}` bytes");
    final_failure(FailureKind::ServerError, "response_too_large", message)
}
