//! What a host sets: the server, the schema, the size of the pool, TLS, and where the password comes from.
//!
//! It must never print a password.

use std::fmt;
use std::time::Duration;

use base::config::Environment;
use model::{InputError, Retention};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::connect::url::{self, Target};

/// The options of a ledger in PostgreSQL, checked.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(crate) schema: String,
    pub(crate) pool: usize,
    /// How long a session remains leased to a process without a heartbeat.
    pub(crate) lease: Duration,
    pub(crate) tls: TlsOptions,
    /// How long the events of runs are stored; `None` where they are not.
    pub(crate) retention: Option<Retention>,
}

/// Whether a connection is encrypted, and what its certificate is checked against.
#[derive(Clone, Default)]
pub(crate) struct TlsOptions {
    /// More authorities, beside the bundled ones: a PEM text.
    pub(crate) authorities: Option<String>,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresOptions")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("schema", &self.schema)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// The options as a host gives them.
#[derive(Clone, Copy, Default)]
pub struct PostgresFields<'a> {
    /// `postgres://user:password@host:port/database?parameters`.
    pub url: &'a str,
    /// The schema of the ledger's tables.
    pub schema: Option<&'a str>,
    /// The most connections of this process.
    pub pool: Option<u64>,
    /// False: no TLS. True: TLS, also to this machine.
    pub ssl: Option<bool>,
    /// The certificates of more authorities: a PEM text.
    pub authorities: Option<&'a str>,
    /// How long a session remains leased, in milliseconds.
    pub lease_ms: Option<u64>,
    /// How long the events of runs are stored; `None` where they are not.
    pub retention: Option<&'a Retention>,
}

impl PostgresOptions {
    /// The lease of a process without a heartbeat.
    const LEASE: Duration = Duration::from_secs(15);
    /// Commits of one process in flight.
    const POOL: u64 = 8;
    const MOST: u64 = 256;
    /// A name that PostgreSQL does not cut.
    const NAME_BYTES: usize = 63;

    /// Checks the options, and completes them from the environment.
    ///
    /// # Errors
    /// Every problem, each with its path under `ledger` and what is allowed.
    pub fn read(
        fields: PostgresFields<'_>,
        environment: &Environment,
    ) -> Result<Self, Vec<InputError>> {
        let mut problems = Vec::new();
        let target = url::parse(fields.url, environment, &mut problems);
        let schema = fields.schema.unwrap_or("agent");
        if schema.is_empty() || schema.len() > Self::NAME_BYTES || schema.contains(['\0', '"', '@'])
        {
            problems.push(InputError::new(
                "ledger.schema",
                format!("`{schema}` is not a schema's name; use 1 to 63 bytes without quotes, `@` and NUL"),
            ));
        }
        if schema.starts_with("pg_") {
            problems.push(InputError::new(
                "ledger.schema",
                format!("`{schema}` is a name of the server's own; use one without `pg_`"),
            ));
        }
        let pool = fields.pool.unwrap_or(Self::POOL);
        if !(1..=Self::MOST).contains(&pool) {
            problems.push(InputError::new(
                "ledger.pool",
                format!("`{pool}` is not a number of connections; pass 1 to {}", Self::MOST),
            ));
        }
        let in_url = target.as_ref().and_then(|target| target.ssl);
        let message = match (fields.authorities, fields.ssl, in_url) {
            (Some(_), Some(false), _) => "has authorities and no TLS; leave one out",
            (Some(_), None, Some(false)) => {
                "has authorities, and the URL has `sslmode=disable`; leave one out"
            }
            _ => "",
        };
        if !message.is_empty() {
            problems.push(InputError::new("ledger.ssl", message));
        }
        let Some(Target { mut config, ssl, .. }) = target.filter(|_| problems.is_empty()) else {
            return Err(problems);
        };
        let is_local = config.get_hosts().iter().all(is_local);
        let encrypts = fields.ssl.or(ssl).unwrap_or(fields.authorities.is_some() || !is_local);
        config.ssl_mode(if encrypts { SslMode::Require } else { SslMode::Disable });
        Ok(Self {
            config,
            schema: schema.to_owned(),
            pool: usize::try_from(pool).unwrap_or(usize::MAX),
            lease: fields.lease_ms.map_or(Self::LEASE, Duration::from_millis),
            retention: fields.retention.cloned(),
            tls: TlsOptions { authorities: fields.authorities.map(ToOwned::to_owned) },
        })
    }
}

/// Whether what is sent stays on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        #[cfg(unix)]
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}
