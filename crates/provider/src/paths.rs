//! Builds the URLs of services that do not simply join the base URL and the API's path: Azure.
//!
//! Shared by every wire: a wire defines the standard path of its API. It must never see a body.

use super::Api;
use super::http::BaseUrl;
use model::InputError;

/// The query parameter of Azure's versions.
const VERSION: &str = "api-version";

/// How the path of a request is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Paths {
    /// Base URL and path, joined.
    #[default]
    Joined,
    /// Azure OpenAI (docs/rules/wire/openai-chat.md#azure).
    Azure {
        /// The part before the API's path.
        deployment_url: AzureUrl,
        /// `api-version`, if one is sent and the base URL has none.
        version: Option<String>,
    },
}

/// The path of an API in an Azure resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AzureUrl {
    /// The base URL has the whole prefix.
    Base,
    /// `/openai/v1`: the model is named in the body.
    V1,
    /// A dated version: Chat Completions below `/openai/deployments/{deployment}`, all else below `/openai`.
    Dated {
        /// The deployment; the model where `None`.
        deployment: Option<String>,
        /// `/openai`, or nothing where the base URL ends with it.
        root: &'static str,
    },
}

impl Paths {
    /// Reads Azure's options. `at` gives a field's path.
    ///
    /// # Errors
    /// A missing or invalid version, or a deployment that the model or the base URL already names.
    pub(crate) fn azure(
        base: &BaseUrl,
        version: Option<String>,
        deployment: Option<String>,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Self, InputError> {
        let in_base = base.query(VERSION);
        if version.is_some() && in_base.is_some() {
            return Err(InputError::new(at("apiVersion"), "is in `baseUrl` already; name it once"));
        }
        let is_word = |text: &str| {
            (1..=64).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        if version.as_deref().is_some_and(|version| !is_word(version)) {
            let message = "is not a version; pass one like `2024-10-21`";
            return Err(InputError::new(at("apiVersion"), message));
        }
        if deployment.as_deref() == Some("") {
            return Err(InputError::new(at("deployment"), "is empty; leave it out for the model"));
        }
        if deployment.as_deref().is_some_and(|name| name.chars().any(char::is_control)) {
            return Err(InputError::new(at("deployment"), "has a control character; remove it"));
        }
        let path = base.path().trim_end_matches('/');
        let given = version.as_deref().or(in_base.as_deref());
        let dated =
            given.is_some_and(|given| given.starts_with(|first: char| first.is_ascii_digit()));
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let deployment_url = if parent.ends_with("/deployments") {
            if given.is_none() {
                let message = "is missing; pass one like `2024-10-21`";
                return Err(InputError::new(at("apiVersion"), message));
            }
            AzureUrl::Base
        } else if path.ends_with("/openai/v1") || path.ends_with("/models") {
            AzureUrl::Base
        } else if dated {
            let root = if path.ends_with("/openai") { "" } else { "/openai" };
            return Ok(Self::Azure {
                deployment_url: AzureUrl::Dated { deployment, root },
                version,
            });
        } else if path.ends_with("/openai") {
            let message = "ends with `/openai`; end it before that, or with `/openai/v1`";
            return Err(InputError::new(at("baseUrl"), message));
        } else {
            AzureUrl::V1
        };
        if deployment.is_some() {
            let message = "is for a dated `apiVersion` with a `baseUrl` that names none; \
                           elsewhere the model is the deployment";
            return Err(InputError::new(at("deployment"), message));
        }
        Ok(Self::Azure { deployment_url, version })
    }

    /// The path below the base URL for a wire's own `path`, with its query.
    pub(crate) fn shape(&self, api: Api, path: String, model: &str) -> String {
        let Self::Azure { deployment_url, version } = self else { return path };
        // Anthropic's API is joined there too.
        if !matches!(api, Api::OpenaiChat | Api::OpenaiResponses) {
            return path;
        }
        let mut out = match deployment_url {
            AzureUrl::Base => path,
            AzureUrl::V1 => format!("/openai/v1{path}"),
            AzureUrl::Dated { deployment, root } if api == Api::OpenaiChat => {
                let deployment = segment(deployment.as_deref().unwrap_or(model));
                format!("{root}/deployments/{deployment}{path}")
            }
            AzureUrl::Dated { root, .. } => format!("{root}{path}"),
        };
        if let Some(version) = version {
            out.push(if out.contains('?') { '&' } else { '?' });
            out.push_str(VERSION);
            out.push('=');
            out.push_str(version);
        }
        out
    }
}

/// One segment of a path, or a name or value of a query: all but `A-Z a-z 0-9 - . _ ~` is percent-encoded (RFC 3986 §2.3;
/// AWS signs the same set).
pub(super) fn segment(text: &str) -> String {
    segment_with(text, b"")
}

/// As [`segment`], and leaves the bytes `also` as they are.
pub(super) fn segment_with(text: &str, also: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
