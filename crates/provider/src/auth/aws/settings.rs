//! Bedrock's part of the options: its region, and whether the usual keys may be sent. It must never print a key.

use super::{REGION_VARIABLES, is_own_host, is_region, region_of_host};
use crate::ProviderSettings;
use crate::http::HttpSettings;
use base::config::Environment;
use model::{Api, InputError};

/// The usual names of a Bedrock provider; its base URL depends on the region.
pub(crate) const PROVIDER_NAMES: [&str; 2] = ["amazon-bedrock", "bedrock"];

/// Whether the usual AWS keys may be sent there: another server must not get them.
pub(crate) fn is_own(settings: &HttpSettings) -> bool {
    settings.region.is_some()
        && settings.base.scheme() == "https"
        && is_own_host(settings.base.host())
}

/// Checks that an access key is used for Bedrock only, with a region. `index` is the profile's index in `authProfiles`.
pub(crate) fn check_signing(
    settings: Option<&ProviderSettings>,
    index: usize,
    provider: &str,
) -> Result<(), InputError> {
    match settings {
        Some(ProviderSettings::Http { api: Api::BedrockConverse, settings }) => {
            if settings.region.is_some() {
                return Ok(());
            }
            Err(missing(format!("providers.{provider}.region")))
        }
        _ => {
            let path = format!("authProfiles[{index}].type");
            Err(InputError::new(path, "`aws` is for providers with `api: 'bedrock-converse'` only"))
        }
    }
}

/// The region of a Bedrock provider: the option, else its host, else the environment.
pub(crate) fn region(
    path: &str,
    given: Option<&str>,
    base_url: Option<&str>,
    environment: &Environment,
) -> Result<Option<String>, InputError> {
    let url = base_url.and_then(|url| url::Url::parse(url).ok());
    let host = url.as_ref().and_then(url::Url::host_str);
    let region = given
        .or_else(|| host.and_then(region_of_host))
        .map(str::to_owned)
        .or_else(|| REGION_VARIABLES.iter().find_map(|name| environment.get(name)));
    if region.as_deref().is_some_and(|region| !is_region(region)) {
        return Err(InputError::new(path, "is not a region; pass one like `us-east-1`"));
    }
    if region.is_none() && base_url.is_none() {
        return Err(missing(path));
    }
    Ok(region)
}

fn missing(path: impl Into<String>) -> InputError {
    InputError::new(path, "is missing; pass one like `us-east-1`, or set `AWS_REGION`")
}
