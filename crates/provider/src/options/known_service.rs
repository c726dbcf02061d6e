//! Finds the known service of a provider's options. It must never check another field.

use super::fields::ProviderOptions;
use crate::Api;
use crate::services::Service;
use model::{InputError, quoted};

/// The known service of a provider, by its options.
pub(super) struct KnownService {
    /// The service.
    pub(super) known: Option<&'static Service>,
    /// The API it has by default.
    pub(super) api: Option<Api>,
}

impl KnownService {
    /// Resolution order: `flavor`, then the host, then the name.
    pub(super) fn of(
        name: &str,
        options: &ProviderOptions,
        at: &impl Fn(&str) -> String,
    ) -> Result<Self, InputError> {
        let first = |service: &'static Service| Self {
            known: Some(service),
            api: service.apis.first().copied(),
        };
        if let Some(flavor) = options.flavor.as_deref() {
            return Service::named(flavor).map(first).ok_or_else(|| {
                let names = Service::names();
                let message = format!("{} is not known; pass one of {names}", quoted(flavor));
                InputError::new(at("flavor"), message)
            });
        }
        let host = options.base_url.as_deref().and_then(|url| {
            let url = url::Url::parse(url).ok()?;
            url.host_str().map(str::to_owned)
        });
        let at_host = host.as_deref().and_then(|host| Service::at(host, options.api));
        Ok(match (at_host, Service::named(name)) {
            (Some(service), _) => first(service),
            // At another host the name defines the API only.
            (None, Some(Service { gateway: Some(api), .. })) if host.is_some() => {
                Self { known: None, api: Some(*api) }
            }
            (None, Some(service)) => first(service),
            (None, None) => Self { known: None, api: None },
        })
    }

    /// The service, if it has this API.
    pub(super) fn speaking(&self, api: Api) -> Option<&'static Service> {
        self.known.filter(|service| service.apis.contains(&api))
    }
}
