//! The errors of this crate: what a model reads when a tool fails, and why a workspace cannot be opened.
//!
//! A message must never hold the content of a file.

/// Why a tool failed, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(String);

impl ToolError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Why a workspace cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    /// The option: `workspace`, `readRoots[0]`.
    pub field: String,
    /// What failed, and what to do.
    pub message: String,
}

/// The longest path that a message quotes.
const MAX_QUOTED: usize = 200;

/// A path for a message.
pub(crate) fn quoted(path: &str) -> String {
    let mut chars = path.chars();
    let mut text: String = chars.by_ref().take(MAX_QUOTED).collect();
    if chars.next().is_some() {
        text.push('…');
    }
    text
}

/// The message of a system error about `path`.
#[cfg(target_os = "linux")]
pub(crate) fn system(path: &str, error: rustix::io::Errno) -> ToolError {
    use rustix::io::Errno;
    let path = quoted(path);
    ToolError::new(match error {
        Errno::NOENT => format!("File not found: {path}"),
        Errno::XDEV => format!("`{path}` leads outside of the workspace; use a path in it"),
        Errno::LOOP => {
            format!("`{path}` leads through too many symbolic links, or through `/proc`")
        }
        Errno::NOTDIR => format!("a part of `{path}` is not a directory"),
        Errno::ISDIR => format!("`{path}` is a directory"),
        Errno::ACCESS | Errno::PERM => format!("there is no permission for `{path}`"),
        Errno::NAMETOOLONG => format!("`{path}` is too long for a path, or one of its names is"),
        other => format!("`{path}`: {}", std::io::Error::from(other)),
    })
}
