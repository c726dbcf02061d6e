//! Plans: what a planner decides about a turn before its model is called, and the record of a decision.
//!
//! Plain data. It must never decide: the heuristic is in `turn`, a function is the host's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::data::input::field::{InputError, from_json, typed};

/// The most entries of a keyword map: each message is compared with all of them.
const MAX_KEYWORDS: usize = 1_000;
/// The most calls of one plan.
const MAX_CALLS: usize = 128;
/// The provider of the messages and attempts that a planner makes.
pub const PLANNER: &str = "planner";
/// The API, and the stop reason, of a message that a planner wrote instead of a model.
pub const PLANNED: &str = "planned";

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PlannerKind {
    /// The engine, by the words of the message.
    Heuristic,
    /// A function of the host.
    Function,
}

impl PlannerKind {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heuristic => "heuristic",
            Self::Function => "function",
        }
    }
}

/// The planner of a run, as its context names it and the ledger stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannerSettings {
    /// Who decides.
    pub plan: PlannerKind,
    /// What words stand for: a tool's name, or what is before `__` in the names of a server's tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keywords: BTreeMap<String, String>,
    /// Whether it decides again after each round of tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replan: bool,
}

impl PlannerSettings {
    /// Reads the planner of a context or of an engine.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(path: &str, raw: Option<&RawValue>) -> Result<Option<Box<Self>>, InputError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(None) };
        let settings: Self = typed(path, raw)?;
        let keywords = &settings.keywords;
        if settings.plan == PlannerKind::Function && !keywords.is_empty() {
            let message = "belongs to `plan: 'heuristic'`; a function has its own";
            return Err(InputError::new(format!("{path}.keywords"), message));
        }
        if keywords.len() > MAX_KEYWORDS {
            let message =
                format!("has {} words; at most {MAX_KEYWORDS} are allowed", keywords.len());
            return Err(InputError::new(format!("{path}.keywords"), message));
        }
        if keywords.iter().any(|(word, tool)| word.trim().is_empty() || tool.is_empty()) {
            let message = "has an empty word or tool; pass words and what they stand for";
            return Err(InputError::new(format!("{path}.keywords"), message));
        }
        Ok(Some(Box::new(settings)))
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// The model is called.
    Direct,
    /// Tools run first.
    Tools,
    /// The turn ends with a question to the user.
    Clarify,
}

/// A call that a plan makes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedCall {
    /// The tool.
    pub tool_name: String,
    /// The arguments: JSON.
    #[serde(default = "no_params")]
    pub params: Box<RawValue>,
}

fn no_params() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

/// A decision about a turn.
#[derive(Debug, Clone)]
pub enum Plan {
    /// The model is called.
    Direct {
        /// Why.
        reason: String,
    },
    /// These calls run first.
    Tools {
        /// The calls, in order.
        calls: Vec<PlannedCall>,
        /// Why.
        reason: String,
    },
    /// The turn ends with this question.
    Clarify {
        /// What the user reads.
        question: String,
        /// Why.
        reason: String,
    },
}

/// The plan of a host's function as it is returned.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReturnedPlan {
    kind: PlanKind,
    #[serde(default)]
    calls: Option<Vec<PlannedCall>>,
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    reason: String,
}

impl Plan {
    /// A plan that calls the model.
    #[must_use]
    pub fn direct(reason: impl Into<String>) -> Self {
        Self::Direct { reason: reason.into() }
    }

    /// Reads the plan of a host's function.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(json: &str) -> Result<Self, String> {
        let returned: ReturnedPlan = from_json(json).map_err(|error| error.to_string())?;
        let ReturnedPlan { kind, calls, question, reason } = returned;
        let has_others = match kind {
            PlanKind::Direct => calls.is_some() || question.is_some(),
            PlanKind::Tools => question.is_some(),
            PlanKind::Clarify => calls.is_some(),
        };
        if has_others {
            return Err("it has fields of another kind of plan".to_owned());
        }
        match kind {
            PlanKind::Direct => Ok(Self::Direct { reason }),
            PlanKind::Clarify => match question.filter(|question| !question.trim().is_empty()) {
                Some(question) => Ok(Self::Clarify { question, reason }),
                None => Err("`question` is empty".to_owned()),
            },
            PlanKind::Tools => {
                let calls = calls.unwrap_or_default();
                if calls.is_empty() {
                    return Err("`calls` is empty; return `{ kind: 'direct' }`".to_owned());
                }
                if calls.len() > MAX_CALLS {
                    let count = calls.len();
                    return Err(format!(
                        "`calls` has {count} calls; at most {MAX_CALLS} are allowed"
                    ));
                }
                if let Some(at) = calls.iter().position(|it| !it.params.get().starts_with('{')) {
                    return Err(format!("`calls[{at}].params` is not an object"));
                }
                Ok(Self::Tools { calls, reason })
            }
        }
    }

    /// What it decides.
    #[must_use]
    pub fn kind(&self) -> PlanKind {
        match self {
            Self::Direct { .. } => PlanKind::Direct,
            Self::Tools { .. } => PlanKind::Tools,
            Self::Clarify { .. } => PlanKind::Clarify,
        }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Direct { reason } | Self::Tools { reason, .. } | Self::Clarify { reason, .. } => {
                reason
            }
        }
    }
}

/// A decision of a planner, as it is in the result and, with its attempt, in the ledger's `attempts_json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// What was decided.
    pub kind: PlanKind,
    /// Why, as the planner says.
    pub reason: String,
    /// The hash of all that the planner decides by: the same input and settings have the same hash.
    pub input_hash: String,
    /// Who decided.
    pub planner: PlannerKind,
    /// The assistant message with the planned calls, or the question; absent for `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{Plan, PlannerSettings};

    fn settings(json: &str) -> Result<Option<Box<PlannerSettings>>, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        PlannerSettings::parse("planner", Some(&raw)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_planner_is_named_by_its_path() {
        assert_eq!(settings("null"), Ok(None));
        for (json, begins) in [
            ("{\"plan\":\"magic\"}", "`planner.plan`: `magic` is not known, expected"),
            ("{\"plan\":\"heuristic\",\"words\":{}}", "`planner.words`"),
            (
                "{\"plan\":\"heuristic\",\"keywords\":{\" \":\"a\"}}",
                "`planner.keywords`: has an empty",
            ),
            (
                "{\"plan\":\"function\",\"keywords\":{\"a\":\"b\"}}",
                "`planner.keywords`: belongs to",
            ),
        ] {
            let error = settings(json).unwrap_err();
            assert!(error.starts_with(begins), "{error}");
        }
    }

    #[test]
    fn what_is_no_plan_says_why() {
        for (json, why) in [
            ("{\"kind\":\"tools\",\"calls\":[]}", "`calls` is empty; return `{ kind: 'direct' }`"),
            (
                "{\"kind\":\"tools\",\"calls\":[{\"toolName\":\"a\",\"params\":[1]}]}",
                "`calls[0].params` is not an object",
            ),
            ("{\"kind\":\"clarify\",\"question\":\" \"}", "`question` is empty"),
            ("{\"kind\":\"direct\",\"calls\":[]}", "it has fields of another kind of plan"),
        ] {
            assert_eq!(Plan::parse(json).unwrap_err(), why);
        }
        assert!(Plan::parse("{\"kind\":\"later\"}").is_err());
        assert!(Plan::parse("{\"kind\":\"tools\",\"calls\":[{\"toolName\":\"a\"}]}").is_ok());
    }
}
