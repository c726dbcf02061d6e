//! Whether a lane admits calls after a refusal, and whether the refusal shows a limit.
//!
//! It must never read a clock.

use super::pace::Pace;

/// A refusal is a lone one if this many of the calls under way with it were served for each refused one.
const LONE: u32 = 4;

/// Whether a lane admits calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// As many as the limits allow.
    Open,
    /// None before this time.
    Closed(i64),
    /// After a refusal: this many may be unanswered at the same time.
    Probing(u32),
}

/// The outcomes of the calls that were under way when one was refused. If a limit is reached, those are refused as well.
#[derive(Debug)]
pub(super) struct Cohort {
    pub(super) served: u32,
    pub(super) refused: u32,
    /// How many could be unanswered at the same time.
    pub(super) width: u32,
    /// The pace until then.
    pub(super) pace: Pace,
}

impl Cohort {
    /// Whether the refusal shows no limit: most of the others were served.
    pub(super) fn is_lone(&self) -> bool {
        self.served >= self.refused.saturating_mul(LONE)
    }
}
