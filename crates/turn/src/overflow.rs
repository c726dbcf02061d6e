//! Failures that are context overflows although the provider does not say so (docs/rules/failover.md#classification).
//!
//! It must never change a failure that has a reason.

use model::{Failure, FailureKind};

/// A refused prompt that fills more of the window than this, in percent, is presumed to be too long.
const NEARLY_FULL: u64 = 80;

/// Makes an overflow of a 400 or 422 without a reason, where the estimated `prompt` nearly fills the `window`, both in tokens.
pub fn presume(failure: &mut Failure, prompt: u64, window: u64) {
    let has_reason = failure.kind != FailureKind::Unknown;
    let is_refused = matches!(failure.status, Some(400 | 422));
    if !has_reason && is_refused && prompt.saturating_mul(100) > window.saturating_mul(NEARLY_FULL)
    {
        failure.kind = FailureKind::ContextOverflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presumed(kind: FailureKind, status: Option<u16>, prompt: u64) -> FailureKind {
        let mut failure = Failure { status, ..Failure::new(kind, "", "it failed") };
        presume(&mut failure, prompt, 1_000);
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
