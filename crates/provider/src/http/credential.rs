//! The header of a credential, and failures without it.
//!
//! It must never print a key.

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::errors::final_failure;
use crate::redact::redact;
use crate::{Credential, Failure};
use model::FailureKind;

pub(super) fn credential_header(
    own_header: Option<&HeaderName>,
    credential: &Credential,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let secret = credential.secret.expose_secret();
    let (name, value) = match own_header.filter(|_| !credential.bearer) {
        Some(name) => (name.clone(), HeaderValue::from_str(secret)),
        None => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {secret}"))),
    };
    let Ok(mut value) = value else {
        return Err(invalid_key(&credential.profile_id));
    };
    value.set_sensitive(true);
    Ok((name, value))
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
