//! The files of a workspace in a system prompt, and how much of each.

use serde::Deserialize;

use super::tags::file_tag;
use crate::one_line::one_line;

/// The share of a cut file's characters that is its beginning, in percent.
const HEAD: usize = 70;
/// The share that is its end.
const TAIL: usize = 20;
/// A file that would have fewer characters than this is left out.
const LEAST: usize = 400;

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct PromptFile {
    /// Its path, as the model may name it.
    pub path: String,
    /// Its text; null where an expected file is missing.
    pub content: Option<String>,
}

/// How much of the files the prompt has, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FileCaps {
    /// Of one file. Default 20,000.
    #[cfg_attr(feature = "testing", ts(type = "number", optional))]
    pub per_file: usize,
    /// Of all files. Default 24,000.
    #[cfg_attr(feature = "testing", ts(type = "number", optional))]
    pub total: usize,
}

impl Default for FileCaps {
    fn default() -> Self {
        Self { per_file: 20_000, total: 24_000 }
    }
}

/// The files as tags, in their order. What is cut, left out or missing is said.
pub(super) fn tags(files: &[&PromptFile], caps: FileCaps) -> Vec<String> {
    let mut left = caps.total;
    let mut tags = Vec::with_capacity(files.len());
    for file in files {
        let Some(content) = &file.content else {
            tags.push(format!("[{} is missing]", one_line(&file.path)));
            continue;
        };
        if content.trim().is_empty() {
            continue;
        }
        let all = content.chars().count();
        let most = caps.per_file.min(left);
        if all > most && most < LEAST {
            tags.push(format!("[{} is left out: {all} characters]", one_line(&file.path)));
            continue;
        }
        left = left.saturating_sub(all.min(most));
        tags.push(file_tag(&file.path, &cut(content, all, most)));
    }
    tags
}

/// The beginning and the end of a text that is longer than `most` characters.
fn cut(text: &str, all: usize, most: usize) -> String {
    if all <= most {
        return text.to_owned();
    }
    let (head, tail) = (most.saturating_mul(HEAD) / 100, most.saturating_mul(TAIL) / 100);
    let middle = all.saturating_sub(head).saturating_sub(tail);
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(all.saturating_sub(tail)).collect();
    format!("{beginning}\n[… {middle} characters are left out; read the file for them …]\n{end}")
}
