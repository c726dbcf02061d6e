//! The options of an HTTP provider, checked. It must never hold a key.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::client::Connection;
use super::guard::BaseUrl;
use super::limits::Timeouts;
use crate::ChatQuirks;
use crate::paths::Paths;

/// The options of an HTTP provider, checked.
#[derive(Clone)]
pub struct HttpSettings {
    pub(crate) base: BaseUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) timeouts: Timeouts,
    pub(crate) connection: Connection,
    /// The value of `anthropic-version`, for that API.
    pub(crate) anthropic_version: HeaderValue,
    /// The header of an `api_key`; `None` for `authorization: Bearer`, which a `token` always uses.
    pub(crate) key_header: Option<HeaderName>,
    /// The AWS region that requests are signed for.
    pub(crate) region: Option<String>,
    /// How URLs are built from the base URL and a wire's path.
    pub(crate) paths: Paths,
    /// The quirks of its Chat Completions.
    pub(crate) chat: ChatQuirks,
    /// Whether its Responses API accepts `prompt_cache_key`.
    pub(crate) responses_cache_key: bool,
}

impl HttpSettings {
    /// The host of the requests, by which a compatible server is recognised.
    #[must_use]
    pub fn host(&self) -> &str {
        self.base.host()
    }

    /// The base URL's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.base.path()
    }
}
