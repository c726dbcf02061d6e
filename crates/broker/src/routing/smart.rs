//! Whether the answer of the host's smart route is taken, or the given target (docs/rules/routing.md#smart-routing).

use serde::{Deserialize, Serialize};

use super::target::{RoutingTarget, Target};

/// From this confidence on an answer is taken.
const CONFIDENT: f64 = 0.5;

/// What the host's function answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct SmartAnswer {
    /// A turn.
    #[serde(default)]
    pub thread: Option<String>,
    /// A session.
    #[serde(default)]
    pub session: Option<String>,
    /// A persona.
    #[serde(default)]
    pub persona: Option<String>,
    /// How sure it is, 0 to 1.
    pub confidence: f64,
}

/// Why the given target is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SmartFallback {
    /// The function threw or rejected.
    Threw,
    /// It did not answer in time.
    Timeout,
    /// It has no answer.
    NoAnswer,
    /// Its answer names no target, or several, or its confidence is no number from 0 to 1.
    Invalid,
    /// It is not sure enough.
    LowConfidence,
    /// What it names does not exist.
    Unknown,
}

/// The target that an answer names. `exists`: whether the ledger has what it names.
///
/// # Errors
///
/// Why the given target is taken instead.
pub fn smart_route(
    answer: Result<Option<SmartAnswer>, SmartFallback>,
    least_confidence: Option<f64>,
    exists: impl FnOnce(Target<'_>) -> bool,
) -> Result<RoutingTarget, SmartFallback> {
    let SmartAnswer { thread, session, persona, confidence } =
        answer?.ok_or(SmartFallback::NoAnswer)?;
    let named = RoutingTarget { thread, session, persona, ..RoutingTarget::default() };
    let target = named.target().map_err(|_| SmartFallback::Invalid)?;
    if !(0.0..=1.0).contains(&confidence) {
        return Err(SmartFallback::Invalid);
    }
    if confidence < least_confidence.unwrap_or(CONFIDENT) {
        return Err(SmartFallback::LowConfidence);
    }
    if !exists(target) {
        return Err(SmartFallback::Unknown);
    }
    Ok(named)
}
