//! What is known of one service, as data. It must never hold a rule.

use crate::{Api, ChatQuirks};

/// One service, as data.
#[derive(Debug)]
pub(crate) struct Service {
    /// Its name in `providers`, and as a flavour.
    pub(crate) name: &'static str,
    /// The APIs at its base URL; the first is the default.
    pub(crate) apis: &'static [Api],
    /// The API of another server under this name: people call their gateways `openai` and `anthropic`, so the name decides what
    /// is spoken there and nothing else. `None`: the name means the service at any host.
    pub(crate) gateway: Option<Api>,
    /// Where it is; `None` where only its user knows.
    pub(crate) base_url: Option<&'static str>,
    /// Its own hosts, which its usual keys are for and which answer nobody without one. `*` stands for one label, or for a
    /// part of one.
    pub(super) own_hosts: &'static [&'static str],
    /// What the names of its hosts end with: where it is recognised, but not trusted with a key.
    pub(super) domains: &'static [&'static str],
    /// The environment variables that hold its key; the first one set counts.
    pub(crate) variables: &'static [&'static str],
    pub(super) key: KeyHeader,
    /// Whether its URLs are made as Azure makes them.
    pub(crate) azure_paths: bool,
    /// How its Chat Completions differ.
    pub(crate) chat: ChatQuirks,
    /// Whether its Responses are known to take `prompt_cache_key`; servers that check their fields refuse it.
    pub(crate) responses_cache_key: bool,
}

/// The header an `api_key` travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// The API's own.
    OfApi,
    /// `authorization: Bearer`, whatever the API.
    Bearer,
    /// `api-key` (Azure); Anthropic's API has its own there too.
    ApiKey,
}
