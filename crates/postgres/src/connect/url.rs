//! A connection URL: `postgres://user:password@host:port/database?parameters`, completed by the environment and the
//! file of passwords, as the server's own tools do it.
//!
//! Every problem is found, and none repeats the URL: it may have a password. It must never open a connection.

use std::time::Duration;

use base::config::Environment;
use model::InputError;
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

use crate::connect::password_file;

/// After this time without an answer of its system, a server is gone.
const GONE: Duration = Duration::from_secs(30);

/// A server, and whether the URL decides about TLS.
pub(crate) struct Target {
    /// One for each host.
    pub(crate) hosts: Vec<Config>,
    pub(crate) ssl: Option<bool>,
    pub(crate) connect_timeout: Option<Duration>,
}

const PARAMETERS: &str = "`host`, `port`, `user`, `dbname`, `sslmode`, `connect_timeout`, `application_name`, `target_session_attrs`, `options`";
const MODES: &str = "`disable`, `require`, `verify-ca` or `verify-full`; the certificate is checked in each of the last three";

/// Reads a URL. Adds what is wrong to `problems`.
pub(crate) fn parse(
    url: &str,
    environment: &Environment,
    problems: &mut Vec<InputError>,
) -> Option<Target> {
    let mut wrong = |message: String| problems.push(InputError::new("ledger.url", message));
    let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))
    else {
        wrong("is not the URL of a server; pass `postgres://user@host:5432/database`".to_owned());
        return None;
    };
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let (user, password) = match user {
        None => (None, None),
        Some(user) => match user.split_once(':') {
            None => (Some(user), None),
            Some((user, password)) => (Some(user), Some(password)),
        },
    };
    let mut given = Given::default();
    for (name, value, slot) in [
        ("the user", user, &mut given.user),
        ("the password", password, &mut given.password),
        ("the database", Some(database).filter(|it| !it.is_empty()), &mut given.database),
    ] {
        match value.map(decoded) {
            None => {}
            Some(Some(value)) => *slot = Some(value),
            Some(None) => {
                wrong(format!("{name} is not UTF-8 in percent-encoding; encode it again"))
            }
        }
    }
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        match host_and_port(host) {
            Some((host, port)) => {
                given.hosts.push(host);
                given.ports.push(port);
            }
            None => wrong("a host has a port that is none; pass 1 to 65535".to_owned()),
        }
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match decoded(value) {
            Some(value) => given.set(name, value, &mut wrong),
            None => {
                wrong("a parameter is not UTF-8 in percent-encoding; encode it again".to_owned())
            }
        }
    }
    given.complete(environment, &mut wrong)
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.contains('\0')).then(|| text.into_owned())
}

/// A host with its port; `None` for one that is none.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => 5432,
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
    };
    Some((decoded(host)?, port))
}

/// The parts of a URL.
#[derive(Default)]
struct Given {
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    hosts: Vec<String>,
    ports: Vec<u16>,
    ssl: Option<bool>,
    timeout: Option<u64>,
    application: Option<String>,
    primary: bool,
    options: Option<String>,
}

impl Given {
    fn set(&mut self, name: &str, value: String, wrong: &mut impl FnMut(String)) {
        match name {
            "host" => self.hosts = value.split(',').map(ToOwned::to_owned).collect(),
            "port" => match value.split(',').map(str::parse).collect() {
                Ok(ports) => self.ports = ports,
                Err(_) => wrong("`port` is none; pass 1 to 65535".to_owned()),
            },
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            "sslmode" => match value.as_str() {
                "disable" => self.ssl = Some(false),
                "require" | "verify-ca" | "verify-full" => self.ssl = Some(true),
                _ => wrong(format!("`sslmode` is `{value}`; pass {MODES}")),
            },
            "connect_timeout" => match value.parse() {
                Ok(seconds) => self.timeout = Some(seconds),
                Err(_) => wrong("`connect_timeout` is no number of seconds".to_owned()),
            },
            "application_name" => self.application = Some(value),
            "target_session_attrs" => match value.as_str() {
                "any" => self.primary = false,
                "read-write" | "primary" => self.primary = true,
                _ => wrong(format!(
                    "`target_session_attrs` is `{value}`; pass `any`, `read-write` or `primary`"
                )),
            },
            "options" => self.options = Some(value),
            // The name only: the value may be a password under a wrong name.
            _ => wrong(format!(
                "`{name}` is not a parameter of it; the allowed ones are {PARAMETERS}"
            )),
        }
    }

    fn complete(
        mut self,
        environment: &Environment,
        wrong: &mut impl FnMut(String),
    ) -> Option<Target> {
        let mut config = Config::new();
        if self.hosts.is_empty() {
            self.hosts.push(environment.get("PGHOST").unwrap_or_else(|| "localhost".to_owned()));
        }
        if self.ports.is_empty() {
            let port = environment.get("PGPORT").and_then(|port| port.parse().ok());
            self.ports.push(port.unwrap_or(5432));
        }
        if self.ports.len() != 1 && self.ports.len() != self.hosts.len() {
            wrong(
                "has another number of ports than of hosts; pass one for each, or one".to_owned(),
            );
            return None;
        }
        let user =
            self.user.or_else(|| environment.get("PGUSER")).or_else(|| environment.get("USER"));
        let Some(user) = user else {
            wrong("has no user, and neither has the environment; pass `postgres://user@host/database`".to_owned());
            return None;
        };
        let database = self.database.or_else(|| environment.get("PGDATABASE"));
        let database = database.unwrap_or_else(|| user.clone());
        let password = self.password.or_else(|| environment.get("PGPASSWORD")).or_else(|| {
            password_file::password(
                environment,
                self.hosts.first()?,
                *self.ports.first()?,
                &database,
                &user,
            )
        });
        if let Some(password) = password {
            config.password(password);
        }
        config.user(user).dbname(database);
        config.application_name(self.application.as_deref().unwrap_or("agent-engine"));
        // A machine that is gone without a word is noticed after this time.
        config.tcp_user_timeout(GONE).keepalives_idle(GONE);
        if let Some(options) = self.options {
            config.options(options);
        }
        if self.primary || self.hosts.len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let hosts = self.hosts.iter().enumerate().map(|(at, host)| {
            let mut config = config.clone();
            config.host(host);
            if let Some(port) = self.ports.get(at).or(self.ports.first()) {
                config.port(*port);
            }
            config
        });
        let connect_timeout = self.timeout.filter(|it| *it > 0).map(Duration::from_secs);
        Some(Target { hosts: hosts.collect(), ssl: self.ssl, connect_timeout })
    }
}
