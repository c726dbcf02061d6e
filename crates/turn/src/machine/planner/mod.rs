//! The heuristic planner: reads from the words of a message whether a tool runs before the model is called.
//!
//! Pure: the same message, tools and keywords give the same plan. It must never run a tool, nor guess where a message names
//! one that is not there: then it has a question.

mod arguments;
mod directive;
mod keywords;

use std::collections::BTreeMap;

use model::{Plan, PlannedCall, ToolDefinition};

use directive::Directive;

/// What the heuristic decides by.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The text of the newest user message.
    pub message: &'a str,
    /// The tools on offer.
    pub tools: &'a [ToolDefinition],
    /// What words stand for.
    pub keywords: &'a BTreeMap<String, String>,
    /// Whether a tool has answered in this turn.
    pub has_observation: bool,
}

/// The plan for a situation.
#[must_use]
pub fn heuristic(situation: &Situation<'_>) -> Plan {
    let Situation { message, tools, keywords, has_observation } = *situation;
    if has_observation {
        return Plan::direct("a tool has answered in this turn");
    }
    if let Some(directive) = directive::read(message) {
        return directed(&directive, tools);
    }
    keywords::planned(message, tools, keywords)
        .unwrap_or_else(|| Plan::direct("the message names no tool"))
}

/// The plan of a message that begins with a directive.
fn directed(directive: &Directive<'_>, tools: &[ToolDefinition]) -> Plan {
    let Directive { word, arguments, .. } = directive;
    let Some((tool, action)) = directive.find(tools) else {
        return clarify(tools, format!("`{word}` names no tool of the run"));
    };
    match arguments::of(tool, action, arguments) {
        Some(params) => {
            let call = PlannedCall { tool_name: tool.name.clone(), params };
            let reason = format!("`{word}` names `{}`", tool.name);
            Plan::Tools { calls: vec![call], reason }
        }
        None => clarify(tools, format!("the arguments after `{word}` cannot be read")),
    }
}

fn clarify(tools: &[ToolDefinition], reason: String) -> Plan {
    let example = tools.first().map_or_else(
        || "tool:name.action".to_owned(),
        |tool| format!("tool:{}", tool.name.replacen("__", ".", 1)),
    );
    let question = format!("Which tool and action should I use? Example: {example}");
    Plan::Clarify { question, reason }
}

#[cfg(test)]
mod tests;
