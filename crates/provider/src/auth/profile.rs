//! Reads the auth profiles of the options and their keys. It must never print a key.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::Credential;
use crate::auth::aws::{self, AwsIdentity};
use crate::auth::keys::{Hosted, KeyHost, KeyProfile, KeySource};
use base::config::Environment;
use model::{AuthType, InputError, one_line};

/// One key of one provider, in the options.
#[derive(serde::Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthProfile {
    /// A name for logs and attempts, such as `anthropic:work`.
    pub id: String,
    /// The provider's name in `providers`.
    pub provider: String,
    /// The kind of the key: `api_key` (default), `token` for one sent as `authorization: Bearer`, `oauth` for a token that
    /// expires and is refreshed, or `aws` for one that signs requests (Bedrock).
    #[serde(default, rename = "type")]
    pub kind: Option<AuthType>,
    /// The key, or the environment variable that holds it. For `aws` it may be left out: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` are then read.
    #[serde(default)]
    pub key: Option<AuthKey>,
    /// When `key` expires, in Unix milliseconds; for `oauth`.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// Set where the host has a function for the key.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(skip))]
    pub hosted: bool,
}

/// The source of the key.
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(untagged))]
pub enum AuthKey {
    /// One secret.
    Text(KeyText),
    /// An AWS access key.
    Aws(AwsKey),
}

/// A secret, or the environment variable that holds it.
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(untagged))]
pub enum KeyText {
    /// The secret itself.
    Literal(#[cfg_attr(feature = "testing", ts(type = "string"))] SecretString),
    /// The name of an environment variable.
    Variable {
        /// The name.
        env: String,
    },
}

/// An AWS access key.
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields, rename_all = "camelCase"))]
pub struct AwsKey {
    /// The key's id.
    pub access_key_id: KeyText,
    /// The secret key.
    pub secret_access_key: KeyText,
    /// The token of temporary credentials.
    pub session_token: Option<KeyText>,
}

impl<'de> Deserialize<'de> for AuthKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = AuthKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key, `{ env: 'NAME' }`, or an AWS access key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<AuthKey, E> {
                Ok(AuthKey::Text(KeyText::Literal(key.trim().into())))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AuthKey, A::Error> {
                let Some(first) = map.next_key::<String>()? else {
                    return Err(de::Error::custom("is not `{ env: 'NAME' }`"));
                };
                if first == "env" {
                    return match (map.next_value()?, map.next_key::<String>()?) {
                        (env, None) => Ok(AuthKey::Text(KeyText::Variable { env })),
                        _ => Err(de::Error::custom("is not `{ env: 'NAME' }`")),
                    };
                }
                let mut parts = [None, None, None];
                let mut next = Some(first);
                while let Some(name) = next {
                    let [id, secret, token] = &mut parts;
                    let part = match name.as_str() {
                        "accessKeyId" => id,
                        "secretAccessKey" => secret,
                        "sessionToken" => token,
                        _ => return Err(de::Error::custom("is not `{ env: 'NAME' }`")),
                    };
                    *part = map.next_value::<Option<KeyText>>()?;
                    next = map.next_key()?;
                }
                let [Some(access_key_id), Some(secret_access_key), session_token] = parts else {
                    return Err(de::Error::custom(
                        "has no `accessKeyId` or no `secretAccessKey`; pass both",
                    ));
                };
                Ok(AuthKey::Aws(AwsKey { access_key_id, secret_access_key, session_token }))
            }
        }

        deserializer.deserialize_any(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AuthKey::deserialize(deserializer)? {
            AuthKey::Text(text) => Ok(text),
            AuthKey::Aws(_) => Err(de::Error::custom("is not a text or `{ env: 'NAME' }`")),
        }
    }
}

/// The profiles in the given order.
#[derive(Default)]
pub(crate) struct Profiles {
    /// The provider's name, and the profile.
    given: Vec<(String, Arc<KeyProfile>)>,
}

impl Profiles {
    /// Reads a profile's key; `index` is its index in `authProfiles`.
    pub(crate) fn add(
        &mut self,
        index: usize,
        profile: AuthProfile,
        host: Option<&Arc<dyn KeyHost>>,
        environment: &Environment,
    ) -> Result<(), InputError> {
        let at = |field: &str| format!("authProfiles[{index}].{field}");
        if profile.id.is_empty() {
            return Err(InputError::new(at("id"), "is empty"));
        }
        one_line(&at("id"), profile.id.clone())?;
        if self.given.iter().any(|(_, known)| known.id == profile.id) {
            return Err(InputError::new(at("id"), format!("`{}` is there twice", profile.id)));
        }
        let read = |key: KeyText, field: &str| match key {
            KeyText::Literal(key) => checked(key, &at(field)),
            KeyText::Variable { env } => match environment.get(&env) {
                Some(key) => checked(key.into(), &at(&format!("{field}.env"))),
                // The value may be the key itself, so it is not repeated.
                None => Err(InputError::new(
                    at(&format!("{field}.env")),
                    "is not the name of an environment variable that is set; set the variable, \
                     or pass the key itself as `key`",
                )),
            },
        };
        let kind = profile.kind.unwrap_or(AuthType::ApiKey);
        if profile.expires_at.is_some() && kind != AuthType::Oauth {
            return Err(InputError::new(at("expiresAt"), "is for `type: 'oauth'` only"));
        }
        if kind == AuthType::Oauth && !profile.hosted {
            let message = "is missing; pass a function that gives a new token";
            return Err(InputError::new(at("refresh"), message));
        }
        if profile.hosted && kind == AuthType::Aws {
            return Err(InputError::new(at("key"), "is a function; pass an access key"));
        }
        if let Some(host) = host.filter(|_| profile.hosted) {
            let first = match profile.key {
                None => None,
                Some(AuthKey::Text(key)) => Some(Arc::new(Credential {
                    secret: read(key, "key")?,
                    profile_id: profile.id.clone(),
                    bearer: true,
                    aws: None,
                })),
                Some(AuthKey::Aws(_)) => {
                    return Err(InputError::new(at("key"), "is an access key; pass a token"));
                }
            };
            let position = u32::try_from(index).unwrap_or(u32::MAX);
            let hosted = Hosted::new(Arc::clone(host), position, first, profile.expires_at);
            let source = KeySource::Hosted(hosted);
            let known = KeyProfile { id: profile.id, kind, source };
            self.given.push((profile.provider, Arc::new(known)));
            return Ok(());
        }
        let credential = match (profile.kind, profile.key) {
            (Some(AuthType::Aws), Some(AuthKey::Aws(key))) => Credential {
                secret: read(key.secret_access_key, "key.secretAccessKey")?,
                aws: Some(AwsIdentity {
                    access_key_id: read(key.access_key_id, "key.accessKeyId")?
                        .expose_secret()
                        .to_owned(),
                    session_token: key
                        .session_token
                        .map(|token| read(token, "key.sessionToken"))
                        .transpose()?,
                }),
                profile_id: profile.id,
                bearer: false,
            },
            (Some(AuthType::Aws), None) => {
                usual_access_key(profile.id, environment)?.ok_or_else(|| {
                    let [id, secret, _] = aws::KEY_VARIABLES;
                    let message = format!("is missing; pass one, or set `{id}` and `{secret}`");
                    InputError::new(at("key"), message)
                })?
            }
            (Some(AuthType::Aws), Some(AuthKey::Text(_))) => {
                let message = "is not an access key; pass `{ accessKeyId, secretAccessKey }`, \
                               or leave it out to read the usual variables";
                return Err(InputError::new(at("key"), message));
            }
            (kind, Some(AuthKey::Text(key))) => Credential {
                secret: read(key, "key")?,
                profile_id: profile.id,
                bearer: kind == Some(AuthType::Token),
                aws: None,
            },
            (_, Some(AuthKey::Aws(_))) => {
                return Err(InputError::new(at("key"), "is an access key; pass `type: 'aws'`"));
            }
            (_, None) => return Err(InputError::new(at("key"), "is missing")),
        };
        self.given.push((profile.provider, Arc::new(KeyProfile::fixed(credential, kind))));
        Ok(())
    }

    /// Adds a profile from the provider's usual variable, if it is set and the provider has no profile.
    pub(crate) fn add_usual(
        &mut self,
        provider: &str,
        variable: &str,
        environment: &Environment,
    ) -> Result<(), InputError> {
        match environment.get(variable) {
            Some(key) if self.of(provider).is_empty() => {
                let profile_id = format!("{provider}:env");
                let secret = checked(key.into(), variable)?;
                let credential = Credential { profile_id, secret, bearer: false, aws: None };
                let profile = KeyProfile::fixed(credential, AuthType::ApiKey);
                self.given.push((provider.to_owned(), Arc::new(profile)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a profile from the usual variables of an access key, if they are set and the provider has no profile.
    pub(crate) fn add_usual_access_key(
        &mut self,
        provider: &str,
        environment: &Environment,
    ) -> Result<(), InputError> {
        if self.of(provider).is_empty()
            && let Some(credential) = usual_access_key(format!("{provider}:env"), environment)?
        {
            let profile = KeyProfile::fixed(credential, AuthType::Aws);
            self.given.push((provider.to_owned(), Arc::new(profile)));
        }
        Ok(())
    }

    /// The profiles of a provider.
    pub(crate) fn of(&self, provider: &str) -> Vec<Arc<KeyProfile>> {
        let mine = self.given.iter().filter(|(of, _)| of == provider);
        mine.map(|(_, profile)| Arc::clone(profile)).collect()
    }
}

/// The access key in the variables that every AWS tool reads; `None` unless both are set.
fn usual_access_key(
    profile_id: String,
    environment: &Environment,
) -> Result<Option<Credential>, InputError> {
    let [id, secret, token] = aws::KEY_VARIABLES;
    let (Some(access_key_id), Some(key)) = (environment.get(id), environment.get(secret)) else {
        return Ok(None);
    };
    let session_token =
        environment.get(token).map(|value| checked(value.into(), token)).transpose()?;
    let identity = AwsIdentity { access_key_id, session_token };
    let secret = checked(key.into(), secret)?;
    Ok(Some(Credential { profile_id, secret, bearer: false, aws: Some(identity) }))
}

/// A secret that a header can hold.
fn checked(secret: SecretString, path: &str) -> Result<SecretString, InputError> {
    let text = secret.expose_secret();
    if text.is_empty() {
        return Err(InputError::new(path, "is empty; pass the key"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "is no key: it has a space, or a character that no header may have";
        return Err(InputError::new(path, message));
    }
    Ok(secret)
}
