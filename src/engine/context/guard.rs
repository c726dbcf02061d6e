//! The window guard: the limits at which a run gets a warning for its window or is refused
//! (docs/rules/compaction.md#window-guard).
//!
//! It must never accept an invalid value: it is refused with its path.

use serde::Deserialize;
use serde_json::value::RawValue;

use base::error::{EngineError, ErrorCode};
use model::{AssembledContext, InputError, ModelInfo, typed};
use turn::compact::Guard;

/// The limits at which a run gets a warning for its window, or is refused.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ContextGuard {
    /// The share of the window from which a run gets a warning, 0 to 1.
    pub warn_threshold: f64,
    /// The most tokens of a prompt, independent of the window.
    pub hard_limit: Option<u64>,
    /// The fewest tokens that must remain for the answer.
    pub min_available: u64,
    /// The smallest window with which a run begins.
    pub min_window: u64,
}

impl Default for ContextGuard {
    fn default() -> Self {
        let Guard { warn_threshold, hard_limit, min_window, min_available } = Guard::default();
        Self { warn_threshold, hard_limit, min_available, min_window }
    }
}

impl ContextGuard {
    /// Reads `contextGuard` of the engine's options.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Self::default()) };
        let guard: Self = typed("contextGuard", raw)?;
        if !(guard.warn_threshold > 0.0 && guard.warn_threshold <= 1.0) {
            return Err(InputError {
                path: "contextGuard.warnThreshold".to_owned(),
                message: "is not a share; pass more than 0 and at most 1".to_owned(),
            });
        }
        Ok(guard)
    }

    pub(crate) fn rules(self) -> Guard {
        let Self { warn_threshold, hard_limit, min_available, min_window } = self;
        Guard { warn_threshold, hard_limit, min_window, min_available }
    }

    /// Refuses a window that is too small for a run.
    pub(crate) fn admits(
        self,
        context: &AssembledContext,
        model: &ModelInfo,
    ) -> Result<(), EngineError> {
        let given = context.token_budget.model_limit.unwrap_or(u64::MAX);
        let window = model.context_window.min(given);
        if window >= self.min_window {
            return Ok(());
        }
        let path = if given < model.context_window { "tokenBudget.modelLimit" } else { "model" };
        let least = self.min_window;
        Err(EngineError::at(
            ErrorCode::InvalidContext,
            InputError {
                path: path.to_owned(),
                message: format!(
                    "a window of `{window}` tokens is below `{least}`; take a larger one, or lower `contextGuard.minWindow`"
                ),
            },
        ))
    }
}
