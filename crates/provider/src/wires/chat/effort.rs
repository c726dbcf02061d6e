//! The effort of thinking that a configuration comes to, in the API's words.
//!
//! It must never write a field.

use model::{ThinkingConfig, ThinkingEffort, ThinkingMode};

/// The effort that a configuration comes to, where it names one or a budget.
pub(super) fn effort_of(thinking: &ThinkingConfig) -> Option<&'static str> {
    let of_budget = (thinking.mode == Some(ThinkingMode::Enabled))
        .then(|| thinking.budget_tokens.map(ThinkingEffort::of_budget))
        .flatten();
    thinking.effort.or(of_budget).map(ThinkingEffort::as_str)
}
