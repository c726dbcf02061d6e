//! The services everyone uses, and what need not be said of them: found by name, by flavour, or by where they are.
//!
//! A usual key goes by place alone: a name or a flavour must never send one to another server.

mod table;
#[cfg(test)]
mod tests;

use reqwest::header::HeaderName;

use super::http::BaseUrl;
use super::{Api, ChatQuirks};
use table::SERVICES;

/// One service, as data.
#[derive(Debug)]
pub(crate) struct Service {
    /// Its name in `providers`, and as a flavour.
    pub(crate) name: &'static str,
    /// The APIs at its base URL; the first is the default.
    pub(crate) apis: &'static [Api],
    /// The API of another server under this name: people call their gateways `openai` and `anthropic`, so the name says what
    /// is spoken there and nothing else. `None`: the name tells the service wherever it is.
    pub(crate) gateway: Option<Api>,
    /// Where it is; `None` where only its user knows.
    pub(crate) base_url: Option<&'static str>,
    /// Its own hosts, which its usual keys are for and which answer nobody without one. `*` stands for one label, or for a
    /// part of one.
    own_hosts: &'static [&'static str],
    /// What the names of its hosts end with: where it is recognised, but not trusted with a key.
    domains: &'static [&'static str],
    /// The environment variables that hold its key; the first one set counts.
    pub(crate) variables: &'static [&'static str],
    key: KeyHeader,
    /// Whether its URLs are made as Azure makes them.
    pub(crate) azure_paths: bool,
    /// How its Chat Completions differ.
    pub(crate) chat: ChatQuirks,
    /// Whether its Responses are known to take `prompt_cache_key`; servers that check their fields refuse it.
    pub(crate) responses_cache_key: bool,
}

/// The header an `api_key` travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyHeader {
    /// The API's own.
    OfApi,
    /// `authorization: Bearer`, whatever the API.
    Bearer,
    /// `api-key` (Azure); Anthropic's API keeps its own there too.
    ApiKey,
}

impl Service {
    /// The service of a name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SERVICES.iter().find(|service| service.name == name)
    }

    /// The service at a host; of several the one that speaks `api`.
    pub(crate) fn at(host: &str, api: Option<Api>) -> Option<&'static Self> {
        let host = host.to_ascii_lowercase();
        first_speaking(api, |service| {
            service.is_at(&host) || service.domains.iter().any(|domain| is_below(&host, domain))
        })
    }

    /// The service whose own host this is, over https: the one a usual key may go to.
    pub(crate) fn of_origin(base: &BaseUrl, api: Api) -> Option<&'static Self> {
        if base.scheme() != "https" {
            return None;
        }
        let host = base.host().to_ascii_lowercase();
        first_speaking(Some(api), |service| service.is_at(&host))
    }

    /// The header that an `api_key` travels in; `None` for `authorization: Bearer`.
    pub(crate) fn key_header(service: Option<&Self>, api: Api) -> Option<HeaderName> {
        let of_api = match api {
            Api::AnthropicMessages => Some(HeaderName::from_static("x-api-key")),
            Api::GoogleGenerativeAi => Some(HeaderName::from_static("x-goog-api-key")),
            Api::OpenaiChat | Api::OpenaiResponses | Api::BedrockConverse | Api::Scripted => None,
        };
        match service.map_or(KeyHeader::OfApi, |service| service.key) {
            KeyHeader::OfApi => of_api,
            KeyHeader::Bearer => None,
            KeyHeader::ApiKey => of_api.or(Some(HeaderName::from_static("api-key"))),
        }
    }

    /// How Chat Completions differ at a host of which neither a flavour nor a name tells.
    pub(crate) fn chat_at(host: &str) -> ChatQuirks {
        let local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        match Self::at(host, Some(Api::OpenaiChat)) {
            Some(service) => service.chat,
            None if local => ChatQuirks::COMPATIBLE,
            None => ChatQuirks::STANDARD,
        }
    }

    /// All names, for a message.
    pub(crate) fn names() -> String {
        SERVICES.iter().map(|service| service.name).collect::<Vec<_>>().join(", ")
    }

    fn is_at(&self, host: &str) -> bool {
        self.own_hosts.iter().any(|pattern| is_host(host, pattern))
    }
}

fn first_speaking(
    api: Option<Api>,
    is_there: impl Fn(&Service) -> bool,
) -> Option<&'static Service> {
    let speaks = |service: &&Service| api.is_none_or(|api| service.apis.contains(&api));
    let there = || SERVICES.iter().filter(|service| is_there(service));
    there().find(speaks).or_else(|| there().next())
}

/// Whether a host is a pattern's, label by label: a `*` never reaches over a dot, so that nobody's subdomain passes.
fn is_host(host: &str, pattern: &str) -> bool {
    let mut labels = host.split('.');
    let fits = pattern.split('.').all(|wanted| {
        labels.next().is_some_and(|label| match wanted.split_once('*') {
            None => label == wanted,
            Some((before, after)) => {
                label.len() > before.len() + after.len()
                    && label.starts_with(before)
                    && label.ends_with(after)
            }
        })
    });
    fits && labels.next().is_none()
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
