//! The options `compaction` of an engine.
//!
//! It must never accept a wrong value: it is refused with its path.

use serde::Deserialize;
use serde_json::value::RawValue;

use model::{InputError, typed};

/// A compaction strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Strategy {
    /// A model summarises the oldest turns.
    Summary,
    /// The oldest turns are left out; no model is called.
    SlidingWindow,
    /// All turns before the running one are left out.
    HardClear,
    /// Tool results are truncated, in memory only.
    ToolResultTruncation,
}

impl Strategy {
    /// The name used on every surface.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::SlidingWindow => "sliding_window",
            Self::HardClear => "hard_clear",
            Self::ToolResultTruncation => "tool_result_truncation",
        }
    }
}

/// A preset of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Preset {
    /// The last 10 messages stay; the summary has no sections.
    Myclaw,
}

/// How a full window is compacted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct CompactionOptions {
    /// The strategies, in the order they are tried.
    pub strategies: Vec<Strategy>,
    /// The summariser's provider; the run's where `None`.
    pub provider: Option<String>,
    /// The summariser's model; the run's where `None`.
    pub model: Option<String>,
    /// Instructions for the summariser.
    pub instructions: Option<String>,
    /// The number of compactions after a refused prompt, at most 3.
    pub max_overflow_recoveries: u32,
    /// Limit of one compaction in milliseconds.
    pub timeout_ms: u64,
    /// A preset.
    pub preset: Option<Preset>,
    /// Whether the model gets a tool that searches the compacted turns.
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
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
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
            return wrong("model", "is missing; `provider` needs a `model`");
        }
        Ok(Some(options))
    }

    /// Refuses options that need a ledger where there is none.
    ///
    /// # Errors
    /// `compaction.recall`.
    pub(crate) fn without_ledger(&self) -> Result<(), InputError> {
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
