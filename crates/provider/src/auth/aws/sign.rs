//! Signature Version 4: computes the signature headers of a request from a secret key.
//!
//! The cryptography is ring's. It must never sign a header that the connection may change.

use ring::digest::{Context, SHA256};
use ring::hmac;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret as _, SecretString};

use super::AwsIdentity;
use crate::paths::segment;
use base::clock::date;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The signed parts of a request, as they will be sent.
pub(crate) struct ToSign<'a> {
    pub(crate) method: &'a str,
    /// The value of the `host` header, with the port unless it is the scheme's default.
    pub(crate) host: &'a str,
    /// The path as it is sent, percent-encoded.
    pub(crate) path: &'a str,
    /// The parameters of the query, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// Headers to sign besides `host`, the date and the token: names in lower case.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// The body, in the pieces in which it is sent.
    pub(crate) body: &'a [bytes::Bytes],
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    /// Unix milliseconds.
    pub(crate) now_ms: i64,
}

/// The headers that the signature adds to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    /// `x-amz-date`.
    pub(crate) date: String,
    /// `authorization`.
    pub(crate) authorization: String,
}

/// Signs a request, including its `x-amz-security-token`, if the identity has one.
pub(crate) fn sign(request: &ToSign<'_>, identity: &AwsIdentity, secret: &SecretString) -> Signed {
    let date = timestamp(request.now_ms);
    let day = date.get(..8).unwrap_or_default();
    let mut headers = request.headers.clone();
    headers.push(("host", request.host));
    headers.push(("x-amz-date", &date));
    if let Some(token) = &identity.session_token {
        headers.push(("x-amz-security-token", token.expose_secret()));
    }
    headers.sort_unstable();
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    // The canonical request is hashed piece by piece: it has the session's token.
    let mut canonical = Context::new(&SHA256);
    let (path, query) = (canonical_path(request.path), canonical_query(&request.query));
    canonical.update(format!("{}\n{path}\n{query}\n", request.method).as_bytes());
    for (name, value) in &headers {
        canonical.update(name.as_bytes());
        canonical.update(b":");
        canonical.update(trimmed(value).as_bytes());
        canonical.update(b"\n");
    }
    let body = hex(&digest(request.body.iter().map(AsRef::as_ref)));
    canonical.update(format!("\n{names}\n{body}").as_bytes());
    let scope = format!("{day}/{}/{}/aws4_request", request.region, request.service);
    let hash = hex(canonical.finish().as_ref());
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{hash}");
    let secret = secret.expose_secret();
    let mut key = Zeroizing::new(Vec::with_capacity(secret.len() + 4));
    key.extend_from_slice(b"AWS4");
    key.extend_from_slice(secret.as_bytes());
    for part in [day, request.region, request.service, "aws4_request"] {
        key = keyed(&key, part.as_bytes());
    }
    let signature = hex(&keyed(&key, to_sign.as_bytes()));
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        identity.access_key_id
    );
    Signed { date, authorization }
}

fn keyed(key: &[u8], data: &[u8]) -> Zeroizing<Vec<u8>> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec().into()
}

fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    for piece in pieces {
        context.update(piece);
    }
    context.finish().as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path encoded once more, segment by segment: every service except S3 signs it in this form.
fn canonical_path(path: &str) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn canonical_query(query: &[(String, String)]) -> String {
    let mut pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{}={}", segment(name), segment(value))).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// The value without surrounding blanks, and with each run of blanks inside as one.
fn trimmed(value: &str) -> Zeroizing<String> {
    value.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ").into()
}

/// `20150830T123600Z`.
fn timestamp(now_ms: i64) -> String {
    let second = now_ms.div_euclid(1_000).rem_euclid(86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}{minute:02}{second:02}Z", date(now_ms).replace('-', ""))
}
