//! The providers and keys of an engine, checked. It must never open anything.

use std::collections::BTreeMap;

use crate::auth::aws;
use crate::auth::profile::Profiles;
use crate::http::HttpSettings;
use crate::scripted::Script;
use crate::services::Service;
use crate::{Api, Failure, ProviderKeys};
use model::FailureKind;

/// The kind of a provider.
pub enum ProviderSettings {
    /// A service over HTTP.
    Http {
        /// The API it speaks.
        api: Api,
        /// Its settings.
        settings: Box<HttpSettings>,
    },
    /// A scripted provider.
    Scripted(Script),
}

impl ProviderSettings {
    /// The host that is called.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Http { settings, .. } => Some(settings.base.host()),
            Self::Scripted(_) => None,
        }
    }
}

/// The providers and keys of an engine.
pub struct ProviderSet {
    /// By name.
    pub providers: BTreeMap<String, ProviderSettings>,
    pub(super) profiles: Profiles,
}

impl ProviderSet {
    /// The auth profiles of a provider; none for a server without keys, and `missing_key` at a known service's own host, which
    /// requires one.
    #[must_use]
    pub fn keys(&self, provider: &str) -> ProviderKeys {
        let profiles = self.profiles.of(provider);
        if !profiles.is_empty() {
            return ProviderKeys { profiles, missing: None };
        }
        let variable = match self.providers.get(provider) {
            Some(ProviderSettings::Http { settings, .. }) if aws::is_own(settings) => {
                Some(aws::TOKEN_VARIABLE)
            }
            Some(ProviderSettings::Http { api, settings }) => {
                Service::of_origin(&settings.base, *api)
                    .and_then(|service| service.variables.first().copied())
            }
            Some(ProviderSettings::Scripted(_)) | None => None,
        };
        let missing = variable.map(|variable| Failure {
            should_retry: Some(false),
            ..Failure::new(
                FailureKind::Auth,
                "missing_key",
                format!("`{provider}` has no key; pass one in `authProfiles`, or set `{variable}`"),
            )
        });
        ProviderKeys { profiles, missing }
    }
}
