//! What a platform can do for coding tools, as data.

use serde::Serialize;

/// What this platform can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Support {
    /// The tools work at all.
    pub files: bool,
    /// What a sandbox of `bash` restricts.
    pub sandbox: SandboxSupport,
}

/// What a sandbox of `bash` restricts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSupport {
    /// The version of Landlock; 0 where there is none.
    pub landlock: u32,
    /// Reading and writing files.
    pub files: bool,
    /// TCP, unless it is allowed.
    pub tcp: bool,
    /// Signals to processes that the shell did not start.
    pub signals: bool,
}
