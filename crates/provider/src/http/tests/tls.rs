//! TLS: only certificates of known authorities, HTTP/2 where the server offers it.

use std::sync::Arc;

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use super::server::{
    Server, WHOLE, completion, fails, provider, read_request, stream_text, unbounded,
};
use crate::Api;
use model::FailureKind;

const CERTIFICATE: &[u8] = include_bytes!("../testdata/server.pem");
const KEY: &[u8] = include_bytes!("../testdata/server.key.pem");
const AUTHORITY: &str = include_str!("../testdata/ca.pem");

fn acceptor(
    protocol: &[u8],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn trusting(server: &Server, host: &str) -> crate::HttpProvider {
    let base = format!("https://{host}:{}", server.address.port());
    let pem = serde_json::to_string(AUTHORITY).unwrap();
    provider(&base, Api::OpenaiChat, &format!(r#","caCertificates":{pem}"#))
}

async fn https(versions: &'static [&'static rustls::SupportedProtocolVersion]) -> Server {
    let acceptor = acceptor(b"http/1.1", versions);
    Server::start(move |socket| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut socket) = acceptor.accept(socket).await else { return };
            read_request(&mut socket).await;
            socket.write_all(unbounded(WHOLE).as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_and_not_retryable() {
    let server = https(rustls::ALL_VERSIONS).await;
    let base = format!("https://localhost:{}", server.address.port());
    let expected =
        (FailureKind::Network, "tls_certificate".to_owned(), None, Some(false), String::new());
    assert_eq!(fails(&provider(&base, Api::OpenaiChat, "")).await, expected);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_and_not_retryable() {
    let server = https(rustls::ALL_VERSIONS).await;
    let expected =
        (FailureKind::Network, "tls_certificate".to_owned(), None, Some(false), String::new());
    assert_eq!(fails(&trusting(&server, "127.0.0.1")).await, expected);
}

#[tokio::test]
async fn a_server_without_tls_is_refused_and_not_retryable() {
    let server = Server::start(|mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        read_request(&mut socket).await;
    })
    .await;
    let base = format!("https://localhost:{}", server.address.port());
    let expected =
        (FailureKind::Network, "tls_handshake".to_owned(), None, Some(false), String::new());
    assert_eq!(fails(&provider(&base, Api::OpenaiChat, "")).await, expected);
}

#[tokio::test]
async fn a_named_authority_is_trusted_over_tls_1_2_and_1_3() {
    const VERSIONS: [&[&rustls::SupportedProtocolVersion]; 2] =
        [&[&rustls::version::TLS12], &[&rustls::version::TLS13]];
    for versions in VERSIONS {
        let server = https(versions).await;
        assert_eq!(stream_text(&trusting(&server, "localhost")).await.0, Ok(completion()));
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the server of a test ends with its runtime")]
async fn http_2_is_used_where_offered_and_calls_share_its_connection() {
    let acceptor = acceptor(b"h2", rustls::ALL_VERSIONS);
    let server = Server::start(move |socket| {
        let acceptor = acceptor.clone();
        async move {
            let socket = acceptor.accept(socket).await.unwrap();
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                tokio::spawn(async move {
                    let head =
                        http::Response::builder().header("content-type", "text/event-stream");
                    let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    body.send_data(Bytes::from(WHOLE), true).unwrap();
                });
            }
        }
    })
    .await;
    let provider = trusting(&server, "localhost");
    for _ in 0..3 {
        assert_eq!(stream_text(&provider).await, (Ok(completion()), "hello".to_owned()));
    }
    assert_eq!(server.connections(), 1);
}
