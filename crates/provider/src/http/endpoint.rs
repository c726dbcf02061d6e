//! An address of the host that speaks another protocol than those of models, called by the rules of a provider: addresses, redirects,
//! sizes, and keys that nothing shows.
//!
//! It must never retry, except once with another token after a refusal, or ask the host for two tokens at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
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

/// The longest challenge that the host sees.
const MAX_CHALLENGE: usize = 8 * 1024;
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
    /// The last token. Where the host had none it is empty, and the host is asked again when the server wants one.
    known: Mutex<Option<HostKey>>,
    /// Held while the host is asked for a token.
    renewal: tokio::sync::Mutex<()>,
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

    /// The host that is called.
    #[must_use]
    pub fn host(&self) -> &str {
        self.base.host()
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
        let (known, renewal) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { settings, client, token, known, renewal, clock }
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
        let mut refused = None;
        loop {
            let token = self.current_token(refused.as_ref()).await?;
            let answer = self.send_once(headers, sent, token.as_ref()).await?;
            if refused.is_some() || self.token.is_none() || !answer.wants_another_token() {
                return Ok(answer);
            }
            refused = Some(Refused { challenge: answer.challenge(), token });
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

    /// The token to send, if the host has one; another one than was `refused`, or than one that is about to expire.
    async fn current_token(&self, refused: Option<&Refused>) -> Result<Option<HostKey>, String> {
        let Some(EndpointToken { host, number }) = &self.token else { return Ok(None) };
        // Who waited meanwhile has the new token, too.
        let _renewal = self.renewal.lock().await;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = self.clock.now_ms();
        let is_fresh =
            |key: &HostKey| key.expires_at.is_none_or(|at| at.saturating_sub(now) > RENEW_MS);
        let is_another = |key: &HostKey| refused.is_none_or(|refused| !refused.is_for(key));
        let is_given = |key: &HostKey| !key.key.expose_secret().is_empty();
        if let Some(key) = known.filter(|key| is_another(key) && is_fresh(key)) {
            return Ok(Some(key).filter(is_given));
        }
        let challenge = refused.and_then(|refused| refused.challenge.as_deref());
        let key = host
            .key(*number, refused.is_some(), challenge)
            .await
            .map_err(|why| format!("`auth` failed: {}", self.redact(&why)))?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(Some(key).filter(is_given))
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

/// A token that was refused, or that none was sent.
struct Refused {
    token: Option<HostKey>,
    challenge: Option<String>,
}

impl Refused {
    fn is_for(&self, key: &HostKey) -> bool {
        let sent = self.token.as_ref().map_or("", |token| token.key.expose_secret());
        sent == key.key.expose_secret()
    }
}

impl EndpointAnswer {
    /// Whether it is a refusal that another token may end: one that allows more, for a 403.
    fn wants_another_token(&self) -> bool {
        match self.response.status() {
            StatusCode::UNAUTHORIZED => true,
            StatusCode::FORBIDDEN => {
                self.challenge().is_some_and(|challenge| challenge.contains("insufficient_scope"))
            }
            _ => false,
        }
    }

    /// How the server wants a client to authenticate.
    fn challenge(&self) -> Option<String> {
        let all = self.response.headers().get_all(WWW_AUTHENTICATE);
        let all: Vec<&str> = all.iter().filter_map(|value| value.to_str().ok()).collect();
        Some(all.join(", ")).filter(|text| !text.is_empty() && text.len() <= MAX_CHALLENGE)
    }

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
