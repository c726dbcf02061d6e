//! Whether a failed attempt is retried with the same profile, and after what delay (docs/rules/failover.md#same-profile-retry).
//!
//! Pure arithmetic: the caller passes the time and the random number. It must never wait.

use std::borrow::Cow;
use std::time::Duration;

use model::{Failure, FailureKind};

/// Retries after the first attempt, where the host sets no number.
pub(crate) const RETRIES: u32 = 2;
/// The first delay; doubled each time.
const BASE: Duration = Duration::from_millis(500);
/// The longest delay without a provider's request.
const CAP: Duration = Duration::from_secs(8);
/// The longest delay that a provider may request; more counts as a rate limit.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A refused prompt that fills more of the window than this, in percent, is presumed to be too long.
const NEARLY_FULL: u64 = 80;

/// The input of the decision beside the failure.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Failed attempts of this call so far, this one included.
    pub(crate) failures: u32,
    /// The most retries after the first attempt.
    pub(crate) retries: u32,
    /// Whether a token of the current assistant message was emitted: two answers are never spliced (docs/rules/turns-and-streams.md#retry-visibility).
    pub(crate) emitted: bool,
    /// Time left of the run.
    pub(crate) remaining: Duration,
    /// A number in 0..1, for the jitter.
    pub(crate) dice: f64,
}

/// The failure as it is reported and handled: one with a longer wait than the maximum is a rate limit, whatever failed
/// (docs/rules/failover.md#same-profile-retry).
pub fn judged(failure: &Failure) -> Cow<'_, Failure> {
    if is_transient(failure.kind) && failure.retry_after.is_some_and(|wait| wait > MAX_RETRY_AFTER)
    {
        return Cow::Owned(Failure { kind: FailureKind::RateLimit, ..failure.clone() });
    }
    Cow::Borrowed(failure)
}

/// Makes an overflow of a 400 or 422 without a reason, where the estimated `prompt` nearly fills the `window`, both in tokens.
pub fn presume_overflow(failure: &mut Failure, prompt: u64, window: u64) {
    let has_reason = failure.kind != FailureKind::Unknown;
    let is_refused = matches!(failure.status, Some(400 | 422));
    if !has_reason && is_refused && prompt.saturating_mul(100) > window.saturating_mul(NEARLY_FULL)
    {
        failure.kind = FailureKind::ContextOverflow;
    }
}

fn is_transient(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Timeout
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::Network => true,
        FailureKind::ContextOverflow
        | FailureKind::RateLimit
        | FailureKind::Billing
        | FailureKind::Auth
        | FailureKind::AuthPermanent
        | FailureKind::ModelNotFound
        | FailureKind::Format
        | FailureKind::Refusal
        | FailureKind::BudgetExceeded
        | FailureKind::PolicyMaxTokens
        | FailureKind::OutputInvalid
        | FailureKind::Aborted
        | FailureKind::Storage
        | FailureKind::Unknown => false,
    }
}

/// The delay before the next attempt with the same profile, or `None` for no retry: see [`super::fallback`].
pub(crate) fn delay(failure: &Failure, facts: Facts) -> Option<Duration> {
    // The provider's retry hint overrides the rule for its status (docs/rules/failover.md#retry-hints).
    let worth_it = failure.should_retry.unwrap_or_else(|| is_transient(failure.kind));
    if facts.emitted || facts.failures > facts.retries || !worth_it {
        return None;
    }
    let delay = match failure.retry_after {
        Some(wait) if wait > MAX_RETRY_AFTER => return None,
        Some(wait) => wait,
        None => {
            let doubled =
                BASE.saturating_mul(1 << facts.failures.saturating_sub(1).min(8)).min(CAP);
            doubled.mul_f64(0.8 + 0.4 * facts.dice.clamp(0.0, 1.0))
        }
    };
    (delay < facts.remaining).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(failures: u32) -> Facts {
        Facts {
            failures,
            retries: RETRIES,
            emitted: false,
            remaining: Duration::from_secs(600),
            dice: 0.5,
        }
    }

    fn failure(kind: FailureKind) -> Failure {
        Failure::new(kind, "", "x")
    }

    #[test]
    fn transient_failures_are_retried_twice_with_doubling_delays() {
        let server = failure(FailureKind::ServerError);
        assert_eq!(delay(&server, facts(1)), Some(Duration::from_millis(500)));
        assert_eq!(delay(&server, facts(2)), Some(Duration::from_secs(1)));
        assert_eq!(delay(&server, facts(3)), None);
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        let server = failure(FailureKind::Network);
        assert_eq!(
            delay(&server, Facts { dice: 0.0, ..facts(1) }),
            Some(Duration::from_millis(400))
        );
        assert_eq!(
            delay(&server, Facts { dice: 1.0, ..facts(1) }),
            Some(Duration::from_millis(600))
        );
    }

    #[test]
    fn nothing_is_retried_after_a_token_was_emitted() {
        assert_eq!(
            delay(&failure(FailureKind::Network), Facts { emitted: true, ..facts(1) }),
            None
        );
    }

    #[test]
    fn the_provider_decides_the_wait_up_to_a_minute() {
        let mut busy = failure(FailureKind::Overloaded);
        busy.retry_after = Some(Duration::from_secs(7));
        assert_eq!(delay(&busy, facts(1)), Some(Duration::from_secs(7)));
        busy.retry_after = Some(Duration::from_secs(61));
        assert_eq!(delay(&busy, facts(1)), None);
        // For another profile: see `fallback`.
        let limited = Failure { kind: FailureKind::RateLimit, retry_after: Some(BASE), ..busy };
        assert_eq!(delay(&limited, facts(1)), None);
    }

    #[test]
    fn a_wait_longer_than_the_run_is_not_begun() {
        let server = failure(FailureKind::ServerError);
        assert_eq!(
            delay(&server, Facts { remaining: Duration::from_millis(400), ..facts(1) }),
            None
        );
    }

    #[test]
    fn a_wait_of_more_than_a_minute_is_a_rate_limit() {
        let mut server = failure(FailureKind::ServerError);
        server.retry_after = Some(Duration::from_secs(60));
        assert_eq!(judged(&server).kind, FailureKind::ServerError);
        server.retry_after = Some(Duration::from_secs(61));
        assert_eq!(judged(&server).kind, FailureKind::RateLimit);
        assert_eq!(delay(&judged(&server), facts(1)), None);
        let billing = Failure { kind: FailureKind::Billing, ..server };
        assert_eq!(judged(&billing).kind, FailureKind::Billing);
    }

    #[test]
    fn the_provider_can_request_a_retry() {
        let mut wrong = failure(FailureKind::Format);
        wrong.should_retry = Some(true);
        assert_eq!(delay(&wrong, facts(1)), Some(Duration::from_millis(500)));
        assert_eq!(delay(&wrong, facts(3)), None);
        assert_eq!(delay(&wrong, Facts { emitted: true, ..facts(1) }), None);
    }

    #[test]
    fn the_provider_can_forbid_a_retry() {
        let mut server = failure(FailureKind::ServerError);
        server.should_retry = Some(false);
        assert_eq!(delay(&server, facts(1)), None);
    }

    fn presumed(kind: FailureKind, status: Option<u16>, prompt: u64) -> FailureKind {
        let mut failure = Failure { status, ..Failure::new(kind, "", "it failed") };
        presume_overflow(&mut failure, prompt, 1_000);
        failure.kind
    }

    #[test]
    fn only_a_refusal_without_a_reason_of_a_prompt_that_nearly_fills_the_window_is_an_overflow() {
        use FailureKind::{ContextOverflow, Format, Unknown};
        assert_eq!(presumed(Unknown, Some(400), 801), ContextOverflow);
        assert_eq!(presumed(Unknown, Some(422), 801), ContextOverflow);
        assert_eq!(presumed(Unknown, Some(400), 800), Unknown);
        assert_eq!(presumed(Unknown, Some(418), 900), Unknown);
        assert_eq!(presumed(Unknown, None, 900), Unknown);
        assert_eq!(presumed(Format, Some(400), 900), Format);
        assert_eq!(presumed(Unknown, Some(400), u64::MAX), ContextOverflow);
    }
}
