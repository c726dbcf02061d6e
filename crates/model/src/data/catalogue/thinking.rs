//! The thinking setting of a request: what the host requested, in a form the model supports
//! (docs/rules/wire/anthropic.md#thinking-options).
//!
//! It must never request what the model refuses by its catalogue entry. Where nothing is known, the requested setting is
//! sent unchanged.

use serde::{Deserialize, Serialize};

use crate::{ThinkingConfig, ThinkingEffort, ThinkingMode};

/// The thinking settings of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThinkingCapability {
    /// It supports `adaptive`: the model decides.
    #[serde(default)]
    pub adaptive: bool,
    /// It supports a budget in tokens.
    #[serde(default)]
    pub budget: bool,
    /// The efforts it supports, lowest first; empty where it supports none.
    #[serde(default)]
    pub efforts: Vec<ThinkingEffort>,
    /// Whether thinking can be switched off.
    #[serde(default = "may_be_disabled")]
    pub can_disable: bool,
}

/// The default where the host sets neither a budget nor an effort.
const USUAL_EFFORT: ThinkingEffort = ThinkingEffort::Medium;

fn may_be_disabled() -> bool {
    true
}

/// The setting for a model with `capability` and an answer capped at `max_tokens`; `None` to send none.
pub(super) fn fit(
    requested: &ThinkingConfig,
    capability: Option<&ThinkingCapability>,
    max_tokens: u64,
) -> Option<ThinkingConfig> {
    let fitted = match capability {
        None => requested.clone(),
        Some(capability) => by_capability(requested, capability)?,
    };
    let by_budget = fitted.mode == Some(ThinkingMode::Enabled)
        || (fitted.mode.is_none() && fitted.budget_tokens.is_some());
    if !by_budget {
        return Some(fitted);
    }
    // A budget is a part of the answer's tokens, and must leave some for the answer.
    let most = max_tokens.saturating_sub(1);
    if most < ThinkingEffort::LEAST_BUDGET {
        return None;
    }
    let budget_tokens =
        fitted.budget_tokens.map(|budget| budget.clamp(ThinkingEffort::LEAST_BUDGET, most));
    Some(ThinkingConfig { budget_tokens, ..fitted })
}

fn by_capability(
    requested: &ThinkingConfig,
    capability: &ThinkingCapability,
) -> Option<ThinkingConfig> {
    let off = requested.mode == Some(ThinkingMode::Disabled)
        || (requested.mode.is_none() && requested.effort == Some(ThinkingEffort::None));
    if off {
        return capability.can_disable.then(|| requested.clone());
    }
    let effort = requested.effort.and_then(|effort| nearest(effort, &capability.efforts));
    let adaptive =
        ThinkingConfig { mode: Some(ThinkingMode::Adaptive), budget_tokens: None, effort };
    let budget = || ThinkingConfig {
        mode: Some(ThinkingMode::Enabled),
        budget_tokens: Some(
            requested
                .budget_tokens
                .unwrap_or_else(|| requested.effort.unwrap_or(USUAL_EFFORT).budget()),
        ),
        effort,
    };
    let budget_requested = requested.mode == Some(ThinkingMode::Enabled)
        || (requested.mode.is_none() && requested.budget_tokens.is_some());
    let effort_open = requested.mode.is_none() && requested.budget_tokens.is_none();
    Some(match (capability.budget, capability.adaptive) {
        (true, _) if budget_requested => budget(),
        (false, true) if budget_requested => adaptive,
        (true, false) if !effort_open || (requested.effort.is_some() && effort.is_none()) => {
            budget()
        }
        (_, true) if !effort_open => adaptive,
        // An API with efforts only: its wire converts a budget into one.
        _ => ThinkingConfig { effort, ..requested.clone() },
    })
}

/// The highest supported effort that is not above the requested one, else the lowest that thinks.
fn nearest(requested: ThinkingEffort, on_offer: &[ThinkingEffort]) -> Option<ThinkingEffort> {
    let thinks = || on_offer.iter().copied().filter(|effort| *effort != ThinkingEffort::None);
    thinks().filter(|effort| *effort <= requested).max().or_else(|| thinks().min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThinkingEffort as E;
    use ThinkingMode as M;

    fn config(mode: Option<M>, budget_tokens: Option<u64>, effort: Option<E>) -> ThinkingConfig {
        ThinkingConfig { mode, budget_tokens, effort }
    }

    fn capability(adaptive: bool, budget: bool, efforts: &[E]) -> ThinkingCapability {
        ThinkingCapability { adaptive, budget, efforts: efforts.to_vec(), can_disable: true }
    }

    #[test]
    fn a_setting_is_converted_to_the_form_the_model_supports() {
        let new = capability(true, false, &[E::Low, E::Medium, E::High, E::Max]);
        let old = capability(false, true, &[]);
        let both = capability(true, true, &[E::Low, E::High]);
        let efforts = capability(false, false, &[E::None, E::Low, E::High]);
        let enabled = config(Some(M::Enabled), Some(4_096), None);
        let adaptive = config(Some(M::Adaptive), None, Some(E::Xhigh));
        let effort = config(None, None, Some(E::Medium));
        let fit = |requested: &ThinkingConfig, capability| fit(requested, Some(capability), 20_000);
        assert_eq!(fit(&enabled, &new), Some(config(Some(M::Adaptive), None, None)));
        assert_eq!(fit(&enabled, &old), Some(enabled.clone()));
        assert_eq!(fit(&enabled, &both), Some(enabled.clone()));
        assert_eq!(fit(&enabled, &efforts), Some(enabled.clone()));
        assert_eq!(fit(&adaptive, &new), Some(config(Some(M::Adaptive), None, Some(E::High))));
        assert_eq!(fit(&adaptive, &old), Some(config(Some(M::Enabled), Some(19_999), None)));
        assert_eq!(fit(&adaptive, &both), Some(config(Some(M::Adaptive), None, Some(E::High))));
        assert_eq!(fit(&effort, &new), Some(effort.clone()));
        assert_eq!(fit(&effort, &old), Some(config(Some(M::Enabled), Some(8_192), None)));
        assert_eq!(fit(&effort, &efforts), Some(config(None, None, Some(E::Low))));
    }

    #[test]
    fn thinking_is_switched_off_only_where_the_model_allows_it() {
        let off = config(Some(M::Disabled), None, None);
        let can = capability(true, false, &[]);
        let cannot = ThinkingCapability { can_disable: false, ..can.clone() };
        assert_eq!(fit(&off, Some(&can), 9_999), Some(off.clone()));
        assert_eq!(fit(&off, Some(&cannot), 9_999), None);
        assert_eq!(fit(&config(None, None, Some(E::None)), Some(&cannot), 9_999), None);
    }

    #[test]
    fn a_budget_leaves_room_for_the_answer_of_an_unknown_model_too() {
        let requested = config(Some(M::Enabled), Some(10_000), None);
        assert_eq!(fit(&requested, None, 4_000), Some(config(Some(M::Enabled), Some(3_999), None)));
        assert_eq!(fit(&requested, None, 1_024), None);
        assert_eq!(
            fit(&config(None, Some(1), None), None, 4_000),
            Some(config(None, Some(1_024), None))
        );
        let adaptive = config(Some(M::Adaptive), None, None);
        assert_eq!(fit(&adaptive, None, 100), Some(adaptive.clone()));
    }
}
