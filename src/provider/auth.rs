//! Credentials: from an auth profile of the options to what one attempt is sent with. It must never print one.

use std::fmt;
use std::sync::Arc;

use secrecy::SecretString;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::Credential;
use crate::config::Environment;
use crate::model::InputError;

/// One key of one provider, as the options name it.
#[derive(serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthProfile {
    /// A name for logs and attempts, such as `anthropic:work`.
    pub id: String,
    /// The provider's name in `providers`.
    pub provider: String,
    /// What the key is: `api_key` (default), or `token` for one that travels as `authorization: Bearer`.
    #[serde(default, rename = "type")]
    pub kind: Option<AuthType>,
    /// The key, or the environment variable that holds it.
    pub key: AuthKey,
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// Sent in the API's own header.
    ApiKey,
    /// Sent as `authorization: Bearer`.
    Token,
}

/// Where the key is.
#[cfg_attr(test, derive(ts_rs::TS), ts(untagged))]
pub enum AuthKey {
    /// The key itself.
    Literal(#[cfg_attr(test, ts(type = "string"))] SecretString),
    /// The name of an environment variable.
    Variable {
        /// The name.
        env: String,
    },
}

impl<'de> Deserialize<'de> for AuthKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = AuthKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key or `{ env: 'NAME' }`")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<AuthKey, E> {
                Ok(AuthKey::Literal(key.trim().into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AuthKey, A::Error> {
                match (map.next_entry::<String, String>()?, map.next_key::<String>()?) {
                    (Some((name, env)), None) if name == "env" => Ok(AuthKey::Variable { env }),
                    _ => Err(de::Error::custom("is not `{ env: 'NAME' }`")),
                }
            }
        }

        deserializer.deserialize_any(KeyVisitor)
    }
}

/// The profiles in the order given.
#[derive(Default)]
pub(crate) struct Profiles {
    /// The provider's name, and what its attempts are sent with.
    given: Vec<(String, Arc<Credential>)>,
}

impl Profiles {
    /// Reads a profile's key; `index` is its place in `authProfiles`.
    pub(crate) fn add(
        &mut self,
        index: usize,
        profile: AuthProfile,
        environment: &Environment,
    ) -> Result<(), InputError> {
        let at = |field: &str| format!("authProfiles[{index}].{field}");
        if profile.id.is_empty() {
            return Err(InputError::new(at("id"), "is empty"));
        }
        if self.given.iter().any(|(_, known)| known.profile_id == profile.id) {
            return Err(InputError::new(at("id"), format!("`{}` is there twice", profile.id)));
        }
        let secret = match profile.key {
            AuthKey::Literal(key) => key,
            AuthKey::Variable { env } => match environment.get(&env) {
                Some(key) => key.into(),
                None => {
                    return Err(InputError::new(
                        at("key.env"),
                        format!(
                            "the environment variable `{env}` is not set; set it, or pass the key itself"
                        ),
                    ));
                }
            },
        };
        let bearer = profile.kind == Some(AuthType::Token);
        self.push(&at("key"), profile.provider, profile.id, secret, bearer)
    }

    /// Takes a provider's usual variable, where it is set and no profile was given for it.
    pub(crate) fn add_usual(
        &mut self,
        provider: &str,
        variable: &str,
        environment: &Environment,
    ) -> Result<(), InputError> {
        match environment.get(variable) {
            Some(key) if self.choose(provider).is_none() => {
                let id = format!("{provider}:env");
                self.push(variable, provider.to_owned(), id, key.into(), false)
            }
            _ => Ok(()),
        }
    }

    /// The first profile of a provider.
    pub(crate) fn choose(&self, provider: &str) -> Option<&Arc<Credential>> {
        self.given.iter().find(|(of, _)| of == provider).map(|(_, credential)| credential)
    }

    fn push(
        &mut self,
        path: &str,
        provider: String,
        profile_id: String,
        secret: SecretString,
        bearer: bool,
    ) -> Result<(), InputError> {
        use secrecy::ExposeSecret as _;
        let text = secret.expose_secret();
        if text.is_empty() {
            return Err(InputError::new(path, "is empty; pass the key"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "is no key: it has a space, or a character that no header may have";
            return Err(InputError::new(path, message));
        }
        self.given.push((provider, Arc::new(Credential { profile_id, secret, bearer })));
        Ok(())
    }
}
