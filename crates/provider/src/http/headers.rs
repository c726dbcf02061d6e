//! The headers of one turn, beside the provider's: checked like those of the options, before the run starts.
//!
//! They must never replace a header of the engine or the connection, and are never printed.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName};

use super::guard::add_header;
use model::InputError;

/// Headers of a context. Their values are marked as sensitive.
#[derive(Debug, Clone, Default)]
pub struct TurnHeaders(HeaderMap);

impl TurnHeaders {
    /// Checks the `headers` of a context.
    ///
    /// # Errors
    /// The first invalid header, or one that the engine sets itself: `headers.x-foo`.
    pub fn check(given: &BTreeMap<String, String>) -> Result<Self, InputError> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            add_header(&mut headers, "headers", name, value)?;
        }
        Ok(Self(headers))
    }

    /// Adds them to `headers`: the turn's value replaces the provider's.
    pub(super) fn put_over(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.insert(name.clone(), value.clone());
        }
    }

    /// The values that may be keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        keys(&self.0)
    }
}

/// The values of headers with names of keys: gateways have their own (`api-key`, `cf-access-token`).
pub(super) fn keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.iter().filter(|(name, _)| holds_key(name)).filter_map(|(_, value)| value.to_str().ok())
}

fn holds_key(name: &HeaderName) -> bool {
    ["key", "token", "secret", "auth", "password"].iter().any(|word| name.as_str().contains(word))
}
