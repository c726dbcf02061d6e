//! The arguments of a planned call: a JSON object as it stands, or a text in the one parameter that takes it.
//!
//! It must never decide whether they are valid: the call is validated as every other.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use model::ToolDefinition;

/// The names of parameters that take the words of a user, the best first.
const TEXTS: [&str; 7] = ["query", "q", "search", "text", "prompt", "input", "message"];
/// The name of the parameter by which one tool has several actions.
const ACTION: &str = "action";

/// What is read of a tool's schema.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Schema {
    properties: BTreeMap<String, Property>,
    required: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Property {
    #[serde(rename = "type")]
    kind: Option<Value>,
    #[serde(rename = "enum")]
    values: Option<Vec<Value>>,
}

impl Property {
    fn is_text(&self) -> bool {
        self.kind.as_ref().is_some_and(|kind| kind == "string") && self.values.is_none()
    }
}

fn schema(tool: &ToolDefinition) -> Schema {
    serde_json::from_str(tool.parameters.get()).unwrap_or_default()
}

/// Whether a tool has this action as a value of its parameter `action`.
pub(super) fn has_action(tool: &ToolDefinition, action: &str) -> bool {
    schema(tool).properties.get(ACTION).is_some_and(|property| {
        property.values.as_ref().is_none_or(|values| values.iter().any(|value| value == action))
    })
}

/// The arguments of a call of `tool` for what a user wrote; `None` where no parameter takes it.
pub(super) fn of(tool: &ToolDefinition, action: Option<&str>, text: &str) -> Option<Box<RawValue>> {
    let mut params: BTreeMap<String, Value> = BTreeMap::new();
    if text.starts_with('{') {
        if action.is_none() {
            serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok()?;
            return RawValue::from_string(text.to_owned()).ok();
        }
        params = serde_json::from_str(text).ok()?;
    } else if !text.is_empty() {
        let schema = schema(tool);
        let parameter = text_parameter(&schema, action.is_some())?;
        params.insert(parameter.to_owned(), Value::from(text));
    }
    if let Some(action) = action {
        params.insert(ACTION.to_owned(), Value::from(action));
    }
    to_raw_value(&params).ok()
}

/// As [`of`], for words that are not written for the tool: a tool that takes no text is called without them.
pub(super) fn if_any(
    tool: &ToolDefinition,
    action: Option<&str>,
    text: &str,
) -> Option<Box<RawValue>> {
    of(tool, action, text).or_else(|| {
        let needed = schema(tool).required.into_iter().any(|name| name != ACTION);
        if needed { None } else { of(tool, action, "") }
    })
}

fn text_parameter(schema: &Schema, has_action: bool) -> Option<&str> {
    let texts = || {
        schema
            .properties
            .iter()
            .filter(|(name, property)| property.is_text() && !(has_action && *name == ACTION))
            .map(|(name, _)| name.as_str())
    };
    let by_name = TEXTS.into_iter().find(|name| texts().any(|text| text == *name));
    let mut required = texts().filter(|name| schema.required.iter().any(|it| it == name));
    let only = match (required.next(), required.next()) {
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let mut all = texts();
            all.next().filter(|_| all.next().is_none())
        }
    };
    by_name.or(only)
}
