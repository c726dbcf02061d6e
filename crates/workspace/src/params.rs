//! The options of a workspace and the parameters of its tools, read from JSON. It must never open anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::ToolError;

/// What a workspace is made of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceOptions {
    /// The directory that the tools read and write, absolute.
    pub workspace: PathBuf,
    /// Directories that they only read, absolute.
    #[serde(default)]
    pub read_roots: Vec<PathBuf>,
    /// Files that they neither read nor write, with SQLite's files beside each: a ledger.
    #[serde(default)]
    pub protect: Vec<PathBuf>,
    /// The shells of `bash`; without them there is no such tool.
    #[serde(default)]
    pub shell: Option<ShellOptions>,
    /// Where the directory of its temporary files is made, absolute. Without it there is no `bash`, and no result is put into a file.
    #[serde(default)]
    pub temporary: PathBuf,
}

/// How `bash` runs commands.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShellOptions {
    /// Whether shells are restricted.
    pub sandbox: Sandbox,
    /// TCP is allowed.
    pub network: bool,
    /// The time of a command that names none.
    pub timeout_ms: u64,
    /// What is left running by a command that ends.
    pub background: Background,
    /// The environment of a shell, but for its temporary directory.
    pub environment: BTreeMap<String, String>,
    /// A restricted shell has a `HOME` of its own: it could not read the user's.
    pub own_home: bool,
    /// What each process of a command may use.
    #[serde(default)]
    pub limits: ShellLimits,
}

/// What each process of a command may use, and how many there may be; the system's own limits where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShellLimits {
    /// Seconds of processor time.
    #[serde(default)]
    pub cpu_seconds: Option<u64>,
    /// The longest file that it writes.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Its address space.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Files that it has open at once.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Processes that a command runs at once.
    #[serde(default)]
    pub processes: Option<u64>,
}

/// Whether shells are restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// No shell runs where the kernel cannot restrict it.
    Required,
    /// As far as the kernel can.
    Preferred,
    /// Not at all.
    Off,
}

/// What happens to the processes that a command leaves running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// They are ended.
    End,
    /// They go on.
    Keep,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReadParams {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) offset: Option<f64>,
    #[serde(default)]
    pub(crate) limit: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WriteParams {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditParams {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) old_text: Option<String>,
    #[serde(default)]
    pub(crate) new_text: Option<String>,
    #[serde(default)]
    pub(crate) edits: Option<Vec<Edit>>,
}

/// One replacement of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edit {
    pub(crate) old_text: String,
    pub(crate) new_text: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct LsParams {
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplyPatchParams {
    pub(crate) patch: String,
    #[serde(default)]
    pub(crate) dry_run: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BashParams {
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) timeout: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FindParams {
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrepParams {
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) glob: Option<String>,
    #[serde(default)]
    pub(crate) ignore_case: Option<bool>,
    #[serde(default)]
    pub(crate) literal: Option<bool>,
    #[serde(default)]
    pub(crate) context: Option<f64>,
    #[serde(default)]
    pub(crate) limit: Option<f64>,
}

/// The most replacements of one call.
const MAX_EDITS: usize = 1_000;

impl EditParams {
    /// The path, and the replacements: `oldText` with `newText`, then `edits`.
    pub(crate) fn into_edits(self) -> Result<(String, Vec<Edit>), ToolError> {
        let mut edits = Vec::new();
        match (self.old_text, self.new_text) {
            (Some(old_text), Some(new_text)) => edits.push(Edit { old_text, new_text }),
            (None, None) => {}
            (Some(_), None) => return Err(ToolError::new("`newText` is missing")),
            (None, Some(_)) => return Err(ToolError::new("`oldText` is missing")),
        }
        edits.extend(self.edits.unwrap_or_default());
        if edits.is_empty() {
            return Err(ToolError::new(
                "there is nothing to replace; give `oldText` and `newText`, or `edits`",
            ));
        }
        if edits.len() > MAX_EDITS {
            return Err(ToolError::new(format!(
                "`edits` has {} entries, and one call may have {MAX_EDITS}",
                edits.len()
            )));
        }
        if edits.iter().any(|edit| edit.old_text.is_empty()) {
            return Err(ToolError::new(
                "`oldText` is empty; give the text to replace, or use `write` for a new file",
            ));
        }
        Ok((self.path, edits))
    }
}

/// The parameters of a tool.
pub(crate) fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, ToolError> {
    serde_json::from_str(json).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        ToolError::new(format!("the arguments cannot be read: {message}"))
    })
}

/// A count that a model gave as a number: whole, and at least 0.
pub(crate) fn count(value: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes an integer by saturation, which is what a count needs"
    )]
    let count = value as usize;
    count
}
