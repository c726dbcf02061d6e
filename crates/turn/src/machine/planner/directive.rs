//! A directive at the beginning of a message: `tool:name.action` or `app/name/action`, and what follows it.
//!
//! It must never read one in the middle of a message: `app/models/user.rb` is a path there.

use model::ToolDefinition;

use super::arguments::has_action;

/// What a message begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directive<'a> {
    /// The whole word.
    pub(super) word: &'a str,
    name: &'a str,
    action: Option<&'a str>,
    /// What follows the word.
    pub(super) arguments: &'a str,
}

/// The directive of a message, well formed or not; `None` where it begins with none.
pub(super) fn read(message: &str) -> Option<Directive<'_>> {
    let message = message.trim();
    let word = message.split(char::is_whitespace).next().unwrap_or_default();
    let arguments = message.get(word.len()..).unwrap_or_default().trim();
    if let Some(named) = word.strip_prefix("tool:") {
        let (name, action) = match named.split_once('.') {
            Some((name, action)) => (name, Some(action)),
            None => (named, None),
        };
        return Some(Directive { word, name, action, arguments });
    }
    let (name, action) = word.strip_prefix("app/")?.split_once('/')?;
    // A longer path is one of a file.
    let is_path = action.contains('/');
    (!is_path).then_some(Directive { word, name, action: Some(action), arguments })
}

impl Directive<'_> {
    /// The tool that it names; with the action, where that is an argument of the tool.
    pub(super) fn find<'t>(
        &self,
        tools: &'t [ToolDefinition],
    ) -> Option<(&'t ToolDefinition, Option<&str>)> {
        let named = |name: &str| tools.iter().find(|tool| tool.name == name);
        if self.name.is_empty() {
            return None;
        }
        let Some(action) = self.action else {
            return named(self.name).map(|tool| (tool, None));
        };
        if action.is_empty() {
            return None;
        }
        for separator in ["__", ".", "_", "-"] {
            if let Some(tool) = named(&format!("{}{separator}{action}", self.name)) {
                return Some((tool, None));
            }
        }
        named(self.name).filter(|tool| has_action(tool, action)).map(|tool| (tool, Some(action)))
    }
}
