//! What a run may do at most: which tools it may call, how often, and how many tokens, steps and milliseconds it may take.
//!
//! It must never decide about a call: that is `turn`'s.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::data::input::field::{InputError, typed};

/// The most entries of a list of tools: each call is compared with all of them.
const MAX_NAMES: usize = 1_000;

/// Limits of a run. Of several (the engine's, an agent's, the run's own) each limit holds, so that the smaller one counts.
/// The values are the caller's; nothing is read from a server.
///
/// @example
/// ```ts
/// const policy: RunPolicy = { allowedTools: ['read', 'grep', 'github__*'], deniedTools: ['github__delete_*'], maxToolCalls: 20 }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunPolicy {
    /// The tools that may be called: names, in which `*` stands for any characters and `?` for one. Others are not offered to
    /// the model, and a call of one is answered with an error. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The tools that may not be called, of the same form; stronger than `allowedTools`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_tools: Option<Vec<String>>,
    /// The most calls of tools. Each call over it is answered with an error that says so, and the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The most characters of a tool's result that the model reads; the rest is cut from the middle. The ledger has the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result_chars: Option<u32>,
    /// The most tokens of all calls of the model, prompts and answers, as the provider counts them. Once they are used, the
    /// model is not called again: the run ends with an error of `detail.kind` `policy_max_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The most calls of the model, as `maxIterations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The most milliseconds of the run, as `timeoutMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The most tools that run at once, as `maxParallelTools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

impl RunPolicy {
    /// Reads one policy, or a list of several.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(path: &str, raw: Option<&RawValue>) -> Result<Vec<Self>, InputError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
        if raw.get().starts_with('[') {
            let policies: Vec<Self> = typed(path, raw)?;
            for (at, policy) in policies.iter().enumerate() {
                policy.check(&format!("{path}[{at}]"))?;
            }
            return Ok(policies);
        }
        let policy: Self = typed(path, raw)?;
        policy.check(path)?;
        Ok(vec![policy])
    }

    fn check(&self, path: &str) -> Result<(), InputError> {
        for (name, names) in
            [("allowedTools", &self.allowed_tools), ("deniedTools", &self.denied_tools)]
        {
            let names = names.as_deref().unwrap_or_default();
            if names.len() > MAX_NAMES {
                let message = format!("has {} names; at most {MAX_NAMES} are allowed", names.len());
                return Err(InputError::new(format!("{path}.{name}"), message));
            }
            if let Some(at) = names.iter().position(String::is_empty) {
                let message =
                    "is empty; pass a tool's name, in which `*` stands for any characters";
                return Err(InputError::new(format!("{path}.{name}[{at}]"), message));
            }
        }
        // No tool may be called at 0; the others would leave nothing of the run.
        let zeros = [
            ("maxResultChars", self.max_result_chars == Some(0)),
            ("maxTokens", self.max_tokens == Some(0)),
            ("maxSteps", self.max_steps == Some(0)),
            ("timeoutMs", self.timeout_ms == Some(0)),
            ("maxParallel", self.max_parallel == Some(0)),
        ];
        match zeros.into_iter().find(|(_, is_zero)| *is_zero) {
            None => Ok(()),
            Some((name, _)) => {
                let message = "`0` leaves nothing; pass at least 1 or leave it out";
                Err(InputError::new(format!("{path}.{name}"), message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::RunPolicy;

    fn parse(json: &str) -> Result<Vec<RunPolicy>, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        RunPolicy::parse("policy", Some(&raw)).map_err(|error| error.to_string())
    }

    #[test]
    fn one_policy_or_a_list_is_read_and_no_tool_call_at_all_is_a_policy() {
        assert_eq!(parse("null"), Ok(Vec::new()));
        let none = RunPolicy { max_tool_calls: Some(0), ..RunPolicy::default() };
        assert_eq!(parse("{\"maxToolCalls\":0}"), Ok(vec![none.clone()]));
        assert_eq!(parse("[{\"maxToolCalls\":0},{}]"), Ok(vec![none, RunPolicy::default()]));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (json, expected) in [
            (
                "{\"maxSteps\":0}",
                "`policy.maxSteps`: `0` leaves nothing; pass at least 1 or leave it out",
            ),
            (
                "[{},{\"deniedTools\":[\"a\",\"\"]}]",
                "`policy[1].deniedTools[1]`: is empty; pass a tool's name, in which `*` stands for any characters",
            ),
        ] {
            assert_eq!(parse(json), Err(expected.to_owned()));
        }
        assert!(parse("{\"maxCalls\":1}").unwrap_err().starts_with("`policy.maxCalls`"));
    }
}
