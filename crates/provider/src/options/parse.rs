//! Reads `providers` and `authProfiles`, once, field by field.
//!
//! It must never open anything, and never print a key or a header's value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::check::check;
use super::fields::ProviderOptions;
use super::set::{ProviderSet, ProviderSettings};
use crate::KeyHost;
use crate::auth::aws;
use crate::auth::profile::{AuthProfile, Profiles};
use crate::services::Service;
use base::config::Environment;
use model::{AuthType, InputError, typed};

/// The default providers of an engine.
const USUAL: [&str; 2] = ["anthropic", "openai"];

/// Reads `providers` and `authProfiles`. Without `providers`, the engine has `anthropic` and `openai`.
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

/// As [`parse_providers`], with the host that calls the key functions.
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

fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}
