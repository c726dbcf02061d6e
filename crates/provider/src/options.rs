//! The options that name providers and keys: read once, checked field by field.
//!
//! Every refusal names the field. This file must never open anything, and never print a key or a header's value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::anthropic::{default_version, is_vertex};
use super::auth::{AuthProfile, Profiles};
use super::aws;
use super::http::{
    BaseUrl, Connection, HttpSettings, Timeouts, add_header, authorities, header_value, proxy,
};
use super::paths::Paths;
use super::scripted::Script;
use super::services::Service;
use super::{Api, ChatQuirks, Failure, KeyHost, ProviderKeys};
use base::config::{Environment, EnvironmentProxy};
use model::{AuthType, FailureKind, InputError, quoted, typed};

/// One provider, as the options name it. Under the name of a known service (`groq`, `openrouter`, `ollama`, …) every field
/// has a default.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderOptions {
    /// The API it speaks.
    pub api: Option<Api>,
    /// Where it is; the API's path is added to it. https, unless it is this machine.
    pub base_url: Option<String>,
    /// The AWS region, for `api: 'bedrock-converse'`; by default the one in `baseUrl`, else that of `AWS_REGION`.
    pub region: Option<String>,
    /// The service it is (`vllm`, `azure`, …), where neither the host of `baseUrl` nor the provider's name tells.
    pub flavor: Option<String>,
    /// The `api-version` of Azure, such as `2024-10-21`; without one `/openai/v1` is asked.
    pub api_version: Option<String>,
    /// The deployment of Azure, for a dated `apiVersion`; the model's name by default.
    pub deployment: Option<String>,
    /// Headers sent with every request. Keys belong in `authProfiles`.
    pub headers: Option<BTreeMap<String, String>>,
    /// DNS, TCP and TLS together, in milliseconds; 10,000 by default.
    pub connect_timeout_ms: Option<u64>,
    /// Until the answer begins, in milliseconds; 120,000 by default.
    pub header_timeout_ms: Option<u64>,
    /// Between two pieces of the answer, pings counted, in milliseconds; 300,000 by default.
    pub idle_timeout_ms: Option<u64>,
    /// Between two parts of the answer, pings not counted, in milliseconds; 600,000 by default.
    pub no_progress_timeout_ms: Option<u64>,
    /// Whether `prompt_cache_key` is sent, for the two OpenAI APIs; by default where the service is known to take it.
    pub prompt_cache_key: Option<bool>,
    /// True: `baseUrl` may be plain http to another machine.
    pub allow_insecure: Option<bool>,
    /// The value of the `anthropic-version` header.
    pub anthropic_version: Option<String>,
    /// `env` for the proxy of the environment, or a proxy's URL; none by default.
    pub proxy: Option<String>,
    /// Authorities to trust besides the bundled ones, in PEM.
    pub ca_certificates: Option<String>,
    /// What the scripted provider answers; for `api: 'scripted'`.
    pub script: Option<Script>,
}

/// What answers under a provider's name.
pub enum ProviderSettings {
    /// A service over HTTP.
    Http {
        /// The API it speaks.
        api: Api,
        /// Where and how.
        settings: Box<HttpSettings>,
    },
    /// A script.
    Scripted(Script),
}

/// The providers and keys of an engine.
pub struct ProviderSet {
    /// By name.
    pub providers: BTreeMap<String, ProviderSettings>,
    profiles: Profiles,
}

impl ProviderSet {
    /// The auth profiles of a provider; none for a server that needs no key, and `missing_key` where the provider is a
    /// known service's own host, which answers nobody without one.
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

/// The providers of an engine whose options name none.
const USUAL: [&str; 2] = ["anthropic", "openai"];

/// Reads `providers` and `authProfiles`. Without `providers`, `anthropic` and `openai` are there.
///
/// # Errors
/// The first field that is missing, wrong or unknown, by its path.
pub fn parse_providers(
    providers: Option<&RawValue>,
    auth_profiles: Option<&RawValue>,
    environment: &Environment,
) -> Result<ProviderSet, InputError> {
    parse_hosted_providers(providers, auth_profiles, None, environment)
}

/// As [`parse_providers`], with the host that has the keys which are functions.
///
/// # Errors
/// As there.
pub fn parse_hosted_providers(
    providers: Option<&RawValue>,
    auth_profiles: Option<&RawValue>,
    host: Option<&Arc<dyn KeyHost>>,
    environment: &Environment,
) -> Result<ProviderSet, InputError> {
    let given: BTreeMap<String, ProviderOptions> = match present(providers) {
        Some(raw) => typed("providers", raw)?,
        None => USUAL.iter().map(|name| ((*name).to_owned(), ProviderOptions::default())).collect(),
    };
    let mut set = ProviderSet { providers: BTreeMap::new(), profiles: Profiles::default() };
    for (name, options) in given {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(InputError::new("providers", "has a name that is empty or unprintable"));
        }
        let settings = check(&name, options, environment)?;
        set.providers.insert(name, settings);
    }
    let profiles: Vec<AuthProfile> = match present(auth_profiles) {
        Some(raw) => typed("authProfiles", raw)?,
        None => Vec::new(),
    };
    for (index, profile) in profiles.into_iter().enumerate() {
        if !set.providers.contains_key(&profile.provider) {
            return Err(InputError::new(
                format!("authProfiles[{index}].provider"),
                format!("`{}` is not one of `providers`", profile.provider),
            ));
        }
        if profile.kind == Some(AuthType::Aws) {
            aws::check_signing(set.providers.get(&profile.provider), index, &profile.provider)?;
        }
        set.profiles.add(index, profile, host, environment)?;
    }
    for (name, settings) in &set.providers {
        let ProviderSettings::Http { api, settings } = settings else { continue };
        if aws::is_own(settings) {
            set.profiles.add_usual(name, aws::TOKEN_VARIABLE, environment)?;
            set.profiles.add_usual_access_key(name, environment)?;
        }
        if let Some(service) = Service::of_origin(&settings.base, *api) {
            for variable in service.variables {
                set.profiles.add_usual(name, variable, environment)?;
            }
        }
    }
    Ok(set)
}

/// The service that a provider is, as far as its options tell.
struct Found {
    /// What it is known to be.
    known: Option<&'static Service>,
    /// The API it has by default.
    api: Option<Api>,
}

impl Found {
    /// By its flavour, else by where it is, else by its name.
    fn of(
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
        let place = host.as_deref().and_then(|host| Service::at(host, options.api));
        Ok(match (place, Service::named(name)) {
            (Some(service), _) => first(service),
            // Under this name another server is only spoken to alike.
            (None, Some(Service { gateway: Some(api), .. })) if host.is_some() => {
                Self { known: None, api: Some(*api) }
            }
            (None, Some(service)) => first(service),
            (None, None) => Self { known: None, api: None },
        })
    }

    /// The service, where it has this API.
    fn speaking(&self, api: Api) -> Option<&'static Service> {
        self.known.filter(|service| service.apis.contains(&api))
    }
}

fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

fn check(
    name: &str,
    options: ProviderOptions,
    environment: &Environment,
) -> Result<ProviderSettings, InputError> {
    let at = |field: &str| format!("providers.{name}.{field}");
    let service = Found::of(name, &options, &at)?;
    let usual_aws = aws::PROVIDER_NAMES.contains(&name).then_some(Api::BedrockConverse);
    let Some(api) = options.api.or(service.api).or(usual_aws) else {
        return Err(InputError::new(
            at("api"),
            "is missing; pass `anthropic-messages`, `openai-chat` or `scripted`, or name a service as `flavor`",
        ));
    };
    if api == Api::Scripted {
        return scripted(options, at);
    }
    if options.script.is_some() {
        return Err(InputError::new(at("script"), "is for `api: 'scripted'` only"));
    }
    if options.anthropic_version.is_some() && api != Api::AnthropicMessages {
        let message = "is for `api: 'anthropic-messages'` only";
        return Err(InputError::new(at("anthropicVersion"), message));
    }
    let region = match api {
        Api::BedrockConverse => {
            let base_url = options.base_url.as_deref();
            aws::region(&at("region"), options.region.as_deref(), base_url, environment)?
        }
        _ if options.region.is_some() => {
            let message = "is for `api: 'bedrock-converse'` only";
            return Err(InputError::new(at("region"), message));
        }
        _ => None,
    };
    let usual_aws = region.as_deref().map(aws::base_url);
    let usual = service.speaking(api).and_then(|service| service.base_url).or(usual_aws.as_deref());
    let Some(base_url) = options.base_url.as_deref().or(usual) else {
        return Err(InputError::new(
            at("baseUrl"),
            "is missing; pass one like `https://api.example.com/v1`",
        ));
    };
    let base = BaseUrl::parse(&at("baseUrl"), base_url, options.allow_insecure.unwrap_or(false))?;
    let paths = if service.known.is_some_and(|service| service.azure_paths) {
        Paths::azure(&base, options.api_version, options.deployment, &at)?
    } else if options.api_version.is_some() {
        return Err(InputError::new(at("apiVersion"), "is for `flavor: 'azure'` only"));
    } else if options.deployment.is_some() {
        return Err(InputError::new(at("deployment"), "is for `flavor: 'azure'` only"));
    } else {
        Paths::Joined
    };
    let mut headers = HeaderMap::new();
    for (header, value) in options.headers.iter().flatten() {
        add_header(&mut headers, &at("headers"), header, value)?;
    }
    let defaults = Timeouts::default();
    let timeouts = Timeouts {
        connect: limit(&at("connectTimeoutMs"), options.connect_timeout_ms, defaults.connect)?,
        headers: limit(&at("headerTimeoutMs"), options.header_timeout_ms, defaults.headers)?,
        idle: limit(&at("idleTimeoutMs"), options.idle_timeout_ms, defaults.idle)?,
        no_progress: limit(
            &at("noProgressTimeoutMs"),
            options.no_progress_timeout_ms,
            defaults.no_progress,
        )?,
    };
    let connection = Connection {
        connect_timeout: timeouts.connect,
        proxy: check_proxy(&at("proxy"), options.proxy, base.scheme(), environment)?,
        authorities: match options.ca_certificates {
            None => Vec::new(),
            Some(pem) => authorities(&pem).ok_or_else(|| {
                InputError::new(
                    at("caCertificates"),
                    "is not PEM with the certificate of an authority",
                )
            })?,
        },
    };
    let version = match options.anthropic_version.as_deref() {
        Some(version) => version,
        None => default_version(base.host()),
    };
    let anthropic_version = header_value(version).ok_or_else(|| {
        InputError::new(at("anthropicVersion"), "has a character that no header may have")
    })?;
    let is_openai = matches!(api, Api::OpenaiChat | Api::OpenaiResponses);
    if options.prompt_cache_key.is_some() && !is_openai {
        let message = "is for `api: 'openai-chat'` and `api: 'openai-responses'` only";
        return Err(InputError::new(at("promptCacheKey"), message));
    }
    let chat = service.known.map_or_else(|| Service::chat_at(base.host()), |service| service.chat);
    let responses_cache_key = service.known.is_some_and(|service| service.responses_cache_key);
    let settings = HttpSettings {
        // Google's gate takes OAuth tokens only.
        key_header: Service::key_header(service.known, api).filter(|_| !is_vertex(base.host())),
        chat: ChatQuirks {
            prompt_cache_key: options.prompt_cache_key.unwrap_or(chat.prompt_cache_key),
            ..chat
        },
        responses_cache_key: options.prompt_cache_key.unwrap_or(responses_cache_key),
        base,
        headers,
        timeouts,
        connection,
        anthropic_version,
        region,
        paths,
    };
    Ok(ProviderSettings::Http { api, settings: Box::new(settings) })
}

fn scripted(
    options: ProviderOptions,
    at: impl Fn(&str) -> String,
) -> Result<ProviderSettings, InputError> {
    let ProviderOptions {
        api: _,
        base_url,
        region,
        flavor,
        api_version,
        deployment,
        headers,
        connect_timeout_ms,
        header_timeout_ms,
        idle_timeout_ms,
        no_progress_timeout_ms,
        prompt_cache_key,
        allow_insecure,
        anthropic_version,
        proxy,
        ca_certificates,
        script,
    } = options;
    let pointless = [
        ("baseUrl", base_url.is_some()),
        ("region", region.is_some()),
        ("flavor", flavor.is_some()),
        ("apiVersion", api_version.is_some()),
        ("deployment", deployment.is_some()),
        ("headers", headers.is_some()),
        ("connectTimeoutMs", connect_timeout_ms.is_some()),
        ("headerTimeoutMs", header_timeout_ms.is_some()),
        ("idleTimeoutMs", idle_timeout_ms.is_some()),
        ("noProgressTimeoutMs", no_progress_timeout_ms.is_some()),
        ("promptCacheKey", prompt_cache_key.is_some()),
        ("allowInsecure", allow_insecure.is_some()),
        ("anthropicVersion", anthropic_version.is_some()),
        ("proxy", proxy.is_some()),
        ("caCertificates", ca_certificates.is_some()),
    ];
    if let Some((field, _)) = pointless.iter().find(|(_, given)| *given) {
        return Err(InputError::new(at(field), "means nothing to a scripted provider; remove it"));
    }
    match script {
        Some(script) => Ok(ProviderSettings::Scripted(script)),
        None => Err(InputError::new(at("script"), "is missing; pass a list of replies")),
    }
}

fn limit(path: &str, given: Option<u64>, usual: Duration) -> Result<Duration, InputError> {
    const DAY_MS: u64 = 24 * 3_600_000;
    match given {
        None => Ok(usual),
        Some(ms) if (1..=DAY_MS).contains(&ms) => Ok(Duration::from_millis(ms)),
        Some(ms) => {
            let message = format!("`{ms}` is not a limit; pass 1 to {DAY_MS} milliseconds");
            Err(InputError::new(path, message))
        }
    }
}

fn check_proxy(
    path: &str,
    given: Option<String>,
    scheme: &str,
    environment: &Environment,
) -> Result<Option<EnvironmentProxy>, InputError> {
    let named = match given {
        None => return Ok(None),
        Some(word) if word == "env" => environment.proxy(scheme),
        Some(url) => Some(EnvironmentProxy { url, except: None }),
    };
    let Some(named) = named else { return Ok(None) };
    let http = named.url.starts_with("http://") || named.url.starts_with("https://");
    if !http || proxy(&named).is_err() {
        let message = "is not an http or https proxy; pass `env`, or one like `http://proxy:3128`";
        return Err(InputError::new(path, message));
    }
    Ok(Some(named))
}

#[cfg(test)]
mod tests;
