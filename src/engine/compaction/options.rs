//! What a host says of compaction and of the window guard (docs/rules/compaction.md#window-guard).
//!
//! It must never keep a value that cannot be meant: what is wrong is refused with its path.

use serde::Deserialize;
use serde_json::value::RawValue;

use base::error::{EngineError, ErrorCode};
use model::{AssembledContext, InputError, ModelInfo, typed};
use turn::compact::Guard;

/// A way to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// A model writes down what the oldest turns came to.
    Summary,
    /// The oldest turns are left out; no model is asked.
    SlidingWindow,
    /// All turns before the running one are left out.
    HardClear,
    /// Tool results are cut short, in memory only.
    ToolResultTruncation,
}

impl Strategy {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::SlidingWindow => "sliding_window",
            Self::HardClear => "hard_clear",
            Self::ToolResultTruncation => "tool_result_truncation",
        }
    }
}

/// A known set of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The last 10 messages stay; the summary has no sections.
    Myclaw,
}

/// How a full window is made room in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CompactionOptions {
    /// What is tried, in order.
    pub strategies: Vec<Strategy>,
    /// The summariser's provider; the run's where `None`.
    pub provider: Option<String>,
    /// The summariser's model; the run's where `None`.
    pub model: Option<String>,
    /// What the summariser should mind.
    pub instructions: Option<String>,
    /// Compactions after a refused prompt, at most 3.
    pub max_overflow_recoveries: u32,
    /// Limit of one compaction in milliseconds.
    pub timeout_ms: u64,
    /// A known set.
    pub preset: Option<Preset>,
    /// Whether the model gets a tool that finds what a compaction left out.
    pub recall: bool,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            strategies: vec![Strategy::Summary],
            provider: None,
            model: None,
            instructions: None,
            max_overflow_recoveries: 1,
            timeout_ms: 300_000,
            preset: None,
            recall: false,
        }
    }
}

impl CompactionOptions {
    /// Reads `compaction` of the engine's options: `false` is `None`, left out is the default.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
        let options = match raw.map(RawValue::get) {
            None | Some("null" | "true") => return Ok(Some(Self::default())),
            Some("false") => return Ok(None),
            Some(_) => raw.map_or_else(|| Ok(Self::default()), |raw| typed("compaction", raw))?,
        };
        let wrong = |field: &str, message: &str| {
            Err(InputError { path: format!("compaction.{field}"), message: message.to_owned() })
        };
        if options.strategies.is_empty() {
            return wrong("strategies", "is empty; pass `compaction: false` for none");
        }
        if options.max_overflow_recoveries > 3 {
            return wrong(
                "maxOverflowRecoveries",
                "is over 3; a prompt that still does not fit never will",
            );
        }
        if options.timeout_ms == 0 {
            return wrong("timeoutMs", "`0` leaves no time; pass at least 1 or leave it out");
        }
        if options.provider.is_some() && options.model.is_none() {
            return wrong("model", "is missing; a provider of its own needs a model of its own");
        }
        Ok(Some(options))
    }

    /// Refuses what needs a ledger where there is none.
    ///
    /// # Errors
    /// `compaction.recall`.
    pub fn without_ledger(&self) -> Result<(), InputError> {
        if !self.recall {
            return Ok(());
        }
        Err(InputError {
            path: "compaction.recall".to_owned(),
            message:
                "has nothing to search without a ledger; pass `ledger: { path }`, or leave it out"
                    .to_owned(),
        })
    }
}

/// When a run is warned of its window, or refused for it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContextGuard {
    /// The share of the window from which a run is warned, 0 to 1.
    pub warn_threshold: f64,
    /// The most tokens a prompt may have, whatever the window.
    pub hard_limit: Option<u64>,
    /// The least room that must be left for the answer.
    pub min_available: u64,
    /// The least window a run is begun with.
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
    pub fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
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

    /// Refuses a window that is too small to begin with.
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
