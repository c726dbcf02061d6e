//! The options of an engine, read from JSON.
//!
//! It must never accept an unknown field.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use model::{InputError, Retention};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Options<'a> {
    #[serde(default)]
    pub(super) ledger: Option<LedgerFields>,
    #[serde(borrow, default)]
    pub(super) providers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) auth_profiles: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) models: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) tool_timeout_ms: Option<u64>,
    #[serde(borrow, default)]
    pub(super) compaction: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) failover: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) rate_governor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) context_guard: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) pruning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) budgets: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) policy: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) planner: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) mcp: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) allowed_hosts: Option<Vec<String>>,
    #[serde(borrow, default)]
    pub(super) memory: Option<&'a RawValue>,
    /// The options that `lib/engine/options.ts` handles in JavaScript: listed here so that an error names every option.
    #[serde(default)]
    #[expect(dead_code, reason = "only its name matters")]
    pub(super) on_request: Option<IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "only its name matters")]
    pub(super) recovery: Option<IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "only its name matters")]
    pub(super) tools_for: Option<IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "only its name matters")]
    pub(super) toolsets: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LedgerFields {
    /// Of a ledger in a file.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// Of a ledger in PostgreSQL.
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) schema: Option<String>,
    #[serde(default)]
    pub(super) pool: Option<u64>,
    #[serde(default)]
    pub(super) ssl: Option<SslFields>,
    #[serde(default)]
    pub(super) password: Option<PasswordFields>,
    #[serde(default)]
    pub(super) synchronous: Option<SynchronousName>,
    #[serde(default)]
    pub(super) journal: Option<JournalName>,
    #[serde(default)]
    pub(super) lease_ms: Option<u64>,
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) events: Option<EventFields>,
}

/// `ledger.ssl` of the engine's options.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a boolean, or an object of `ca`, `cert` and `key`")]
pub(super) enum SslFields {
    Switch(bool),
    Certificates(CertificateFields),
}

/// `ledger.password` of the engine's options.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a string or a function")]
pub(super) enum PasswordFields {
    Text(String),
    /// The number of a function of the host.
    Function(u32),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CertificateFields {
    #[serde(default)]
    pub(super) ca: Option<String>,
    #[serde(default)]
    pub(super) cert: Option<String>,
    #[serde(default)]
    pub(super) key: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalName {
    Full,
    Final,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum SynchronousName {
    Full,
    Normal,
}

/// `ledger.events` of the engine's options.
#[derive(Deserialize)]
#[serde(untagged, expecting = "false, or an object of `keepMs` and `keepTurns`")]
pub(super) enum EventFields {
    Switch(bool),
    Retain(RetentionFields),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RetentionFields {
    #[serde(default)]
    keep_ms: Option<u64>,
    #[serde(default)]
    keep_turns: Option<u32>,
}

impl EventFields {
    pub(super) fn retention(
        fields: Option<&Self>,
    ) -> std::result::Result<Option<Retention>, InputError> {
        let retention = Retention::default();
        match fields {
            None | Some(Self::Switch(true)) => Ok(Some(retention)),
            Some(Self::Switch(false)) => Ok(None),
            Some(Self::Retain(RetentionFields { keep_turns: Some(0), .. })) => Err(InputError {
                path: "ledger.events.keepTurns".to_owned(),
                message: "`0` stores nothing; pass at least 1, or `events: false`".to_owned(),
            }),
            Some(Self::Retain(RetentionFields { keep_ms, keep_turns })) => Ok(Some(Retention {
                age: keep_ms.map_or(retention.age, Duration::from_millis),
                turns: *keep_turns,
            })),
        }
    }
}
