//! The known facts of one service, as data. It must never hold a rule.

use crate::{Api, ChatQuirks};

/// One service, as data.
#[derive(Debug)]
pub(crate) struct Service {
    /// Its name in `providers`, and as a flavour.
    pub(crate) name: &'static str,
    /// The APIs at its base URL; the first is the default.
    pub(crate) apis: &'static [Api],
    /// The API of another server under this name: gateways are often named `openai` and `anthropic`, so there the name decides
    /// the API and nothing else. `None`: the name means the service at any host.
    pub(crate) gateway: Option<Api>,
    /// Its base URL; `None` where each user has another.
    pub(crate) base_url: Option<&'static str>,
    /// Its own hosts, which get its usual keys and require one. `*` is one label, or a part of one.
    pub(super) own_hosts: &'static [&'static str],
    /// Suffixes of its hosts: there it is recognised, but gets no usual key.
    pub(super) domains: &'static [&'static str],
    /// The environment variables that hold its key; the first one set counts.
    pub(crate) variables: &'static [&'static str],
    pub(super) key: KeyHeader,
    /// Whether its URLs have Azure's form.
    pub(crate) azure_paths: bool,
    /// The quirks of its Chat Completions.
    pub(crate) chat: ChatQuirks,
    /// Whether its Responses API is known to accept `prompt_cache_key`; strict servers refuse it.
    pub(crate) responses_cache_key: bool,
}

/// The header of an `api_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// The API's own.
    OfApi,
    /// `authorization: Bearer`, whatever the API.
    Bearer,
    /// `api-key` (Azure); Anthropic's API has its own header there too.
    ApiKey,
}
