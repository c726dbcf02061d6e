//! TLS to the server: this crate's rustls under the client's stream, with the bundled authorities and the host's own.
//!
//! It must never accept a certificate that it could not check.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use model::{StorageError, StorageErrorKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Encrypted;

use crate::connect::error::Stored;
use crate::connect::options::TlsOptions;

/// Makes the TLS of a connection.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// TLS 1.2 and 1.3 over ring.
    ///
    /// # Errors
    /// A PEM text without a certificate of an authority.
    pub(crate) fn new(options: &TlsOptions) -> Stored<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(pem) = &options.authorities {
            let mut found = 0;
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|_| no_certificate())?;
                roots.add(certificate).map_err(|_| no_certificate())?;
                found += 1;
            }
            if found == 0 {
                return Err(no_certificate());
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StorageError::new(StorageErrorKind::Io, error.to_string()))?
            .with_root_certificates(roots);
        let config = match &options.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|_| no_identity())?;
                let key =
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| no_identity())?;
                config.with_client_auth_cert(chain, key).map_err(|_| no_identity())?
            }
        };
        Ok(Self { config: Arc::new(config) })
    }
}

fn no_certificate() -> StorageError {
    let message = "`ledger.ssl.ca` has no certificate of an authority; pass its PEM text";
    StorageError::new(StorageErrorKind::Io, message).at("ledger.ssl.ca")
}

fn no_identity() -> StorageError {
    let message =
        "`ledger.ssl` has no certificate in `cert`, or not its key in `key`; pass their PEM texts";
    StorageError::new(StorageErrorKind::Io, message).at("ledger.ssl.cert")
}

/// The TLS of a connection to one host.
pub(crate) struct ToHost {
    config: Arc<ClientConfig>,
    /// `None` for a path, which is called without TLS.
    name: Option<ServerName<'static>>,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = ToHost;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, Self::Error> {
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(ToHost { config: Arc::clone(&self.config), name })
    }
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connector = TlsConnector::from(self.config);
            let no_name =
                || io::Error::new(io::ErrorKind::InvalidInput, "the host has no name for TLS");
            connector
                .connect(self.name.ok_or_else(no_name)?, stream)
                .await
                .map(|it| Stream(Box::new(it)))
        })
    }
}

/// An encrypted stream.
pub(crate) struct Stream<S>(Box<Encrypted<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
