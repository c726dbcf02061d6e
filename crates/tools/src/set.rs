//! A compiled set of tools: looks up a call's tool and validates its arguments.
//!
//! It must never accept arguments that the tool's schema refuses.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::instance::Instance;
use super::meter::{Stopped, metered};
use super::schema::{self, Schema};
use super::{arguments, coerce, complexity, explain, slow_check};
use model::{InputError, ToolDefinition};

/// The maximum bytes of arguments that are checked on the run's thread, and the steps for that: less than a millisecond.
const SMALL: usize = 64 * 1024;
const QUICK: u64 = 50_000;
/// The steps of a check outside the threads of the runs: a tenth of a second on a slow machine. Each check ends after its
/// steps, so that waiting ones are not blocked.
const STEPS: u64 = 10_000_000;

const TOO_LONG: &str = "checking the arguments against the tool's schema takes too long; shorter or simpler values may pass";
const FAILED: &str = "the arguments could not be checked against the tool's schema";
const TOO_LARGE: &str =
    "does not match the tool's schema, and is too large or too deep to name the place";

/// The maximum number of names listed to the model when it calls an unknown tool.
const MAX_NAMES: usize = 64;

/// Tools with compiled schemas; compiled once per set and not per run or call.
#[derive(Debug)]
pub struct ToolSet {
    tools: Arc<[ToolDefinition]>,
    schemas: Vec<Schema>,
    by_name: HashMap<String, usize>,
}

/// A call that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The tool's index in [`ToolSet::tools`].
    pub index: usize,
    /// The arguments for the tool: valid JSON text of an object, and the model's text byte for byte, unless a value was
    /// coerced.
    pub arguments_json: String,
}

/// Why a call may not run.
#[derive(Debug)]
enum Unchecked {
    /// It is invalid; the text is for the model.
    Refused(String),
    /// The check did not end.
    Stopped(Stopped),
}

impl From<Stopped> for Unchecked {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl ToolSet {
    /// Compiles every tool's schema.
    ///
    /// # Errors
    /// `tools[i].parameters`, where a schema is too large, is not JSON Schema, or refers to something outside itself.
    pub fn compile(tools: &[ToolDefinition]) -> Result<Arc<Self>, InputError> {
        let schemas = tools
            .iter()
            .enumerate()
            .map(|(index, tool)| {
                schema::compile(tool.parameters.get()).map_err(|why| {
                    InputError::new(
                        format!("tools[{index}].parameters"),
                        format!("the schema of tool `{}` {why}", tool.name),
                    )
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let by_name =
            tools.iter().enumerate().map(|(index, tool)| (tool.name.clone(), index)).collect();
        Ok(Arc::new(Self { tools: tools.into(), schemas, by_name }))
    }

    /// The tools in their given order.
    #[must_use]
    pub fn tools(&self) -> &Arc<[ToolDefinition]> {
        &self.tools
    }

    /// Checks a call: the tool exists, and its arguments parse, coerce and validate. Dropping the future ends the check.
    ///
    /// # Errors
    /// The text for the model: which tool is missing, or which path failed and what was expected there; or that checking takes
    /// too long.
    pub async fn prepare(
        self: &Arc<Self>,
        name: &str,
        arguments_json: &str,
    ) -> Result<Prepared, String> {
        if arguments_json.len() <= SMALL {
            match self.check(name, arguments_json, QUICK, None) {
                Ok(prepared) => return Ok(prepared),
                Err(Unchecked::Refused(refusal)) => return Err(refusal),
                Err(Unchecked::Stopped(_)) => {}
            }
        }
        let (set, tool, text) = (Arc::clone(self), name.to_owned(), arguments_json.to_owned());
        let checked =
            slow_check::run(move |cancel| set.check(&tool, &text, STEPS, Some(cancel))).await;
        checked.map_err(|unchecked| {
            let why = match unchecked {
                Unchecked::Refused(refusal) => return refusal,
                Unchecked::Stopped(Stopped::Spent | Stopped::Cancelled) => TOO_LONG,
                Unchecked::Stopped(Stopped::Panicked) => FAILED,
            };
            explain::unusable(name, why, arguments_json)
        })
    }

    /// Checks a call within `steps`.
    fn check(
        &self,
        name: &str,
        arguments_json: &str,
        steps: u64,
        cancel: Option<&CancellationToken>,
    ) -> Result<Prepared, Unchecked> {
        let Some((index, schema)) =
            self.by_name.get(name).and_then(|&index| Some((index, self.schemas.get(index)?)))
        else {
            return Err(Unchecked::Refused(self.not_found(name)));
        };
        let arguments::Arguments { text, mut value } = match arguments::parse(arguments_json) {
            Ok(arguments) => arguments,
            Err(why) => {
                return Err(Unchecked::Refused(explain::unusable(name, &why, arguments_json)));
            }
        };
        let unusable = |why: &str| Err(explain::unusable(name, why, arguments_json));
        let checked = metered(steps, cancel, || {
            let validator = match schema.validator(&value) {
                Ok(validator) => validator,
                Err(why) => return unusable(&format!("the tool's schema {why}")),
            };
            if validator.is_valid(Instance(&value)) {
                return Ok(Prepared { index, arguments_json: text.into_owned() });
            }
            if complexity::is_too_much(&value, schema.cost) {
                return unusable(TOO_LARGE);
            }
            coerce::coerce(&validator, &mut value);
            match explain::refusal(name, &validator, &value, arguments_json) {
                None => Ok(Prepared { index, arguments_json: value.to_string() }),
                Some(refusal) => Err(refusal),
            }
        });
        checked?.map_err(Unchecked::Refused)
    }

    fn not_found(&self, name: &str) -> String {
        let name: String = name.chars().take(128).collect();
        if self.tools.is_empty() {
            return format!("Tool {name} not found. There are no tools.");
        }
        let names: Vec<&str> =
            self.tools.iter().take(MAX_NAMES).map(|tool| tool.name.as_str()).collect();
        let more = if self.tools.len() > MAX_NAMES { ", …" } else { "" };
        format!("Tool {name} not found. Available tools: {}{more}", names.join(", "))
    }
}

#[cfg(test)]
mod tests;
