//! Facts of a summary that the model does not write: failed tools, files read and written
//! (docs/rules/compaction.md#summary-message).
//!
//! Read from the calls themselves. It must never guess what a tool does: only common names of coding tools count.

use serde_json::Value;

use super::serialise::text_of;
use model::{Block, Message};

const MOST_FAILURES: usize = 8;
const FAILURE_CHARS: usize = 240;
const MOST_FILES: usize = 100;

/// Facts of a range of messages, in order, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    failures: Vec<String>,
    read: Vec<String>,
    modified: Vec<String>,
}

impl Facts {
    /// Reads the messages.
    pub fn of<'a>(messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut facts = Self::default();
        for block in messages.flat_map(|message| &message.blocks) {
            match block {
                Block::ToolCall { name, arguments_json, incomplete: false, .. } => {
                    facts.call(name, arguments_json);
                }
                Block::ToolResult { tool_name, content, is_error: true, .. } => {
                    let text = text_of(content);
                    let line: String = text
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                        .chars()
                        .take(FAILURE_CHARS)
                        .collect();
                    facts.failures.push(format!("{tool_name}: {line}"));
                }
                Block::Text { .. }
                | Block::Image { .. }
                | Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolCall { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => {}
            }
        }
        let surplus = facts.failures.len().saturating_sub(MOST_FAILURES);
        facts.failures.drain(..surplus);
        facts
    }

    fn call(&mut self, name: &str, arguments_json: &str) {
        let list = match name {
            "read" | "read_file" => &mut self.read,
            "write" | "write_file" | "edit" | "edit_file" => &mut self.modified,
            _ => return,
        };
        let Ok(Value::Object(arguments)) = serde_json::from_str(arguments_json) else { return };
        let path =
            ["path", "file_path", "filePath"].iter().find_map(|key| arguments.get(*key)?.as_str());
        if let Some(path) = path
            && list.len() < MOST_FILES
            && !list.iter().any(|known| known == path)
        {
            list.push(path.to_owned());
        }
    }

    /// The sections below the model's own; empty where there are no facts.
    pub fn sections(&self) -> String {
        let mut out = String::new();
        for (title, lines) in [
            ("Tool failures", &self.failures),
            ("Files read", &self.read),
            ("Files modified", &self.modified),
        ] {
            if lines.is_empty() {
                continue;
            }
            out.push_str("\n\n## ");
            out.push_str(title);
            for line in lines {
                out.push_str("\n- ");
                out.push_str(line);
            }
        }
        out
    }
}
