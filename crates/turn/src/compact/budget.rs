//! How full a window may get, and the target of a compaction (docs/rules/compaction.md#proactive-trigger).
//!
//! Arithmetic on tokens. It must never mix an estimate with a provider's count: the caller names which it has.

/// What triggered a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The estimate exceeded the limit.
    ContextLimit,
    /// The provider refused the prompt.
    Overflow,
    /// The host requested it.
    Manual,
}

impl Trigger {
    /// The broker interface's name; `manual` is the engine's own.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContextLimit => "context_limit",
            Self::Overflow => "overflow_recovery",
            Self::Manual => "manual",
        }
    }
}

/// The limits of one model's window, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The whole window.
    pub window: u64,
    /// Reserved for the answer.
    pub reserve_response: u64,
    /// Reserved for the output of tools.
    pub reserve_tools: u64,
}

impl Budget {
    /// The part available for the prompt.
    pub fn available(self) -> u64 {
        self.window.saturating_sub(self.reserve_response).saturating_sub(self.reserve_tools)
    }

    /// A prompt with a larger estimate is compacted before it is sent.
    pub fn limit(self) -> u64 {
        share(self.window, 85).min(self.available())
    }

    /// The target of a compaction.
    pub fn target(self, trigger: Trigger) -> u64 {
        match trigger {
            Trigger::ContextLimit | Trigger::Manual => share(self.available(), 60),
            Trigger::Overflow => share(self.available(), 40),
        }
    }
}

/// A percentage of tokens.
pub fn share(tokens: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(tokens) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// The context guard (docs/rules/compaction.md#window-guard).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guard {
    /// The share of the window from which a run is warned.
    pub warn_threshold: f64,
    /// The maximum tokens of a prompt, whatever the window.
    pub hard_limit: Option<u64>,
    /// The smallest window with which a run starts.
    pub min_window: u64,
    /// The smallest number of tokens that must remain for the answer.
    pub min_available: u64,
}

impl Default for Guard {
    fn default() -> Self {
        Self { warn_threshold: 0.8, hard_limit: None, min_window: 16_000, min_available: 0 }
    }
}

/// A smaller window causes a warning.
const SMALL_WINDOW: u64 = 32_000;

/// The decision of the context guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardVerdict {
    /// The run starts without a warning.
    Fine,
    /// The window is small.
    SmallWindow,
    /// The prompt is near the limit.
    NearLimit,
    /// The window is too small to start.
    WindowTooSmall,
    /// The prompt is over the host's own limit, or leaves too little for the answer.
    OverLimit,
}

impl Guard {
    /// Checks a prompt of `estimate` tokens; the most severe finding wins.
    pub fn judge(&self, budget: Budget, estimate: u64) -> GuardVerdict {
        if budget.window < self.min_window {
            return GuardVerdict::WindowTooSmall;
        }
        let available = budget.window.saturating_sub(estimate);
        if self.hard_limit.is_some_and(|limit| estimate > limit) || available < self.min_available {
            return GuardVerdict::OverLimit;
        }
        #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^52")]
        let near = estimate as f64 > budget.window as f64 * self.warn_threshold;
        if near {
            GuardVerdict::NearLimit
        } else if budget.window < SMALL_WINDOW {
            GuardVerdict::SmallWindow
        } else {
            GuardVerdict::Fine
        }
    }
}
