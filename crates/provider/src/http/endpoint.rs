//! An address of the host that speaks another protocol than those of models, called by the rules of a provider: addresses, redirects,
//! sizes, and keys that nothing shows.
//!
//! It must never retry, except once with a new token after the old one was refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode, Url};
use secrecy::ExposeSecret as _;

use super::client::{Connection, HttpClient};
use super::errors::{body_failure, request_failure};
use super::guard::{BaseUrl, add_own_header, header_value};
use super::limits::{ERROR_BODY_BYTES, ERROR_BODY_TIME, Timeouts};
use crate::auth::keys::{HostKey, KeyHost};
use crate::redact::redact;
use base::clock::Clock;
use model::InputError;

/// A token with less time left is renewed before it is used.
const RENEW_MS: i64 = 60_000;

/// A checked address with its headers.
#[derive(Clone)]
pub struct EndpointSettings {
    base: BaseUrl,
    headers: HeaderMap,
}

/// Where the bearer token of an endpoint comes from: the host's function of this number.
#[derive(Clone)]
pub struct EndpointToken {
    /// Calls the function.
    pub host: Arc<dyn KeyHost>,
    /// Its number.
    pub number: u32,
}

/// An address, called over the engine's client.
pub struct Endpoint {
    settings: EndpointSettings,
    client: Arc<HttpClient>,
    token: Option<EndpointToken>,
    /// The last token.
    known: Mutex<Option<HostKey>>,
    clock: Clock,
}

/// An answer whose headers have arrived.
pub struct EndpointAnswer {
    response: Response,
    origin: String,
}

impl EndpointSettings {
    /// Checks an address and its headers, whose values are never shown.
    ///
    /// # Errors
    /// The first that is wrong: `path.url`, `path.headers.name`.
    pub fn check(
        path: &str,
        url: &str,
        headers: &BTreeMap<String, String>,
        allow_insecure: bool,
    ) -> Result<Self, InputError> {
        let at = format!("{path}.url");
        let has_user = |url: Url| !url.username().is_empty() || url.password().is_some();
        if Url::parse(url).is_ok_and(has_user) {
            return Err(InputError::new(at, "holds a user or password; pass it in `headers`"));
        }
        let base = BaseUrl::parse(&at, url, allow_insecure)?;
        let mut checked = HeaderMap::new();
        for (name, value) in headers {
            add_own_header(&mut checked, &format!("{path}.headers"), name, value)?;
        }
        Ok(Self { base, headers: checked })
    }
}

/// What is sent to an endpoint.
#[derive(Debug, Clone, Copy)]
pub enum Sent<'b> {
    /// A body.
    Post(&'b [u8]),
    /// The wish for what the headers name.
    Get,
    /// The end of what the headers name.
    Delete,
}

impl Endpoint {
    /// The endpoint; nothing is opened before the first request.
    #[must_use]
    pub fn new(
        settings: EndpointSettings,
        token: Option<EndpointToken>,
        client: Arc<HttpClient>,
        clock: Clock,
    ) -> Self {
        Self { settings, client, token, known: Mutex::default(), clock }
    }

    /// Sends a request. Dropping the future closes it.
    ///
    /// # Errors
    /// Why there is no answer, without a secret.
    pub async fn send(
        &self,
        headers: &[(&'static str, &str)],
        sent: Sent<'_>,
    ) -> Result<EndpointAnswer, String> {
        let mut refused = false;
        loop {
            let token = self.current_token(refused).await?;
            let answer = self.send_once(headers, sent, token.as_ref()).await?;
            let again = answer.status() == StatusCode::UNAUTHORIZED.as_u16() && token.is_some();
            if again && !refused {
                refused = true;
                continue;
            }
            return Ok(answer);
        }
    }

    async fn send_once(
        &self,
        headers: &[(&'static str, &str)],
        sent: Sent<'_>,
        token: Option<&HostKey>,
    ) -> Result<EndpointAnswer, String> {
        let base = &self.settings.base;
        let origin = base.origin().to_owned();
        let mut all = self.settings.headers.clone();
        all.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(token) = token {
            let text = format!("Bearer {}", token.key.expose_secret());
            let mut value = header_value(&text).ok_or_else(|| {
                format!("`{origin}`: the token is no text that a header may have")
            })?;
            value.set_sensitive(true);
            all.insert(AUTHORIZATION, value);
        }
        for (name, value) in headers {
            let value = header_value(value)
                .ok_or_else(|| format!("`{name}` has a value that no header may have"))?;
            all.insert(HeaderName::from_static(name), value);
        }
        let (method, body) = match sent {
            Sent::Post(body) => (Method::POST, Some(body)),
            Sent::Get => (Method::GET, None),
            Sent::Delete => (Method::DELETE, None),
        };
        let mut request = Request::new(method, base.whole());
        *request.headers_mut() = all;
        *request.body_mut() = body.map(|body| body.to_vec().into());
        let connect_timeout = Timeouts::default().connect;
        let connection = Connection { connect_timeout, proxy: None, authorities: Vec::new() };
        let client = self.client.get(&connection).map_err(|error| error.to_string())?;
        let response = client
            .execute(request)
            .await
            .map_err(|error| request_failure(error, &origin).message)?;
        if response.status().is_redirection() {
            return Err(format!(
                "`{origin}` redirects elsewhere, and secrets are not sent after it; name the final address"
            ));
        }
        Ok(EndpointAnswer { response, origin })
    }

    /// The token to send; a new one where `refused`, or where the last one is about to expire.
    async fn current_token(&self, refused: bool) -> Result<Option<HostKey>, String> {
        let Some(EndpointToken { host, number }) = &self.token else { return Ok(None) };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = self.clock.now_ms();
        let is_fresh =
            |key: &HostKey| key.expires_at.is_none_or(|at| at.saturating_sub(now) > RENEW_MS);
        if let Some(key) = known.filter(|key| !refused && is_fresh(key)) {
            return Ok(Some(key));
        }
        let key = host
            .key(*number, refused)
            .await
            .map_err(|why| format!("`auth` failed: {}", self.redact(&why)))?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(Some(key))
    }

    /// A text without the values of the headers and the token.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let headers = self.settings.headers.values().filter_map(|value| value.to_str().ok());
        // `Bearer abc` is shown as `abc` by many servers.
        let mut secrets: Vec<&str> =
            headers.flat_map(|value| [Some(value), value.rsplit(' ').next()]).flatten().collect();
        secrets.extend(known.as_ref().map(|key| key.key.expose_secret()));
        secrets.retain(|secret| secret.len() >= 6);
        redact(text, &secrets)
    }
}

impl EndpointAnswer {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// One of its headers.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece of its body; `None` at the end.
    ///
    /// # Errors
    /// Why the rest did not arrive.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let piece = self.response.chunk().await;
        piece.map_err(|error| body_failure(error, &self.origin).message)
    }

    /// The beginning of the body of a refusal: what arrives soon.
    pub async fn refusal(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = self.next().await {
                body.extend_from_slice(&piece);
                if body.len() >= ERROR_BODY_BYTES {
                    body.truncate(ERROR_BODY_BYTES);
                    return;
                }
            }
        };
        // The status says enough where the body is slow.
        let _ = tokio::time::timeout(ERROR_BODY_TIME, read).await;
        body
    }
}
