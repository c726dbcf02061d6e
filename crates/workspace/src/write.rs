//! The tool `write`: a whole file, replaced at once.

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::output::Output;
use crate::params::WriteParams;
use crate::root::{Create, Target};
use crate::text::format_size;
use crate::workspace::Workspace;

/// The longest content of one call.
const MAX_CONTENT: usize = 64 * 1024 * 1024;

/// Writes a file, and makes the directories before it.
pub(crate) fn write(
    workspace: &Workspace,
    params: &WriteParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let WriteParams { path, content } = params;
    if content.len() > MAX_CONTENT {
        let most = format_size(u64::try_from(MAX_CONTENT).unwrap_or(u64::MAX));
        return Err(ToolError::new(format!("`content` is longer than {most}")));
    }
    let (root, relative) = workspace.writable(path)?;
    let _writing = workspace.lock_writes();
    cancel.check()?;
    let target = Target::find(root, workspace.protected(), &relative, Create::Missing, path)?;
    target.replace(content.as_bytes(), false, cancel, path)?;
    Ok(Output::text(format!("Successfully wrote {} bytes to {path}", content.len())))
}
