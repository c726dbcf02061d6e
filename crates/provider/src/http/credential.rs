//! The header of a credential, and failures without it.
//!
//! It must never print a key.

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue, InvalidHeaderValue};
use secrecy::ExposeSecret as _;
use secrecy::zeroize::Zeroizing;

use super::errors::final_failure;
use crate::redact::redact;
use crate::{Credential, Failure};
use model::FailureKind;

pub(super) fn credential_header(
    own_header: Option<&HeaderName>,
    credential: &Credential,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let secret = credential.secret.expose_secret();
    let (name, before) = match own_header.filter(|_| !credential.bearer) {
        Some(name) => (name.clone(), ""),
        None => (AUTHORIZATION, "Bearer "),
    };
    match secret_value(before, secret) {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(invalid_key(&credential.profile_id)),
    }
}

/// A header's value whose bytes are overwritten when its last copy is dropped, and that no log prints.
pub(super) fn secret_value(before: &str, secret: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(before.len() + secret.len()));
    bytes.extend_from_slice(before.as_bytes());
    bytes.extend_from_slice(secret.as_bytes());
    let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(bytes))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn invalid_key(profile: &str) -> Failure {
    let message = format!("the key of `{profile}` has a character that no header may have");
    final_failure(FailureKind::Auth, "invalid_key", message)
}

/// Removes the key from a failure: some servers quote the key they refuse.
pub(super) fn without_keys(mut failure: Failure, keys: &[&str]) -> Failure {
    failure.message = redact(&failure.message, keys);
    failure.code = failure.code.map(|code| redact(&code, keys));
    failure
}
