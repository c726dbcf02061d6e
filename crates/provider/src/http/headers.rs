//! The headers of one turn, beside the provider's: checked like those of the options, before the run starts.
//!
//! They must never replace what the engine or the connection owns, and are never printed.

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
    /// The first one that is no header, or that the engine sets itself: `headers.x-foo`.
    pub fn check(given: &BTreeMap<String, String>) -> Result<Self, InputError> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            add_header(&mut headers, "headers", name, value)?;
        }
        Ok(Self(headers))
    }

    /// Puts them over `headers`: the turn's own value wins over the provider's.
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

/// The values of headers that may hold a key, by their names: gateways have names of their own (`api-key`,
/// `cf-access-token`).
pub(super) fn keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.iter().filter(|(name, _)| holds_key(name)).filter_map(|(_, value)| value.to_str().ok())
}

fn holds_key(name: &HeaderName) -> bool {
    ["key", "token", "secret", "auth", "password"].iter().any(|word| name.as_str().contains(word))
}
