//! The options of a server: what is refused, with every problem, and where the password comes from.

use base::config::Environment;
use tokio_postgres::config::{Host, SslMode};

use crate::PostgresOptions;
use crate::connect::options::PostgresFields;

fn read(url: &str, environment: &Environment) -> PostgresOptions {
    PostgresOptions::read(PostgresFields { url, ..PostgresFields::default() }, environment).unwrap()
}

#[test]
fn every_problem_of_the_options_is_found_and_none_repeats_the_password() {
    let fields = PostgresFields {
        retention: None,
        url: "postgres://me:s%FFcret-1@host:x/db?sslmode=prefer&pasword=s3cret-2&connect_timeout=z",
        schema: Some("pg_\"x"),
        pool: Some(0),
        ssl: Some(false),
        authorities: Some("-----BEGIN"),
        certificate: None,
        key: None,
        password: None,
        lease_ms: None,
        timeout_ms: Some(1),
    };
    let problems = PostgresOptions::read(fields, &Environment::fixed([])).unwrap_err();
    let texts: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
    assert_eq!(
        texts,
        [
            "ledger.url: the password is not UTF-8 in percent-encoding; encode it again",
            "ledger.url: a host has a port that is none; pass 1 to 65535",
            "ledger.url: `sslmode` is `prefer`; pass `disable`, `require`, `verify-ca` or `verify-full`; the certificate is \
             checked in each of the last three",
            "ledger.url: `pasword` is not a parameter of it; the allowed ones are `host`, `port`, `user`, `dbname`, `sslmode`, \
             `connect_timeout`, `application_name`, `target_session_attrs`, `options`",
            "ledger.url: `connect_timeout` is no number of seconds",
            "ledger.schema: `pg_\"x` is not a schema's name; use 1 to 63 bytes without quotes, `@` and NUL",
            "ledger.schema: `pg_\"x` is a name of the server's own; use one without `pg_`",
            "ledger.pool: `0` is not a number of connections; pass 1 to 256",
            "ledger.timeoutMs: is not a limit of time; pass 100 to 600000 milliseconds",
            "ledger.ssl: has certificates and no TLS; leave one out",
        ]
    );
    let fields = PostgresFields {
        url: "postgres://me@db.example/x?sslmode=disable",
        authorities: Some("-----BEGIN"),
        ..PostgresFields::default()
    };
    let problems = PostgresOptions::read(fields, &Environment::fixed([])).unwrap_err();
    let problems: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(problems, ["has certificates, and the URL has `sslmode=disable`; leave one out"]);
    let fields = PostgresFields {
        retention: None,
        url: "mysql://me:s3cret@host/db",
        ..PostgresFields::default()
    };
    let problems = PostgresOptions::read(fields, &Environment::fixed([])).unwrap_err();
    assert!(!format!("{problems:?}").contains("s3cret"));
}

#[test]
fn a_server_on_another_machine_is_called_by_tls_and_one_on_this_machine_is_not() {
    let none = Environment::fixed([]);
    for (url, mode) in [
        ("postgres://me@db.example/x", SslMode::Require),
        ("postgres://me@10.0.0.1/x", SslMode::Require),
        ("postgres://me@localhost/x", SslMode::Disable),
        ("postgres://me@127.0.0.1/x", SslMode::Disable),
        ("postgres://me@[::1]:5433/x", SslMode::Disable),
        ("postgres://me@/x?host=/run/postgresql", SslMode::Disable),
        ("postgres://me@localhost/x?sslmode=verify-full", SslMode::Require),
        ("postgres://me@db.example/x?sslmode=disable", SslMode::Disable),
        ("postgres://me@localhost,db.example/x", SslMode::Require),
    ] {
        for config in read(url, &none).hosts {
            assert_eq!(config.get_ssl_mode(), mode, "{url}");
        }
    }
}

#[test]
fn a_url_is_completed_from_the_environment() {
    let environment =
        Environment::fixed([("PGUSER", "ann"), ("PGPASSWORD", "s3cret"), ("PGPORT", "6000")]);
    let options = read("postgresql:///shop?host=/run/pg", &environment);
    assert_eq!(options.hosts[0].get_user(), Some("ann"));
    assert_eq!(options.hosts[0].get_dbname(), Some("shop"));
    assert_eq!(options.hosts[0].get_ports(), [6000]);
    assert_eq!(options.hosts[0].get_hosts(), [Host::Unix("/run/pg".into())]);
    assert_eq!(options.hosts[0].get_password(), Some(b"s3cret".as_slice()));
    assert!(!format!("{options:?}").contains("s3cret"));
}

#[test]
fn the_password_of_a_server_comes_from_the_file_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    let lines = "# a comment\nother:*:*:*:wrong\nhost:5432:d\\:b:ann:a\\:b\\\\c:d\n*:*:*:*:last\n";
    std::fs::write(&file, lines).unwrap();
    let environment = Environment::fixed([("PGPASSFILE", file.to_str().unwrap())]);
    let password = |url: &str| {
        let options = read(url, &environment);
        String::from_utf8(options.hosts[0].get_password().unwrap().to_vec()).unwrap()
    };
    assert_eq!(password("postgres://ann@host/d%3Ab"), "a:b\\c:d");
    assert_eq!(password("postgres://ann@elsewhere/d"), "last");
    assert_eq!(password("postgres://ann:own@host/d%3Ab"), "own");
}
