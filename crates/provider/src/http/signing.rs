//! The headers of a signed request. It must never send the secret key.

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName};
use secrecy::{ExposeSecret as _, SecretString};

use super::credential::secret_value;
use crate::auth::aws::{self, AwsIdentity, ToSign};

/// Signs a request to Bedrock and adds the headers; `None` where a part of the key cannot be a header.
pub(super) fn sign(
    headers: &mut HeaderMap,
    url: &Url,
    body: &[Bytes],
    region: &str,
    now_ms: i64,
    identity: &AwsIdentity,
    secret: &SecretString,
) -> Option<()> {
    let host = match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let signed = aws::sign(
        &ToSign {
            method: "POST",
            host: &host,
            path: url.path(),
            query: url.query_pairs().into_owned().collect(),
            headers: content_type.map(|value| ("content-type", value)).into_iter().collect(),
            body,
            region,
            service: aws::SERVICE,
            now_ms,
        },
        identity,
        secret,
    );
    let mut add = |name: HeaderName, value: &str| {
        headers.insert(name, secret_value("", value).ok()?);
        Some(())
    };
    add(HeaderName::from_static("x-amz-date"), &signed.date)?;
    if let Some(token) = &identity.session_token {
        add(HeaderName::from_static("x-amz-security-token"), token.expose_secret())?;
    }
    add(AUTHORIZATION, &signed.authorization)
}
