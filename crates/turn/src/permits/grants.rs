//! The entries of `permissionsGranted` that cover calls: the name of a tool, or `tool(param~glob)`.
//!
//! Other entries are the host's own and cover nothing. It must never let a wildcard match a step out of a folder (`..`).

use serde_json::Value;
use serde_json::value::RawValue;

use super::glob::matches;

/// The entries of a permissions snapshot that name tools, in their order.
pub struct Grants {
    entries: Vec<Grant>,
}

struct Grant {
    /// The entry as it was passed.
    text: String,
    tool: String,
    condition: Option<Condition>,
}

/// One argument, and the pattern that it must match.
struct Condition {
    param: String,
    glob: String,
}

impl Grants {
    /// Those of a snapshot, the JSON text of an array.
    #[must_use]
    pub fn of(granted: &RawValue) -> Self {
        let given: Vec<Value> = serde_json::from_str(granted.get()).unwrap_or_default();
        let texts = given.into_iter().filter_map(|entry| match entry {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        });
        Self { entries: texts.filter_map(Grant::of).collect() }
    }

    /// The first entry that covers a call with these arguments.
    #[must_use]
    pub fn covering(&self, tool: &str, arguments_json: &str) -> Option<&str> {
        let mut of_tool = self.entries.iter().filter(|it| it.tool == tool).peekable();
        of_tool.peek()?;
        let arguments: Value = serde_json::from_str(arguments_json).ok()?;
        of_tool.find(|it| it.covers(&arguments)).map(|it| it.text.as_str())
    }
}

impl Grant {
    fn of(text: String) -> Option<Self> {
        let (tool, condition) = match text.split_once('(') {
            None => (text.clone(), None),
            Some((tool, rest)) => {
                let (param, glob) = rest.strip_suffix(')')?.split_once('~')?;
                let condition = Condition { param: param.to_owned(), glob: glob.to_owned() };
                (tool.to_owned(), Some(condition))
            }
        };
        Some(Self { text, tool, condition })
    }

    fn covers(&self, arguments: &Value) -> bool {
        let Some(Condition { param, glob }) = &self.condition else { return true };
        let value = match arguments.get(param) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => return false,
        };
        let leaves = value.split(['/', '\\']).any(|part| part == "..");
        matches(glob, &value) && (!leaves || !glob.contains(['*', '?']))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::{Grants, matches};

    fn covering(granted: &str, tool: &str, arguments: &str) -> Option<String> {
        let granted = RawValue::from_string(granted.to_owned()).unwrap();
        Grants::of(&granted).covering(tool, arguments).map(ToOwned::to_owned)
    }

    #[test]
    fn an_entry_covers_the_calls_of_its_tool_whose_argument_matches() {
        let granted =
            r#"["list", "read(path~/work/**)", "send(to~*@team.example)", {"fs": true}, "bad(x"]"#;
        for (tool, arguments, entry) in [
            ("list", r#"{}"#, Some("list")),
            ("read", r#"{"path":"/work/a/b.txt"}"#, Some("read(path~/work/**)")),
            ("read", r#"{"path":"/work/../etc/passwd"}"#, None),
            ("read", r#"{"path":"/etc/passwd"}"#, None),
            ("read", r#"{}"#, None),
            ("send", r#"{"to":"ann@team.example"}"#, Some("send(to~*@team.example)")),
            ("send", r#"{"to":"ann@other.example"}"#, None),
            ("send", r#"{"to":["ann@team.example"]}"#, None),
            ("bad", r#"{"x":1}"#, None),
            ("fs", r#"{}"#, None),
        ] {
            assert_eq!(covering(granted, tool, arguments).as_deref(), entry, "{tool}({arguments})");
        }
    }

    #[test]
    fn a_single_star_stays_within_a_folder() {
        assert!(matches("/tmp/*.txt", "/tmp/a.txt") && !matches("/tmp/*.txt", "/tmp/a/b.txt"));
        assert!(
            matches("/tmp/**", "/tmp/a/b.txt") && matches("a?c", "abc") && !matches("a?c", "a/c")
        );
        assert!(matches("", "") && !matches("", "a") && matches("**", "") && matches("*", ""));
    }

    proptest! {
        /// A text without wildcards matches itself only, and is matched by each pattern in which stars stand for parts of it.
        #[test]
        fn a_pattern_made_of_a_text_matches_it(text in "[a-c/.]{0,12}", from in 0usize..13, to in 0usize..13, other in "[a-c/.]{0,12}") {
            prop_assert_eq!(matches(&text, &other), text == other);
            let (from, to) = (from.min(to).min(text.len()), from.max(to).min(text.len()));
            let (before, inner, after) = (&text[..from], &text[from..to], &text[to..]);
            let (any, within) = (format!("{before}**{after}"), format!("{before}*{after}"));
            prop_assert!(matches(&any, &text));
            prop_assert!(matches(&within, &text) || inner.contains('/'));
        }
    }
}
