//! The fields of `providers`, as plain data. It must never check one.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Api;
use crate::scripted::Script;

/// One provider, in the options. Under the name of a known service (`groq`, `openrouter`, `ollama`, …) every field has a
/// default.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderOptions {
    /// The API it speaks.
    pub api: Option<Api>,
    /// Its base URL; the API's path is added to it. https, unless it is this machine.
    pub base_url: Option<String>,
    /// The AWS region, for `api: 'bedrock-converse'`; by default the one in `baseUrl`, else that of `AWS_REGION`.
    pub region: Option<String>,
    /// The service (`vllm`, `azure`, …), if neither the host of `baseUrl` nor the provider's name shows it.
    pub flavor: Option<String>,
    /// The `api-version` of Azure, such as `2024-10-21`; without one `/openai/v1` is called.
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
    /// Whether `prompt_cache_key` is sent, for the two OpenAI APIs; by default where the service is known to accept it.
    pub prompt_cache_key: Option<bool>,
    /// True: `baseUrl` may be plain http to another machine.
    pub allow_insecure: Option<bool>,
    /// The value of the `anthropic-version` header.
    pub anthropic_version: Option<String>,
    /// `env` for the proxy of the environment, or a proxy's URL; none by default.
    pub proxy: Option<String>,
    /// Authorities to trust besides the bundled ones, in PEM.
    pub ca_certificates: Option<String>,
    /// The replies of the scripted provider; for `api: 'scripted'`.
    pub script: Option<Script>,
}
