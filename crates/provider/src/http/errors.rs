//! Converts transport errors to failures: stable codes, and messages with the server's origin but no other part of the URL.
//!
//! It must never quote a header or bytes of a server.

use std::error::Error as StdError;
use std::io;

use super::guard::RefusedAddress;
use crate::Failure;
use model::FailureKind;

/// A failure before the response's headers.
pub(super) fn request_failure(error: reqwest::Error, origin: &str) -> Failure {
    let error = error.without_url();
    if let Some(refused) = find::<RefusedAddress>(&error) {
        return final_failure(FailureKind::Format, "address_refused", refused.to_string());
    }
    if let Some(tls) = find::<rustls::Error>(&error) {
        return tls_failure(tls, origin);
    }
    if error.is_dns() {
        return network("dns", format!("the name of `{origin}` could not be resolved"));
    }
    if error.is_connect() && error.is_timeout() {
        return timeout("connect_timeout", format!("no connection to `{origin}` within the limit"));
    }
    if error.is_connect() {
        let why = find::<io::Error>(&error).map(describe);
        return network("connect", format!("could not connect to `{origin}`{}", tail(why)));
    }
    if find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse) {
        let message = format!("`{origin}` did not answer in HTTP, or with headers over the limit");
        return final_failure(FailureKind::ServerError, "bad_response", message);
    }
    let why = find::<io::Error>(&error).map(describe);
    network("reset", format!("`{origin}` closed the connection before it answered{}", tail(why)))
}

/// A failure while the response's body was read.
pub(super) fn body_failure(error: reqwest::Error, origin: &str) -> Failure {
    let error = error.without_url();
    let io = find::<io::Error>(&error);
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted) => {
            network("reset", format!("`{origin}` reset the connection in the middle of its answer"))
        }
        _ => network(
            "stream_truncated",
            format!("the answer of `{origin}` was cut before its end{}", tail(io.map(describe))),
        ),
    }
}

pub(super) fn timeout(code: &str, message: String) -> Failure {
    Failure::new(FailureKind::Timeout, code, message)
}

/// A failure that a retry would repeat.
pub(super) fn final_failure(kind: FailureKind, code: &str, message: String) -> Failure {
    Failure { should_retry: Some(false), ..Failure::new(kind, code, message) }
}

fn network(code: &str, message: String) -> Failure {
    Failure::new(FailureKind::Network, code, message)
}

fn tls_failure(error: &rustls::Error, origin: &str) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(why) => final_failure(
            FailureKind::Network,
            "tls_certificate",
            format!(
                "the certificate of `{origin}` is not trusted ({}); pass its authority as `caCertificates`",
                certificate_fault(why)
            ),
        ),
        _ => final_failure(
            FailureKind::Network,
            "tls_handshake",
            format!("`{origin}` does not agree on TLS 1.2 or newer"),
        ),
    }
}

fn certificate_fault(error: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => "it has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet",
        E::UnknownIssuer => "its issuer is unknown",
        E::NotValidForName | E::NotValidForNameContext { .. } => "it is for another name",
        E::Revoked => "it is revoked",
        _ => "it is not usable",
    }
}

fn describe(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset => "reset",
        io::ErrorKind::ConnectionAborted => "aborted",
        io::ErrorKind::HostUnreachable => "host unreachable",
        io::ErrorKind::NetworkUnreachable => "network unreachable",
        io::ErrorKind::TimedOut => "no answer",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::BrokenPipe => "closed",
        io::ErrorKind::PermissionDenied => "not permitted",
        _ => "",
    }
}

fn tail(why: Option<&str>) -> String {
    why.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default()
}

/// The first error of a type in the chain; `io::Error` hides what it wraps from `source()`.
fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        at = match inner {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}
