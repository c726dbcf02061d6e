//! The effort of a thinking configuration, in the API's names.
//!
//! It must never write a field.

use model::{ThinkingConfig, ThinkingEffort, ThinkingMode};

/// The effort of a configuration with an effort or a budget.
pub(super) fn effort_of(thinking: &ThinkingConfig) -> Option<&'static str> {
    let of_budget = (thinking.mode == Some(ThinkingMode::Enabled))
        .then(|| thinking.budget_tokens.map(ThinkingEffort::of_budget))
        .flatten();
    thinking.effort.or(of_budget).map(ThinkingEffort::as_str)
}
