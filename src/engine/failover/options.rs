//! The options `failover` of an engine.
//!
//! It must never accept an unknown name: it is refused with its path.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use model::{InputError, ModelName, quoted, typed};
use turn::fallback::MAX_WAIT_MS;
use turn::profiles::CooldownPolicy;

/// A ladder of cooldowns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ladder {
    /// 30 seconds, 1 minute, 5 minutes.
    #[default]
    Default,
    /// 1 minute, 5 minutes, 25 minutes, 1 hour.
    Legacy,
}

/// How runs continue when a profile or a model fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct FailoverOptions {
    /// How long failed profiles cool down.
    pub ladder: Ladder,
    /// The first window after a billing failure, in milliseconds.
    pub billing_base_ms: Option<i64>,
    /// The longest wait while another model can be called, in milliseconds.
    pub max_wait_ms: Option<i64>,
    /// How often a failed call is sent again with the same profile.
    pub max_retries: Option<u32>,
    /// The profiles of a provider that are used, in this order.
    pub order: BTreeMap<String, Vec<String>>,
    /// The fallback models, where a context names none.
    pub fallbacks: Vec<ModelName>,
    /// The only models that may be fallbacks.
    pub allow: Option<Vec<ModelName>>,
}

impl FailoverOptions {
    /// Reads `failover` of the engine's options.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
        const DAY_MS: i64 = 24 * 3_600_000;
        /// The largest `maxWaitMs`: as long as the longest pause that a provider may request.
        const MOST_WAIT_MS: i64 = 60_000;
        /// The largest `maxRetries`.
        const MOST_RETRIES: u32 = 10;
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Self::default()) };
        let options: Self = typed("failover", raw)?;
        if let Some(base) = options.billing_base_ms
            && !(1..=DAY_MS).contains(&base)
        {
            return Err(InputError::new(
                "failover.billingBaseMs",
                format!("`{base}` is not a window; pass 1 to {DAY_MS} milliseconds"),
            ));
        }
        if let Some(wait) = options.max_wait_ms
            && !(0..=MOST_WAIT_MS).contains(&wait)
        {
            return Err(InputError::new(
                "failover.maxWaitMs",
                format!("`{wait}` is not a wait; pass 0 to {MOST_WAIT_MS} milliseconds"),
            ));
        }
        if let Some(retries) = options.max_retries
            && retries > MOST_RETRIES
        {
            return Err(InputError::new(
                "failover.maxRetries",
                format!("`{retries}` is too many; pass 0 to {MOST_RETRIES}"),
            ));
        }
        Ok(options)
    }

    /// The longest wait while another model can be called, in milliseconds.
    pub(crate) fn max_wait(&self) -> i64 {
        self.max_wait_ms.unwrap_or(MAX_WAIT_MS)
    }

    /// Checks the names of providers and profiles.
    ///
    /// # Errors
    /// The first unknown name, by its path.
    pub(crate) fn check<'a>(
        &self,
        known: impl Fn(&str) -> Option<Vec<&'a str>>,
    ) -> Result<(), InputError> {
        for (provider, ids) in &self.order {
            let path = format!("failover.order.{provider}");
            let Some(profiles) = known(provider) else {
                let message = format!("{} is not one of `providers`", quoted(provider));
                return Err(InputError::new(path, message));
            };
            for (index, id) in ids.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if !profiles.contains(&id.as_str()) {
                    let message =
                        format!("{} is no auth profile of {}", quoted(id), quoted(provider));
                    return Err(InputError::new(path, message));
                }
                if ids.iter().take(index).any(|other| other == id) {
                    return Err(InputError::new(path, format!("{} is there twice", quoted(id))));
                }
            }
        }
        let named = self.fallbacks.iter().map(|it| ("fallbacks", it));
        let allowed = self.allow.iter().flatten().map(|it| ("allow", it));
        for (field, name) in named.chain(allowed) {
            if let Some(provider) = &name.provider
                && known(provider).is_none()
            {
                let message = format!("{} is not one of `providers`", quoted(provider));
                return Err(InputError::new(format!("failover.{field}"), message));
            }
        }
        Ok(())
    }

    pub(crate) fn policy(&self) -> CooldownPolicy {
        let usual = CooldownPolicy::default();
        CooldownPolicy {
            legacy_ladder: self.ladder == Ladder::Legacy,
            billing_base_ms: self.billing_base_ms.unwrap_or(usual.billing_base_ms),
        }
    }

    /// Whether a model may be a fallback.
    pub(super) fn allows(&self, provider: &str, model: &str) -> bool {
        self.allow.as_ref().is_none_or(|allowed| {
            allowed.iter().any(|name| {
                name.model == model && name.provider.as_deref().is_none_or(|of| of == provider)
            })
        })
    }
}
