//! What a host sets: the server, the schema, the size of the pool, TLS, and where the password comes from.
//!
//! It must never print a password.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
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
    /// Where the password of each new connection comes from, if not from `hosts`.
    pub(crate) password: Option<PasswordSource>,
    /// How long the events of runs are stored; `None` where they are not.
    pub(crate) retention: Option<Retention>,
}

/// Whether a connection is encrypted, what its certificate is checked against, and what the server checks.
#[derive(Clone, Default)]
pub(crate) struct TlsOptions {
    /// More authorities, beside the bundled ones: a PEM text.
    pub(crate) authorities: Option<String>,
    /// The certificate of this client with its chain, and its key: PEM texts.
    pub(crate) identity: Option<(String, String)>,
}

/// A password, or why there is none.
pub type PasswordFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
/// Asks the host for the password of a new connection.
pub type PasswordSource = Arc<dyn Fn() -> PasswordFuture + Send + Sync>;

/// A password beside the URL.
#[derive(Clone)]
pub enum Password {
    /// The same one for each connection.
    Text(String),
    /// One for each new connection.
    Source(PasswordSource),
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
    /// The certificate of this client, and its key: PEM texts.
    pub certificate: Option<&'a str>,
    /// The key of the certificate.
    pub key: Option<&'a str>,
    /// The password, in place of the URL's and the environment's.
    pub password: Option<&'a Password>,
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
        let has_certificates = fields.authorities.or(fields.certificate).is_some();
        let message = match (has_certificates, fields.ssl, in_url) {
            (true, Some(false), _) => "has certificates and no TLS; leave one out",
            (true, None, Some(false)) => {
                "has certificates, and the URL has `sslmode=disable`; leave one out"
            }
            _ if fields.certificate.is_some() != fields.key.is_some() => {
                "has one of `cert` and `key`; pass both"
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
        let encrypts = fields.ssl.or(ssl).unwrap_or(has_certificates || !is_local);
        for config in &mut hosts {
            config.ssl_mode(if encrypts { SslMode::Require } else { SslMode::Disable });
            if let Some(Password::Text(password)) = fields.password {
                config.password(password);
            }
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
            tls: TlsOptions {
                authorities: fields.authorities.map(ToOwned::to_owned),
                identity: fields
                    .certificate
                    .zip(fields.key)
                    .map(|(certificate, key)| (certificate.to_owned(), key.to_owned())),
            },
            password: match fields.password {
                Some(Password::Source(source)) => Some(Arc::clone(source)),
                Some(Password::Text(_)) | None => None,
            },
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
