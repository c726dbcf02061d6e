//! Patches for JavaScript: a patch is applied to texts in memory, on a blocking thread, and answered through the hub.
//!
//! It must never read or write a file.

use std::collections::HashMap;
use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json as object};

use super::errors::js_error;
use super::hub::NativeHub;
use super::reply::{json, reply};
use base::error::{EngineError, ErrorCode};
use model::from_json;
use patch::{ChangeKind, FileChange, HunkReport, Leniency, PatchError};

#[derive(Deserialize)]
struct Args {
    patch: String,
    files: HashMap<String, String>,
}

#[napi]
impl NativeHub {
    /// Applies a patch to texts; answers request `id` with a `PatchOutcome`. `args`: the JSON of `{ patch, files }`.
    #[napi(catch_unwind)]
    pub fn apply_patch(&self, id: u32, args: String) -> Result<()> {
        let Args { patch, files } =
            from_json(&args).map_err(|error| js_error(&EngineError::option(error)))?;
        let hub = Arc::clone(self.core());
        self.tasks().spawn(async move {
            let done = tokio::task::spawn_blocking(move || outcome(&patch, &files)).await;
            let answer = done.map_err(|_panic| {
                let message = "a patch failed inside; its message is on standard error";
                EngineError::new(ErrorCode::Internal, message)
            });
            reply(&hub, id, answer.and_then(|outcome| json(&outcome)));
        });
        Ok(())
    }
}

fn outcome(text: &str, files: &HashMap<String, String>) -> Value {
    let read = |path: &str| files.get(path).map(|text| text.as_bytes().to_vec());
    let applied = patch::parse(text.as_bytes())
        .map_err(|error| vec![error])
        .and_then(|patch| patch::apply(&patch, &read));
    match applied {
        Ok(changes) => {
            let changes: Vec<Value> = changes.iter().map(change).collect();
            object!({ "applied": true, "changes": changes })
        }
        Err(problems) => {
            let problems: Vec<Value> = problems.iter().map(problem).collect();
            object!({ "applied": false, "problems": problems })
        }
    }
}

fn change(change: &FileChange) -> Value {
    let FileChange { path, kind, content, source, hunks } = change;
    let kind = match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
    };
    // The patch and the files are text, so that the result is.
    let content = content.as_ref().map(|bytes| String::from_utf8_lossy(bytes));
    let hunks: Vec<Value> = hunks.iter().map(hunk).collect();
    let mut value = object!({ "path": path, "kind": kind, "content": content, "hunks": hunks });
    if let (Some(source), Some(fields)) = (source, value.as_object_mut()) {
        fields.insert("source".to_owned(), Value::from(source.as_str()));
    }
    value
}

fn hunk(hunk: &HunkReport) -> Value {
    let HunkReport { patch_line, file_line, offset, leniency } = *hunk;
    let ignored = match leniency {
        Leniency::Exact => "nothing",
        Leniency::LineEndings => "line_endings",
        Leniency::TrailingWhitespace => "trailing_whitespace",
        Leniency::Whitespace => "whitespace",
        Leniency::Punctuation => "punctuation",
    };
    object!({ "patchLine": patch_line, "fileLine": file_line, "offset": offset, "ignored": ignored })
}

fn problem(error: &PatchError) -> Value {
    object!({ "line": error.line, "message": error.problem.to_string() })
}
