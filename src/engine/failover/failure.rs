//! What a failed call means for its plan, its profile and the rate limits.
//!
//! It does what the plan decides. It must never go on after a token, or past the end of the caller's time.

use std::time::Duration;

use super::keyring::Keyring;
use crate::engine::limits::Governor;
use model::Failure;
use turn::fallback::Plan;

/// A call that has failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedCall<'a> {
    pub(crate) profile: Option<&'a str>,
    pub(crate) model_name: &'a str,
    pub(crate) failure: &'a Failure,
    /// Whether a token of its answer was emitted.
    pub(crate) emitted: bool,
    /// What is left of the caller's time.
    pub(crate) remaining: Duration,
}

/// After how long another call is made.
///
/// # Errors
/// The failure that the plan ends with.
pub(crate) async fn after_failure(
    keys: &Keyring,
    governor: &Governor,
    plan: &mut Plan,
    call: FailedCall<'_>,
) -> Result<Duration, Failure> {
    let FailedCall { profile, model_name, failure, emitted, remaining } = call;
    let first = plan.is_first_failure();
    if let Some(delay) = keys.retry(plan, failure, emitted, remaining) {
        return Ok(delay);
    }
    if let Some(id) = profile {
        if first && !emitted && keys.renews(id, failure.kind).await {
            return Ok(Duration::ZERO);
        }
        blame(keys, governor, id, model_name, failure).await;
    }
    keys.give_up_profile(plan, failure, emitted, remaining)?;
    Ok(Duration::ZERO)
}

/// A profile has failed with a model: it cools down, and the calls that wait for it choose anew.
pub(crate) async fn blame(
    keys: &Keyring,
    governor: &Governor,
    profile: &str,
    model_name: &str,
    failure: &Failure,
) {
    keys.failed(profile, model_name, failure).await;
    governor.dismiss(profile, model_name, failure.kind);
}
