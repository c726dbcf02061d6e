//! Edits a file: reads it, replaces, and writes it in its own encoding. It must never replace a file that changed meanwhile, or one
//! that it cannot write back byte for byte.

use serde_json::json;

use super::diff::diff;
use super::fold::Pass;
use super::replace::{normalized, outcome as outcome_in, replace};
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted};
use crate::output::{Outcome, Output};
use crate::params::{Edit, EditParams};
use crate::read::{MAX_WHOLE, read_start, read_whole};
use crate::root::{Create, Opened, Target, changed};
use crate::text::{Encoding, detect};
use crate::workspace::Workspace;

/// Replaces texts in a file.
pub(crate) fn edit(
    workspace: &Workspace,
    params: EditParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let (path, edits) = params.into_edits()?;
    let (root, relative) = workspace.writable(&path)?;
    let _writing = workspace.lock_writes();
    let Content { opened, encoding, text } = Content::read(workspace, &path, cancel)?;
    let target = Target::find(root, workspace.protected(), &relative, Create::Nothing, &path)?;
    if !target.is_still(&opened) {
        return Err(changed(&path));
    }
    let replaced = replace(&text, &edits, &quoted(&path), cancel)?;
    target.replace(&encoding.encode(&replaced.text), true, cancel, &path)?;
    let shown = diff(&normalized(&text), &normalized(&replaced.text));
    let mut details = json!({ "diff": shown.text, "firstChangedLine": shown.first_changed_line });
    if let (Pass::TrailingWhitespace | Pass::LineEndings | Pass::Punctuation, Some(fields)) =
        (replaced.forgiven, details.as_object_mut())
    {
        fields.insert("forgiven".to_owned(), json!(replaced.forgiven));
    }
    Ok(Output::text(done(&path)).with_details(Some(details)))
}

/// Whether an edit in doubt happened.
pub(crate) fn outcome(
    workspace: &Workspace,
    params: EditParams,
    cancel: &Cancel,
) -> Result<Outcome, ToolError> {
    let (path, edits): (String, Vec<Edit>) = params.into_edits()?;
    let content = Content::read(workspace, &path, cancel)?;
    Ok(match outcome_in(&content.text, &edits, cancel)? {
        "done" => Outcome::Done(Output::text(done(&path))),
        "not_done" => Outcome::NotDone,
        _ => Outcome::Unknown,
    })
}

fn done(path: &str) -> String {
    format!("Successfully replaced text in {path}.")
}

/// A text file.
struct Content {
    opened: Opened,
    encoding: Encoding,
    text: String,
}

impl Content {
    fn read(workspace: &Workspace, path: &str, cancel: &Cancel) -> Result<Self, ToolError> {
        let opened = workspace.open_to_read(path)?;
        if opened.is_directory() {
            return Err(ToolError::new(format!("`{}` is a directory", quoted(path))));
        }
        let mut file = opened.file(path)?;
        let start = read_start(&mut file, path)?;
        let encoding = detect(&start);
        let bytes = read_whole(start, &mut file, path, cancel, MAX_WHOLE)?;
        let text = encoding.and_then(|encoding| Some((encoding, encoding.decode(&bytes)?)));
        let Some((encoding, text)) = text else {
            let path = quoted(path);
            return Err(ToolError::new(format!(
                "`{path}` is not a text in UTF-8 or UTF-16, and cannot be edited"
            )));
        };
        Ok(Self { opened, encoding, text })
    }
}
