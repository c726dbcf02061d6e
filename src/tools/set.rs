//! A compiled set of tools: which exist, and whether a call's arguments may reach one.
//!
//! It must never let through arguments that the tool's schema refuses.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::instance::Instance;
use super::meter::{Stopped, metered};
use super::schema::{self, Schema};
use super::{arguments, aside, coerce, complexity, explain};
use model::{InputError, ToolDefinition};

/// Arguments in bytes that are checked where they come in, and the steps for that: less than a millisecond.
const SMALL: usize = 64 * 1024;
const QUICK: u64 = 50_000;
const TOO_LARGE: &str =
    "does not match the tool's schema, and is too large or too deep to say where";

/// Names told to the model when it asks for a tool that is not there.
const MAX_NAMES: usize = 64;

/// Tools with their schemas compiled, once per set and not per run or call.
#[derive(Debug)]
pub struct ToolSet {
    tools: Arc<[ToolDefinition]>,
    schemas: Vec<Schema>,
    by_name: HashMap<String, usize>,
}

/// A call that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The tool's place in [`ToolSet::tools`].
    pub index: usize,
    /// The arguments the tool gets: valid JSON text of an object. What the model wrote, byte for byte, unless a value
    /// had to be coerced.
    pub arguments_json: String,
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

    /// The tools in the order they were given.
    #[must_use]
    pub fn tools(&self) -> &Arc<[ToolDefinition]> {
        &self.tools
    }

    /// Checks a call: the tool exists, and its arguments parse, coerce and validate. Dropping the future ends the check.
    ///
    /// # Errors
    /// What the model is told: which tool is missing, or which path failed and what was expected there; or that checking
    /// takes too long.
    pub async fn prepare(
        self: &Arc<Self>,
        name: &str,
        arguments_json: &str,
    ) -> Result<Prepared, String> {
        if arguments_json.len() <= SMALL
            && let Ok(done) = self.check(name, arguments_json, QUICK, None)
        {
            return done;
        }
        aside::prepare(self, name, arguments_json).await
    }

    /// Checks a call within `steps`.
    pub(super) fn check(
        &self,
        name: &str,
        arguments_json: &str,
        steps: u64,
        cancel: Option<&CancellationToken>,
    ) -> Result<Result<Prepared, String>, Stopped> {
        let Some((index, schema)) =
            self.by_name.get(name).and_then(|&index| Some((index, self.schemas.get(index)?)))
        else {
            return Ok(Err(self.not_found(name)));
        };
        let arguments::Arguments { text, mut value } = match arguments::parse(arguments_json) {
            Ok(arguments) => arguments,
            Err(why) => return Ok(Err(explain::unusable(name, &why, arguments_json))),
        };
        let unusable = |why: &str| Err(explain::unusable(name, why, arguments_json));
        metered(steps, cancel, || {
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
        })
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
