//! Handles a failed call: in its plan, its profile and the rate limits.
//!
//! The plan decides. It must never continue after a token, or past the end of the caller's time.

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
    /// The remaining time of the caller.
    pub(crate) remaining: Duration,
}

/// The delay before another call.
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

/// Records that a profile has failed with a model: it cools down, and the calls that wait for it choose again.
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
