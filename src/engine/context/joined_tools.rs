//! Tools that join a run when it begins, because their servers are started first. They are frozen then.
//!
//! A run waits no longer for them than it lasts. It must never fail because of them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use crate::engine::state::{Bounds, RequestTemplate, Run};
use model::{AssembledContext, InputError, RunWarning, ToolChoice, ToolDefinition, quoted};
use tools::{ToolSet, ToolSetCache};
use turn::permits::policy::Limits;

/// The tools, with names that no tool of the host has.
#[derive(Debug, Default)]
pub(crate) struct JoinedTools {
    pub(crate) tools: Vec<ToolDefinition>,
    /// `server__name` of each tool that has another name in the run, by that name.
    pub(crate) own_names: HashMap<String, String>,
    /// Why some are missing.
    pub(crate) warnings: Vec<RunWarning>,
}

/// Tools that are not known yet.
pub(crate) struct JoiningTools {
    /// The tools, once they are known.
    pub(crate) tools: Pin<Box<dyn Future<Output = JoinedTools> + Send>>,
    /// Whether a tool of this name may be among them.
    pub(crate) may_have: Box<dyn Fn(&str) -> bool + Send>,
}

/// What a run waits for before its turn is opened.
pub(crate) struct Joining {
    pub(crate) tools: JoiningTools,
    pub(crate) sets: Arc<ToolSetCache>,
}

/// Checks that the tool which a context chooses is one of its tools, or may join them.
///
/// # Errors
/// It is not.
pub(crate) fn check_choice(
    context: &AssembledContext,
    may_join: Option<&dyn Fn(&str) -> bool>,
) -> Result<(), InputError> {
    match chosen(context) {
        Some(name) if !has(context, name) && !may_join.is_some_and(|may_join| may_join(name)) => {
            let message = format!("{} is not one of `tools`", quoted(name));
            Err(InputError::new("toolChoice.name", message))
        }
        Some(_) | None => Ok(()),
    }
}

fn chosen(context: &AssembledContext) -> Option<&str> {
    match &context.request.tool_choice {
        Some(ToolChoice::Tool { name }) => Some(name),
        Some(ToolChoice::Auto | ToolChoice::None | ToolChoice::Required) | None => None,
    }
}

fn has(context: &AssembledContext, name: &str) -> bool {
    context.tools.iter().any(|tool| tool.name == name)
}

/// Leaves out the choice of a tool that did not join: its server may be down, which fails no run.
pub(crate) fn settle_choice(
    context: &mut AssembledContext,
    template: &mut RequestTemplate,
) -> Option<RunWarning> {
    let name = chosen(context).filter(|name| !has(context, name))?;
    let message = format!("{} is not one of the run's tools, and is not chosen", quoted(name));
    context.request = Arc::clone(&template.free);
    template.forces_tool = false;
    let field = Some("toolChoice.name".to_owned());
    Some(RunWarning { code: "mcp_unavailable".to_owned(), field, message })
}

/// Adds the tools to those of the run, after the host's own.
pub(crate) async fn join_tools(run: &mut Run, joining: Joining) -> Vec<RunWarning> {
    let Run { context, tool_set, template, bounds, own_names, .. } = run;
    let mut warnings = join(context, tool_set, joining, bounds, own_names).await;
    warnings.extend(settle_choice(context, template));
    warnings
}

/// Adds the tools to those of a context, once they are known; `own_names` gets those of [`JoinedTools`].
pub(crate) async fn join(
    context: &mut AssembledContext,
    tool_set: &mut Arc<ToolSet>,
    joining: Joining,
    bounds: &Bounds,
    own_names: &mut HashMap<String, String>,
) -> Vec<RunWarning> {
    let Joining { tools: JoiningTools { tools, .. }, sets } = joining;
    let joined = tokio::select! {
        joined = tools => joined,
        () = bounds.abort.cancelled() => return Vec::new(),
        () = tokio::time::sleep_until(bounds.deadline) => return Vec::new(),
    };
    let JoinedTools { mut tools, own_names: own, mut warnings } = joined;
    *own_names = own;
    let limits = Limits::of(&context.policies);
    let own = |name: &str| own_names.get(name).map(String::as_str);
    tools.retain(|tool| limits.forbidding(&tool.name, own(&tool.name)).is_none());
    if tools.is_empty() {
        return warnings;
    }
    let json = spliced(&context.tools_json, &tools);
    let mut all = context.tools.clone();
    all.extend(tools);
    // Compiling may take long, and these schemas are not the host's.
    let compiled = tokio::task::spawn_blocking(move || {
        let set = sets.get_or_compile(&json, &all)?;
        Ok::<_, InputError>((json, all, set))
    });
    let compiled: Result<(String, Vec<ToolDefinition>, Arc<ToolSet>), String> = match compiled.await
    {
        Ok(Ok(compiled)) => Ok(compiled),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_panic) => Err("the tools could not be compiled".to_owned()),
    };
    match compiled {
        Ok((json, all, set)) => {
            context.tools_json = json;
            context.tools = all;
            *tool_set = set;
        }
        Err(message) => {
            let code = "mcp_unavailable".to_owned();
            warnings.push(RunWarning { code, field: Some("mcp".to_owned()), message });
        }
    }
    warnings
}

/// The JSON of a list of tools with more at its end: the host's own part stays byte for byte.
fn spliced(json: &str, more: &[ToolDefinition]) -> String {
    let more = serde_json::to_string(more).unwrap_or_default();
    let own = json.trim_end().strip_suffix(']').map(str::trim_end).unwrap_or("[");
    let comma = if own.ends_with('[') { "" } else { "," };
    format!("{own}{comma}{}", more.strip_prefix('[').unwrap_or("]"))
}

#[cfg(test)]
mod tests {
    use super::spliced;

    #[test]
    fn tools_are_added_behind_the_text_of_the_hosts_own() {
        assert_eq!(spliced("", &[]), "[]");
        assert_eq!(spliced("[ ]", &[]), "[]");
        let own = r#"[{"name" : "a"} ]"#;
        let tool = serde_json::from_str(r#"{"name":"b","parameters":{}}"#).unwrap();
        let text = spliced(own, &[tool]);
        assert!(text.starts_with(r#"[{"name" : "a"},{"name":"b","#), "{text}");
        assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap().len(), 2);
    }
}
