//! Looks up a service: by its name, by its flavour, or by its host.
//!
//! Only the host decides about a usual key: a name or a flavour must never send one to another server.

use reqwest::header::HeaderName;

use super::entry::{KeyHeader, Service};
use super::table::SERVICES;
use crate::http::BaseUrl;
use crate::{Api, ChatQuirks};

impl Service {
    /// The service with a name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SERVICES.iter().find(|service| service.name == name)
    }

    /// The service at a host; of several the one with `api`.
    pub(crate) fn at(host: &str, api: Option<Api>) -> Option<&'static Self> {
        let host = host.to_ascii_lowercase();
        first_speaking(api, |service| {
            service.is_at(&host) || service.domains.iter().any(|domain| is_below(&host, domain))
        })
    }

    /// The service with this host as its own, over https: its usual key may be sent there.
    pub(crate) fn of_origin(base: &BaseUrl, api: Api) -> Option<&'static Self> {
        if base.scheme() != "https" {
            return None;
        }
        let host = base.host().to_ascii_lowercase();
        first_speaking(Some(api), |service| service.is_at(&host))
    }

    /// The header of an `api_key`; `None` for `authorization: Bearer`.
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

    /// The quirks at a host that neither a flavour nor a name identifies.
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

/// Whether a host matches a pattern, label by label: `*` never matches a dot, so that no foreign subdomain matches.
pub(super) fn is_host(host: &str, pattern: &str) -> bool {
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
