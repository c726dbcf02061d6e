//! A tool of a server: as the server describes it, and as a run has it.
//!
//! What a server says about its own tools grants nothing unless the host trusts it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::names::{distinct, exposed};
use model::{ExecutionMode, ReplayClass, ToolDefinition, ToolPermission};

/// The longest description in characters.
const MAX_DESCRIPTION: usize = 16_000;

/// How the tools of a server may run: its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolRules {
    pub(crate) permission: Option<ToolPermission>,
    pub(crate) execution_mode: ExecutionMode,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) trust_annotations: bool,
}

/// What a run says about the tools of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunRules {
    /// Somebody decides about calls: tools of servers ask, unless an option says otherwise.
    pub decides: bool,
    /// The time limit of a tool without its own; `None` where the run has one.
    pub timeout_ms: Option<u64>,
}

/// The server's own words about a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Annotations {
    pub(crate) read_only_hint: bool,
    pub(crate) destructive_hint: Option<bool>,
    pub(crate) idempotent_hint: bool,
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct McpTool {
    /// Its server.
    pub server: Arc<str>,
    /// Its own name.
    pub name: String,
    /// Its name in a run.
    pub exposed: String,
    /// What the model reads.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Box<RawValue>,
    /// The schema of its structured result.
    pub output: Option<Box<RawValue>>,
    pub(crate) annotations: Annotations,
    pub(crate) rules: ToolRules,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described<'a> {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(default)]
    execution: Option<Execution>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    #[serde(default)]
    task_support: Option<String>,
}

impl McpTool {
    /// Reads the description of a tool; the error is its name and why it cannot be used.
    pub(crate) fn read(
        server: &Arc<str>,
        text: &RawValue,
        rules: &ToolRules,
    ) -> Result<Self, (String, String)> {
        let described: Described<'_> = serde_json::from_str(text.get())
            .map_err(|error| (String::new(), format!("its description cannot be read: {error}")))?;
        let Described { name, title, description, input_schema, output_schema, .. } = described;
        if name.is_empty() {
            return Err((name, "it has no name".to_owned()));
        }
        let needs_task = described.execution.and_then(|execution| execution.task_support);
        if needs_task.as_deref() == Some("required") {
            return Err((name, "it runs as a task only".to_owned()));
        }
        let Some(parameters) = object_schema(input_schema) else {
            return Err((name, "its input schema is not one of an object".to_owned()));
        };
        let description = description.or(title).unwrap_or_default();
        Ok(Self {
            exposed: exposed(server, &name),
            server: Arc::clone(server),
            description: description.chars().take(MAX_DESCRIPTION).collect(),
            name,
            parameters,
            output: output_schema.map(ToOwned::to_owned),
            annotations: described.annotations.unwrap_or_default(),
            rules: rules.clone(),
        })
    }

    /// The same tool under another name, because a tool of the host has this one.
    #[must_use]
    pub fn renamed(&self) -> Self {
        Self { exposed: distinct(&self.server, &self.name), ..self.clone() }
    }

    /// `server__name`, where the name in a run is another one.
    #[must_use]
    pub fn own_name(&self) -> Option<String> {
        let own = format!("{}__{}", self.server, self.name);
        (own != self.exposed).then_some(own)
    }

    /// The tool as a run has it.
    #[must_use]
    pub fn definition(&self, run: RunRules) -> ToolDefinition {
        let Self { annotations, rules, .. } = self;
        let trusted = rules.trust_annotations;
        let reads = trusted && annotations.read_only_hint;
        let permission = rules.permission.unwrap_or(if reads || !run.decides {
            ToolPermission::Allow
        } else {
            ToolPermission::Ask
        });
        // A tool that says of itself that it destroys asks, whatever else was decided by default.
        let destroys = trusted && !reads && annotations.destructive_hint == Some(true);
        let permission =
            if destroys && rules.permission.is_none() { ToolPermission::Ask } else { permission };
        ToolDefinition {
            name: self.exposed.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            execution_mode: if reads { ExecutionMode::Parallel } else { rules.execution_mode },
            timeout_ms: rules.timeout_ms.or(run.timeout_ms),
            replay: match (reads, trusted && annotations.idempotent_hint) {
                (true, _) => ReplayClass::Pure,
                (false, true) => ReplayClass::Idempotent,
                (false, false) => ReplayClass::Unsafe,
            },
            max_result_chars: None,
            retries: 0,
            permission,
            external: false,
        }
    }
}

/// The schema of an object, with its type: some servers leave it out, and some providers refuse that.
fn object_schema(schema: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(default, rename = "type")]
        kind: Option<serde_json::Value>,
    }
    if !schema.get().starts_with('{') {
        return None;
    }
    let Typed { kind } = serde_json::from_str(schema.get()).ok()?;
    match kind {
        Some(kind) => (kind == "object").then(|| schema.to_owned()),
        None => {
            let rest = schema.get().trim_start_matches('{').trim_start();
            let comma = if rest.starts_with('}') { "" } else { "," };
            RawValue::from_string(format!("{{\"type\":\"object\"{comma}{rest}")).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{McpTool, RunRules, ToolRules};
    use model::{ExecutionMode, ReplayClass, ToolPermission};

    fn read(text: &str, rules: &ToolRules) -> Result<McpTool, (String, String)> {
        McpTool::read(&"s".into(), &RawValue::from_string(text.to_owned()).unwrap(), rules)
    }

    #[test]
    fn a_description_that_cannot_be_used_is_refused_with_its_reason() {
        let why = |text: &str| read(text, &ToolRules::default()).unwrap_err();
        assert_eq!(
            why(r#"{"name":"a","inputSchema":{"type":"array"}}"#),
            ("a".to_owned(), "its input schema is not one of an object".to_owned())
        );
        assert_eq!(why(r#"{"name":"","inputSchema":{}}"#).1, "it has no name");
        let task = r#"{"name":"a","inputSchema":{},"execution":{"taskSupport":"required"}}"#;
        assert_eq!(why(task).1, "it runs as a task only");
        assert!(why("[]").1.starts_with("its description cannot be read"));
    }

    #[test]
    fn a_schema_without_a_type_is_one_of_an_object() {
        let schema = |text: &str| {
            let tool =
                read(&format!(r#"{{"name":"a","inputSchema":{text}}}"#), &ToolRules::default());
            tool.unwrap().parameters.get().to_owned()
        };
        assert_eq!(schema("{}"), r#"{"type":"object"}"#);
        assert_eq!(schema(r#"{ "required":["b"]}"#), r#"{"type":"object","required":["b"]}"#);
        assert_eq!(schema(r#"{"type":"object"}"#), r#"{"type":"object"}"#);
    }

    #[test]
    fn annotations_grant_nothing_unless_they_are_trusted() {
        let text =
            |hints: &str| format!(r#"{{"name":"a","inputSchema":{{}},"annotations":{{{hints}}}}}"#);
        let rules = |trust_annotations| ToolRules { trust_annotations, ..ToolRules::default() };
        let shape = |hints: &str, trusted, decides| {
            let tool = read(&text(hints), &rules(trusted)).unwrap();
            let tool = tool.definition(RunRules { decides, timeout_ms: Some(1) });
            (tool.permission, tool.replay, tool.execution_mode, tool.timeout_ms)
        };
        use ExecutionMode::{Parallel, Sequential};
        use ToolPermission::{Allow, Ask};
        let hints = r#""readOnlyHint":true,"idempotentHint":true"#;
        assert_eq!(shape(hints, false, true), (Ask, ReplayClass::Unsafe, Sequential, Some(1)));
        assert_eq!(shape(hints, false, false), (Allow, ReplayClass::Unsafe, Sequential, Some(1)));
        assert_eq!(shape(hints, true, true), (Allow, ReplayClass::Pure, Parallel, Some(1)));
        let hints = r#""destructiveHint":true,"idempotentHint":true"#;
        assert_eq!(shape(hints, true, false), (Ask, ReplayClass::Idempotent, Sequential, Some(1)));
    }
}
