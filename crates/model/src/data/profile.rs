//! An auth profile's state: when it was used, how it failed, and until when it cools down (docs/rules/failover.md#profile-state).
//!
//! It must never hold a key: the ledger stores it and a host reads it.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::FailureKind;

/// A model by name. Read from `"model"` as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
pub struct ModelName {
    /// The provider's name among the engine's; default: the run's, or the one that has the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's id.
    pub model: String,
}

impl<'de> Deserialize<'de> for ModelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            provider: Option<String>,
            model: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "is no model; pass its id, or `{ provider, model }`")]
        enum Form {
            Plain(String),
            Fields(Fields),
        }
        let (provider, model) = match Form::deserialize(deserializer)? {
            Form::Plain(model) => (None, model),
            Form::Fields(Fields { provider, model }) => (provider, model),
        };
        if model.is_empty() {
            return Err(de::Error::custom("is no model; its id is empty"));
        }
        if model.chars().chain(provider.iter().flat_map(|name| name.chars())).any(char::is_control)
        {
            return Err(de::Error::custom("has a control character; remove it"));
        }
        Ok(Self { provider, model })
    }
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// Sent in the API's own header.
    ApiKey,
    /// Sent as `authorization: Bearer`.
    Token,
    /// A token that expires and is refreshed by the host; sent as `authorization: Bearer`.
    Oauth,
    /// An access key that signs requests (Signature Version 4).
    Aws,
}

impl AuthType {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::Token => "token",
            Self::Oauth => "oauth",
            Self::Aws => "aws",
        }
    }
}

/// A time in which a profile is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ProfileWindow {
    /// The model it applies to; null for all models of the profile.
    pub model: Option<String>,
    /// Why.
    pub reason: FailureKind,
    /// Unix milliseconds.
    pub from: i64,
    /// Unix milliseconds.
    pub until: i64,
}

/// The stored state of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileUsage {
    /// When it was last chosen or answered: Unix milliseconds.
    pub last_used_at: Option<i64>,
    /// When it last failed: Unix milliseconds.
    pub last_failure_at: Option<i64>,
    /// Failures since no window was active.
    pub failures: u32,
    /// Consecutive billing and permanent auth failures.
    pub refusals: u32,
    /// The windows; expired ones may still be among them.
    pub windows: Vec<ProfileWindow>,
}

/// An auth profile as a host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ProfileState {
    /// The profile's name.
    pub id: String,
    /// The provider it is for.
    pub provider: String,
    /// The kind of its key.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// False: it cools down now, whatever the model.
    pub available: bool,
    /// When it was last used, in Unix milliseconds; null for never.
    pub last_used_at: Option<i64>,
    /// When it last failed, in Unix milliseconds; null for never.
    pub last_failure_at: Option<i64>,
    /// The windows in which it is not used, without expired ones.
    pub windows: Vec<ProfileWindow>,
}
