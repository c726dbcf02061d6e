//! The keys of an engine's profiles, removed from texts that are stored beside the ledger's turns.
//!
//! It must never print a key.

use std::sync::Arc;

use secrecy::ExposeSecret as _;

use super::forms::MARK;
use super::live::LiveKeys;
use super::shapes::redact_shapes;
use crate::Credential;
use crate::auth::keys::KeyProfile;

/// The keys that some profiles have now, in every form.
pub struct KnownKeys(LiveKeys);

impl KnownKeys {
    /// The fixed keys of the profiles, and those that a host has returned last.
    #[must_use]
    pub fn of<'p>(profiles: impl IntoIterator<Item = &'p KeyProfile>) -> Self {
        let known: Vec<Arc<Credential>> =
            profiles.into_iter().filter_map(KeyProfile::known).collect();
        let keys: Vec<&str> = known.iter().map(|it| it.secret.expose_secret()).collect();
        Self(LiveKeys::new(&keys))
    }

    /// `text` without the keys, and without anything that looks like one.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        redact_shapes(&self.0.clean(text))
    }

    /// The same of JSON, which stays JSON.
    #[must_use]
    pub fn clean_json(&self, json: &str) -> String {
        let clean = redact_shapes(&self.0.clean_json(json));
        if clean == json || serde_json::from_str::<serde::de::IgnoredAny>(&clean).is_ok() {
            return clean;
        }
        // What looks like a key went past the end of its text: no part of it is safe to store.
        format!("\"{MARK}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::KnownKeys;
    use crate::Credential;
    use crate::auth::keys::KeyProfile;
    use model::AuthType;

    fn profile(key: &str) -> KeyProfile {
        let credential =
            Credential { profile_id: "p".to_owned(), secret: key.into(), bearer: false, aws: None };
        KeyProfile::fixed(credential, AuthType::ApiKey)
    }

    #[test]
    fn a_key_of_a_profile_and_what_looks_like_one_are_removed_and_json_stays_json() {
        let keys = KnownKeys::of([&profile("canary-key-1234567")]);
        assert_eq!(keys.clean("it is canary-key-1234567, ok"), "it is [***], ok");
        assert_eq!(keys.clean("sk-abcdefghijklmnop is it"), "[***] is it");
        assert_eq!(keys.clean("Alice likes tea."), "Alice likes tea.");
        assert_eq!(keys.clean_json(r#"{"a":"canary-key-1234567"}"#), r#"{"a":"[***]"}"#);
        for json in [r#"{"password":"hunter22"}"#, r#"["authorization: Bearer abcdef1234"]"#] {
            let clean = keys.clean_json(json);
            assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{clean}");
            assert!(!clean.contains("hunter22") && !clean.contains("abcdef1234"), "{clean}");
        }
    }
}
