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
    /// One for each host, in the order in which they are tried.
    pub(crate) hosts: Vec<Config>,
    pub(crate) schema: String,
    pub(crate) pool: usize,
    /// How long a session remains leased to a process without a heartbeat.
    pub(crate) lease: Duration,
    /// How long a try of a statement may wait for its answer.
    pub(crate) timeout: Duration,
    /// How long a new connection may take, for each host.
    pub(crate) connect_timeout: Duration,
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
            .field("hosts", &self.hosts.iter().flat_map(Config::get_hosts).collect::<Vec<_>>())
            .field("database", &self.hosts.first().and_then(Config::get_dbname))
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
    /// How long a try of a statement may wait for its answer, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How long the events of runs are stored; `None` where they are not.
    pub retention: Option<&'a Retention>,
}

impl PostgresOptions {
    /// The lease of a process without a heartbeat.
    const LEASE: Duration = Duration::from_secs(15);
    const CONNECT: Duration = Duration::from_secs(10);
    /// A statement of a run takes milliseconds; this is for a server that is overloaded.
    const TIMEOUT: Duration = Duration::from_secs(15);
    const TIMEOUTS_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
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
        if fields.timeout_ms.is_some_and(|timeout| !Self::TIMEOUTS_MS.contains(&timeout)) {
            problems.push(InputError::new(
                "ledger.timeoutMs",
                format!(
                    "is not a limit of time; pass {} to {} milliseconds",
                    Self::TIMEOUTS_MS.start(),
                    Self::TIMEOUTS_MS.end()
                ),
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
        let Some(Target { mut hosts, ssl, connect_timeout }) =
            target.filter(|_| problems.is_empty())
        else {
            return Err(problems);
        };
        let is_local = hosts.iter().flat_map(Config::get_hosts).all(is_local);
        let encrypts = fields.ssl.or(ssl).unwrap_or(fields.authorities.is_some() || !is_local);
        for config in &mut hosts {
            config.ssl_mode(if encrypts { SslMode::Require } else { SslMode::Disable });
        }
        let timeout = fields.timeout_ms.map_or(Self::TIMEOUT, Duration::from_millis);
        Ok(Self {
            hosts,
            timeout,
            connect_timeout: connect_timeout.unwrap_or_else(|| Self::CONNECT.min(timeout)),
            schema: schema.to_owned(),
            pool: usize::try_from(pool).unwrap_or(usize::MAX),
            lease: fields.lease_ms.map_or(Self::LEASE, Duration::from_millis),
            retention: fields.retention.cloned(),
            tls: TlsOptions { authorities: fields.authorities.map(ToOwned::to_owned) },
        })
    }

    /// The server, the database and the schema, the same for each handle with the same URL.
    pub(crate) fn identity(&self) -> String {
        let hosts = self.hosts.iter();
        let hosts = hosts
            .map(|it| format!("{:?}:{:?}/{:?}", it.get_hosts(), it.get_ports(), it.get_dbname()));
        format!("{} {}", hosts.collect::<Vec<_>>().join(","), self.schema)
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
