//! What becomes of a message whose turn has ended (docs/rules/queue.md#retry).

use model::{FailedReason, FailureKind};

/// The first delay before another try; doubled each time.
const BASE: i64 = 500;
/// The longest delay, where the provider requests none.
const LONGEST: i64 = 10_000;
/// So many failures make a message poisoned.
const POISONED: u32 = 7;

/// How a turn has ended, for the messages it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// It moved the session's pointer: completed, aborted, or failed with something in it.
    Moved,
    /// The user aborted it before anything was in it.
    Aborted,
    /// It failed, and nothing of it is in the session.
    Failed {
        /// Why.
        kind: FailureKind,
        /// Whether another try may succeed.
        is_retryable: bool,
        /// A token was delivered, or a tool began: another try would repeat it.
        has_effect: bool,
        /// The wait that the provider requests, in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// Its process ended after a tool began, and it cannot be resumed.
    Interrupted,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemEnd {
    /// It is delivered.
    Delivered,
    /// It is tried again.
    Pending {
        /// How many turns were tried for it.
        tries: u32,
        /// How many of them failed without being the provider's trouble.
        failures: u32,
        /// When, in Unix milliseconds.
        not_before: i64,
    },
    /// It has failed.
    Failed(FailedReason),
}

/// What becomes of a message of a turn that has ended. `tries` and `failures` are those before the turn.
#[must_use]
pub fn after_turn(tries: u32, failures: u32, end: &TurnEnd, now: i64) -> ItemEnd {
    let (kind, retry_after_ms) = match *end {
        TurnEnd::Moved | TurnEnd::Aborted => return ItemEnd::Delivered,
        TurnEnd::Interrupted => return ItemEnd::Failed(FailedReason::Interrupted),
        TurnEnd::Failed { is_retryable, has_effect, .. } if !is_retryable || has_effect => {
            return ItemEnd::Failed(FailedReason::RunFailed);
        }
        TurnEnd::Failed { kind, retry_after_ms, .. } => (kind, retry_after_ms),
    };
    let failures = failures.saturating_add(u32::from(!is_the_providers(kind)));
    if failures >= POISONED {
        return ItemEnd::Failed(FailedReason::Poisoned);
    }
    // 500 ms doubled five times is over the longest delay.
    let doubled = BASE << tries.min(5);
    let wait = doubled.min(LONGEST).max(retry_after_ms.unwrap_or_default());
    let not_before = now.saturating_add(wait);
    ItemEnd::Pending { tries: tries.saturating_add(1), failures, not_before }
}

/// Trouble of the provider passes, and is nobody's fault: it never counts.
fn is_the_providers(kind: FailureKind) -> bool {
    match kind {
        FailureKind::RateLimit
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::Network => true,
        FailureKind::Timeout
        | FailureKind::ContextOverflow
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
