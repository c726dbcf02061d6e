//! Checks the options of one provider, field by field. Every error names the field.
//!
//! It must never open anything, and never print a key or a header's value.

use std::time::Duration;

use reqwest::header::HeaderMap;

use super::fields::ProviderOptions;
use super::known_service::KnownService;
use super::set::ProviderSettings;
use crate::auth::aws;
use crate::http::{
    BaseUrl, Connection, HttpSettings, Timeouts, add_header, authorities, header_value, proxy,
};
use crate::paths::Paths;
use crate::services::Service;
use crate::wires::anthropic::{default_version, is_vertex};
use crate::{Api, ChatQuirks};
use base::config::{Environment, EnvironmentProxy};
use model::InputError;

/// Checks the options of one provider.
pub(super) fn check(
    name: &str,
    options: ProviderOptions,
    environment: &Environment,
) -> Result<ProviderSettings, InputError> {
    let at = |field: &str| format!("providers.{name}.{field}");
    let service = KnownService::of(name, &options, &at)?;
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
        // Google's endpoint accepts OAuth tokens only.
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
        return Err(InputError::new(
            at(field),
            "has no meaning for a scripted provider; remove it",
        ));
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
