//! The backend of a ledger: opens a SQLite file or a PostgreSQL server by its options and returns its ports, and salvages a
//! damaged file.
//!
//! Nothing else in this module names a backend. It must never leave a file behind for a wrong option.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::node::options::{
    CertificateFields, EventFields, LedgerFields, PasswordFields, SslFields, SynchronousName,
};
use base::clock::Clock;
use base::config::{Environment, LOG_BOUND_VARIABLE};
use base::error::EngineError;
use ledger::{Ledger, LedgerOptions, LedgerSalvage, Synchronous};
use model::{InputError, LedgerPorts, StorageError, StorageErrorKind};
use postgres::{Password, Postgres, PostgresFields, PostgresOptions};
use provider::KeyHost;

/// A shorter lease could expire by chance; a longer one would block a session for too long.
const LEASES_MS: std::ops::RangeInclusive<u64> = 300..=600_000;

/// Checks the options of a ledger.
pub(crate) fn check(fields: &LedgerFields, environment: &Environment) -> Result<(), InputError> {
    match (&fields.path, &fields.url) {
        (None, None) => {
            return Err(InputError::new(
                "ledger.path",
                "is missing; pass the path of a file, or the `url` of a PostgreSQL server",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(InputError::new("ledger.url", "is passed with `path`; pass one of them"));
        }
        (Some(path), None) => {
            if path.is_empty() {
                return Err(InputError::new("ledger.path", "is empty; pass the path of a file"));
            }
            of_server_only(fields)?;
        }
        (None, Some(url)) => {
            of_file_only(fields)?;
            postgres_options(fields, url, environment, None)?;
        }
    }
    if fields.lease_ms.is_some_and(|lease| !LEASES_MS.contains(&lease)) {
        let (least, most) = (LEASES_MS.start(), LEASES_MS.end());
        return Err(InputError::new(
            "ledger.leaseMs",
            format!("is not a lease; pass {least} to {most} milliseconds"),
        ));
    }
    EventFields::retention(fields.events.as_ref()).map(drop)
}

/// Refuses options of a server beside a file.
fn of_server_only(fields: &LedgerFields) -> Result<(), InputError> {
    let given = [
        ("ledger.schema", fields.schema.is_some()),
        ("ledger.pool", fields.pool.is_some()),
        ("ledger.ssl", fields.ssl.is_some()),
        ("ledger.password", fields.password.is_some()),
        ("ledger.timeoutMs", fields.timeout_ms.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((path, _)) => Err(InputError::new(
            path,
            "belongs to a ledger with a `url`; leave it out with a `path`",
        )),
        None => Ok(()),
    }
}

/// Refuses options of a file beside a server.
fn of_file_only(fields: &LedgerFields) -> Result<(), InputError> {
    if fields.synchronous.is_some() {
        let message =
            "belongs to a ledger in a file; set `synchronous_commit` of the server or of the role";
        return Err(InputError::new("ledger.synchronous", message));
    }
    Ok(())
}

/// The options of a server.
///
/// # Errors
/// The first wrong option, with all of its problems.
fn postgres_options(
    fields: &LedgerFields,
    url: &str,
    environment: &Environment,
    keys: Option<&Arc<dyn KeyHost>>,
) -> Result<PostgresOptions, InputError> {
    let none = CertificateFields::default();
    let (ssl, certificates) = match &fields.ssl {
        None => (None, &none),
        Some(SslFields::Switch(ssl)) => (Some(*ssl), &none),
        Some(SslFields::Certificates(given)) => (None, given),
    };
    let password = match (&fields.password, keys) {
        (Some(PasswordFields::Text(text)), _) => Some(Password::Text(text.clone())),
        (Some(PasswordFields::Function(number)), Some(keys)) => {
            let (keys, number) = (Arc::clone(keys), *number);
            Some(Password::Source(Arc::new(move || {
                let asked = keys.key(number, false, None);
                Box::pin(async move { Ok(asked.await?.expose().to_owned()) })
            })))
        }
        (Some(PasswordFields::Function(_)) | None, _) => None,
    };
    let retention = EventFields::retention(fields.events.as_ref())?;
    let given = PostgresFields {
        url,
        schema: fields.schema.as_deref(),
        pool: fields.pool,
        ssl,
        authorities: certificates.ca.as_deref(),
        certificate: certificates.cert.as_deref(),
        key: certificates.key.as_deref(),
        password: password.as_ref(),
        lease_ms: fields.lease_ms,
        timeout_ms: fields.timeout_ms,
        retention: retention.as_ref(),
    };
    PostgresOptions::read(given, environment).map_err(|problems| {
        let path = problems.first().map_or("ledger.url", |it| it.path.as_str()).to_owned();
        let same = problems.iter().filter(|it| it.path == path);
        let messages: Vec<&str> = same.map(|it| it.message.as_str()).collect();
        InputError::new(path, messages.join("; "))
    })
}

/// Opens the ledger of these options, which were checked. `keys` has the functions of the host.
pub(crate) fn open(
    fields: LedgerFields,
    environment: &Environment,
    clock: &Clock,
    keys: Option<&Arc<dyn KeyHost>>,
) -> Result<LedgerPorts, EngineError> {
    if let Some(url) = &fields.url {
        let options =
            postgres_options(&fields, url, environment, keys).map_err(EngineError::option)?;
        return Ok(LedgerPorts::of(&Postgres::open(&options, clock.clone())?));
    }
    let synchronous = match fields.synchronous {
        Some(SynchronousName::Normal) => Synchronous::Normal,
        Some(SynchronousName::Full) | None => Synchronous::Full,
    };
    let lease = fields.lease_ms.map_or(LedgerOptions::DEFAULT_LEASE, Duration::from_millis);
    let path = PathBuf::from(fields.path.unwrap_or_default());
    let events = EventFields::retention(fields.events.as_ref()).map_err(EngineError::option)?;
    let log_bound = environment
        .get(LOG_BOUND_VARIABLE)
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(LedgerOptions::LOG_BOUND);
    let options = LedgerOptions { path, synchronous, lease, events, log_bound };
    Ok(LedgerPorts::of(&Ledger::open(&options, clock.clone())?))
}

/// Copies everything that is readable in a damaged file to a new one.
pub(crate) async fn salvage(damaged: &Path, fresh: &Path) -> Result<LedgerSalvage, StorageError> {
    let is_server = |path: &Path| path.starts_with("postgres:") || path.starts_with("postgresql:");
    if is_server(damaged) || is_server(fresh) {
        let message = "a ledger in PostgreSQL does not have `salvage`; restore a backup, and check it by `verify`";
        return Err(StorageError::new(StorageErrorKind::Unsupported, message));
    }
    Ledger::salvage(damaged, fresh, Clock::default()).await
}
