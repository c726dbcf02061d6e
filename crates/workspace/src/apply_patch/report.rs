//! The result of a patch: what happened to each file, and where a hunk was not exactly where the patch has it.

use std::collections::HashMap;

use patch::{ChangeKind, FileChange, HunkReport, Leniency};
use serde_json::{Value, json};

use crate::edit::diff_texts;
use crate::error::ToolError;
use crate::output::Output;

pub(super) const APPLIED: &str = "The patch was applied.";
/// Bytes of all diffs of a result.
const MAX_DIFFS: usize = 256 * 1024;

pub(super) fn report(
    changes: &[FileChange],
    before: &HashMap<String, Vec<u8>>,
    dry_run: bool,
) -> Result<Output, ToolError> {
    let mut text = String::from(if dry_run {
        "The patch can be applied. Nothing was changed."
    } else {
        APPLIED
    });
    let moved = |path: &String| {
        changes
            .iter()
            .any(|other| other.kind == ChangeKind::Added && other.source.as_ref() == Some(path))
    };
    let mut details = Vec::new();
    let mut diffs = 0;
    for FileChange { path, kind, content, source, hunks } in changes {
        let (mark, kind) = match kind {
            ChangeKind::Added => ('A', "added"),
            ChangeKind::Modified => ('M', "modified"),
            ChangeKind::Deleted => ('D', "deleted"),
        };
        text.push_str(&format!("\n{mark} {path}"));
        if let Some(source) = source {
            text.push_str(&format!(" (from {source})"));
        }
        for hunk in hunks {
            text.extend(deviation(hunk));
        }
        let old = before.get(path).map(Vec::as_slice).unwrap_or_default();
        let mut file = json!({ "path": path, "kind": kind });
        if let Some(fields) = file.as_object_mut() {
            if let Some(source) = source {
                fields.insert("source".to_owned(), json!(source));
            }
            let renamed = source.is_some() || moved(path);
            if diffs < MAX_DIFFS && !renamed {
                let new = content.as_deref().unwrap_or_default();
                let diff = diff_texts(&String::from_utf8_lossy(old), &String::from_utf8_lossy(new));
                diffs += diff.len();
                fields.insert("diff".to_owned(), Value::from(diff));
            }
            let hunks: Vec<Value> = hunks.iter().map(position).collect();
            fields.insert("hunks".to_owned(), Value::from(hunks));
        }
        details.push(file);
    }
    Ok(Output::text(text).with_details(Some(json!({ "dryRun": dry_run, "files": details }))))
}

/// What a hunk needed to be found; nothing where it stood where the patch has it.
fn deviation(hunk: &HunkReport) -> Option<String> {
    let HunkReport { patch_line, file_line, offset, leniency } = *hunk;
    let mut parts = Vec::new();
    if let Some(offset) = offset.filter(|offset| *offset != 0) {
        parts.push(format!("{offset:+} lines"));
    }
    match ignored(leniency) {
        "nothing" => {}
        ignored => parts.push(format!("ignoring {}", ignored.replace('_', " "))),
    }
    (!parts.is_empty()).then(|| {
        format!(
            "\n  the hunk at line {patch_line} of the patch is at line {file_line} ({})",
            parts.join(", ")
        )
    })
}

fn position(hunk: &HunkReport) -> Value {
    let HunkReport { patch_line, file_line, offset, leniency } = *hunk;
    let ignored = ignored(leniency);
    json!({ "patchLine": patch_line, "fileLine": file_line, "offset": offset, "ignored": ignored })
}

fn ignored(leniency: Leniency) -> &'static str {
    match leniency {
        Leniency::Exact => "nothing",
        Leniency::LineEndings => "line_endings",
        Leniency::TrailingWhitespace => "trailing_whitespace",
        Leniency::Whitespace => "whitespace",
        Leniency::Punctuation => "punctuation",
    }
}
