//! The files of a workspace in a system prompt, and how much of each.

use serde::{Deserialize, Serialize};

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
    /// Why it has no text, where it is not missing: `leads outside of the workspace`.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(optional))]
    pub problem: Option<String>,
}

/// A file as it stands in a prompt: a tag, or a line that says why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    /// Its path.
    pub path: String,
    /// What stands there.
    pub text: String,
}

/// How much of the files the prompt has, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// The files as tags, in their order. What is cut, left out, missing or not readable is a line.
pub(super) fn pieces(files: &[&PromptFile], caps: FileCaps) -> Vec<FilePiece> {
    let mut left = caps.total;
    files
        .iter()
        .filter_map(|file| {
            Some(FilePiece { path: file.path.clone(), text: text(file, caps, &mut left)? })
        })
        .collect()
}

fn text(file: &PromptFile, caps: FileCaps, left: &mut usize) -> Option<String> {
    let path = || one_line(&file.path);
    let content = match (&file.content, &file.problem) {
        (Some(content), _) => content,
        (None, Some(problem)) => {
            return Some(format!("[{} is not read: {}]", path(), one_line(problem)));
        }
        (None, None) => return Some(format!("[{} is missing]", path())),
    };
    if content.trim().is_empty() {
        return None;
    }
    let all = content.chars().count();
    let most = caps.per_file.min(*left);
    if all > most && most < LEAST {
        return Some(format!("[{} is left out: {all} characters]", path()));
    }
    *left = left.saturating_sub(all.min(most));
    Some(file_tag(&file.path, &cut(content, all, most)))
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
