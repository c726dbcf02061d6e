//! The thinking setting of this API: a budget in tokens (up to 2.5) or a level (since 3).
//!
//! The two are never sent together, because the API refuses that. It must never decide whether a model thinks.

use model::{ThinkingConfig, ThinkingEffort, ThinkingMode};

/// Models with a budget, by the prefix of their name, and the maximum of each; all others have levels.
const BUDGETS: &[(&str, u64)] =
    &[("gemini-2.5-pro", 32_768), ("gemini-2", 24_576), ("gemini-1", 24_576)];

/// `thinkingConfig`, as JSON text.
pub(super) fn config(model: &str, requested: &ThinkingConfig) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let most = BUDGETS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, most)| *most);
    let off = requested.mode == Some(ThinkingMode::Disabled)
        || (requested.mode.is_none() && requested.effort == Some(ThinkingEffort::None));
    if off {
        return match most {
            Some(_) => r#"{"includeThoughts":false,"thinkingBudget":0}"#.to_owned(),
            // A model with levels always thinks; thinking can only be hidden.
            None => r#"{"includeThoughts":false}"#.to_owned(),
        };
    }
    match most {
        Some(most) => {
            match requested.budget_tokens.or_else(|| requested.effort.map(ThinkingEffort::budget)) {
                Some(budget) => {
                    format!(r#"{{"includeThoughts":true,"thinkingBudget":{}}}"#, budget.min(most))
                }
                // The model decides.
                None => r#"{"includeThoughts":true,"thinkingBudget":-1}"#.to_owned(),
            }
        }
        None => {
            match requested
                .effort
                .or(requested.budget_tokens.map(ThinkingEffort::of_budget))
                .map(level_of)
            {
                Some(level) => format!(r#"{{"includeThoughts":true,"thinkingLevel":"{level}"}}"#),
                None => r#"{"includeThoughts":true}"#.to_owned(),
            }
        }
    }
}

fn level_of(effort: ThinkingEffort) -> &'static str {
    match effort {
        ThinkingEffort::None | ThinkingEffort::Minimal => "MINIMAL",
        ThinkingEffort::Low => "LOW",
        ThinkingEffort::Medium => "MEDIUM",
        ThinkingEffort::High | ThinkingEffort::Xhigh | ThinkingEffort::Max => "HIGH",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThinkingEffort as E;
    use ThinkingMode as M;

    fn requested(mode: Option<M>, budget_tokens: Option<u64>, effort: Option<E>) -> ThinkingConfig {
        ThinkingConfig { mode, budget_tokens, effort }
    }

    #[test]
    fn models_with_budgets_get_a_budget_and_models_with_levels_a_level() {
        let cases = [
            (requested(Some(M::Enabled), Some(4_096), None), 4_096, "MEDIUM"),
            (requested(None, Some(1_024), None), 1_024, "LOW"),
            (requested(None, None, Some(E::Minimal)), 1_024, "MINIMAL"),
            (requested(None, None, Some(E::Low)), 2_048, "LOW"),
            (requested(None, None, Some(E::Medium)), 8_192, "MEDIUM"),
            (requested(Some(M::Enabled), Some(90_000), Some(E::Max)), 24_576, "HIGH"),
        ];
        for (requested, budget, level) in cases {
            assert_eq!(
                config("gemini-2.5-flash", &requested),
                format!(r#"{{"includeThoughts":true,"thinkingBudget":{budget}}}"#)
            );
            assert_eq!(
                config("models/gemini-3-pro-preview", &requested),
                format!(r#"{{"includeThoughts":true,"thinkingLevel":"{level}"}}"#)
            );
        }
        let most = requested(None, None, Some(E::Max));
        assert!(config("gemini-2.5-pro", &most).ends_with(":32768}"));
    }

    #[test]
    fn an_adaptive_model_gets_no_budget() {
        let adaptive = requested(Some(M::Adaptive), None, None);
        assert_eq!(
            config("gemini-2.5-pro", &adaptive),
            r#"{"includeThoughts":true,"thinkingBudget":-1}"#
        );
        assert_eq!(config("gemini-flash-latest", &adaptive), r#"{"includeThoughts":true}"#);
    }

    #[test]
    fn thinking_is_switched_off_by_a_budget_of_zero() {
        for off in
            [requested(Some(M::Disabled), Some(1), None), requested(None, None, Some(E::None))]
        {
            let by_budget = r#"{"includeThoughts":false,"thinkingBudget":0}"#;
            assert_eq!(config("gemini-2.5-flash", &off), by_budget);
            assert_eq!(config("gemini-3-flash", &off), r#"{"includeThoughts":false}"#);
        }
    }
}
