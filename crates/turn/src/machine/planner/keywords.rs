//! Words that stand for a tool: which of them a message has, and which action of the tool looks something up.
//!
//! It must never plan a call that changes something: it looks for `search`, `list` and `query` only, unless the host names
//! the very tool.

use std::collections::BTreeMap;

use model::{Plan, PlannedCall, ToolDefinition};

use super::arguments::{has_action, if_any};

/// The actions that look something up, the best first.
const ACTIONS: [&str; 3] = ["search", "list", "query"];

/// The plan for the first word of a message that stands for a tool; of those at the same place the longest.
pub(super) fn planned(
    message: &str,
    tools: &[ToolDefinition],
    keywords: &BTreeMap<String, String>,
) -> Option<Plan> {
    let lower = message.to_lowercase();
    let found = keywords.iter().filter_map(|(word, name)| {
        let at = position(&lower, &word.trim().to_lowercase())?;
        Some((at, std::cmp::Reverse(word.len()), word, name))
    });
    let (_, _, word, name) = found.min()?;
    let Some((tool, action)) = find(name, tools) else {
        return Some(Plan::direct(format!(
            "`{word}` stands for `{name}`, of which the run has no search, list or query"
        )));
    };
    let Some(params) = if_any(tool, action, message.trim()) else {
        let reason = format!("`{word}` stands for `{}`, which needs more than a text", tool.name);
        return Some(Plan::direct(reason));
    };
    let call = PlannedCall { tool_name: tool.name.clone(), params };
    let reason = format!("`{word}` stands for `{}`", tool.name);
    Some(Plan::Tools { calls: vec![call], reason })
}

/// Where a word begins in a text, as a whole word; both in lower case.
fn position(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|it| it.chars().next_back());
        let after = text.get(at.saturating_add(word.len())..).and_then(|it| it.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The tool, and its action where that is an argument of it.
fn find<'t>(
    name: &str,
    tools: &'t [ToolDefinition],
) -> Option<(&'t ToolDefinition, Option<&'static str>)> {
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    if let Some(tool) = named(name) {
        return Some((tool, ACTIONS.into_iter().find(|action| has_action(tool, action))));
    }
    for action in ACTIONS {
        for separator in ["__", ".", "_", "-"] {
            let prefix = format!("{name}{separator}{action}");
            // `github__search`, or the first of `github__search_code`, `github__search_issues`.
            let begins = tools.iter().filter(|tool| {
                tool.name
                    .strip_prefix(prefix.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-', '.']))
            });
            if let Some(tool) = begins.min_by_key(|tool| tool.name.as_str()) {
                return Some((tool, None));
            }
        }
    }
    None
}
