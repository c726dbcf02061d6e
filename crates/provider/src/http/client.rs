//! The HTTP client: one per engine, built at its first use, shared by every provider with the same connection options.
//!
//! It must never follow a redirect (reqwest would send the key along), retry, decompress, or read the environment.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::redirect;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::guard::GuardedResolver;
use super::limits::{HEADER_BYTES, HEADER_LINES};
use base::config::EnvironmentProxy;

/// The connection options: providers with equal ones share connections.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    pub(crate) connect_timeout: Duration,
    pub(crate) proxy: Option<EnvironmentProxy>,
    /// Authorities to trust besides the bundled ones, in DER.
    pub(crate) authorities: Vec<Vec<u8>>,
}

/// The engine's HTTP client. Creating one costs nothing; the first request builds it.
#[derive(Default)]
pub struct HttpClient {
    built: Mutex<HashMap<Connection, reqwest::Client>>,
}

impl HttpClient {
    /// A client that is not yet built.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The client for these options, which were checked when they were read.
    pub(super) fn get(&self, connection: &Connection) -> Result<reqwest::Client, BuildError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = built.get(connection) {
            return Ok(client.clone());
        }
        let client = build(connection)?;
        built.insert(connection.clone(), client.clone());
        Ok(client)
    }

    /// Closes every connection: idle ones immediately, the others once their answer is read. A later request opens new ones.
    pub(super) fn disconnect(&self) {
        self.built.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// Why the client could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("TLS could not be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client could not be set up: {0}")]
    Http(reqwest::Error),
}

#[expect(clippy::disallowed_methods, reason = "this is the owner")]
fn build(connection: &Connection) -> Result<reqwest::Client, BuildError> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(&connection.authorities)?)
        .dns_resolver(GuardedResolver)
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .no_proxy()
        .tcp_nodelay(true)
        .connect_timeout(connection.connect_timeout)
        .http1_max_headers(HEADER_LINES)
        .http2_max_header_list_size(HEADER_BYTES)
        .user_agent(concat!("nexus-agent-engine/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &connection.proxy {
        builder = builder.proxy(self::proxy(proxy).map_err(BuildError::Http)?);
    }
    builder.build().map_err(|error| BuildError::Http(error.without_url()))
}

/// A proxy for every scheme, except for the hosts it excludes.
pub(crate) fn proxy(proxy: &EnvironmentProxy) -> Result<reqwest::Proxy, reqwest::Error> {
    let except = proxy.except.as_deref().and_then(reqwest::NoProxy::from_string);
    Ok(reqwest::Proxy::all(&proxy.url).map_err(reqwest::Error::without_url)?.no_proxy(except))
}

/// TLS 1.2 and 1.3 over ring, with the bundled roots: the same on every machine.
fn tls(authorities: &[Vec<u8>]) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for authority in authorities {
        roots.add(CertificateDer::from(authority.as_slice()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads the certificates of a PEM text; `None` where it has none of an authority.
pub(crate) fn authorities(pem: &str) -> Option<Vec<Vec<u8>>> {
    let mut store = RootCertStore::empty();
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.ok()?;
        store.add(certificate.clone()).ok()?;
        found.push(certificate.to_vec());
    }
    (!found.is_empty()).then_some(found)
}
