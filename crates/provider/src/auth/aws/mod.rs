//! Amazon's parts: Bedrock's hosts by region, the variables with a key, and the signature of a request.
//!
//! Pure. It must never send a secret key, nor print one.

mod settings;
mod sign;
#[cfg(test)]
mod tests;

use secrecy::SecretString;

pub(crate) use settings::{PROVIDER_NAMES, check_signing, is_own, region};
pub(crate) use sign::{ToSign, sign};

/// The service name in signatures of Bedrock requests.
pub(crate) const SERVICE: &str = "bedrock";
/// A Bedrock API key: a bearer token.
pub(crate) const TOKEN_VARIABLE: &str = "AWS_BEARER_TOKEN_BEDROCK";
/// The variables of an access key, as every AWS tool names them: id, secret, session token.
pub(crate) const KEY_VARIABLES: [&str; 3] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
/// The variables that name a region; the first that is set counts.
pub(crate) const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// The parts of a signature beside the secret key.
#[derive(Clone)]
pub struct AwsIdentity {
    /// The access key's id: sent with every request, not a secret.
    pub access_key_id: String,
    /// The token of temporary credentials.
    pub session_token: Option<SecretString>,
}

/// Bedrock's base URL in a region.
pub(crate) fn base_url(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://bedrock-runtime.{region}.{suffix}")
}

/// The region of one of Bedrock's own hosts (`bedrock-runtime.us-east-1.amazonaws.com`, also its FIPS and VPC forms).
pub(crate) fn region_of_host(host: &str) -> Option<&str> {
    if !is_own_host(host) {
        return None;
    }
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("bedrock-runtime"));
    labels.next()?;
    labels.next().filter(|region| is_region(region))
}

/// Whether a host is Amazon's: the keys of the usual variables are sent only there.
pub(crate) fn is_own_host(host: &str) -> bool {
    host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn")
}

/// Whether a text can be a region: it becomes part of a host name and of the signed text.
pub(crate) fn is_region(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.contains('-') && text.bytes().all(inner)
}
