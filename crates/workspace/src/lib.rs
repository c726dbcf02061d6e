//! The file tools of coding agents (`read`, `write`, `edit`, `ls`, `find`, `grep`, `apply_patch`, `bash`) beneath directory handles, as blocking functions.
//!
//! It must never open by a path that it has checked as a string: the kernel resolves each path beneath a handle
//! (docs/guide/coding-tools.md). No file tool may block for longer than the disk: FIFOs, devices and sockets are not opened.
#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        unused_imports,
        reason = "the tools run on Linux; elsewhere opening a workspace is refused"
    )
)]

mod cancel;
mod edit;
mod error;
mod output;
mod params;
mod paths;
mod protected_paths;
mod read;
mod server_process;
mod text;

#[cfg(target_os = "linux")]
mod apply_patch;
#[cfg(target_os = "linux")]
mod ls;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod search;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod write;

mod support;
#[cfg(target_os = "linux")]
#[path = "platform/linux.rs"]
mod workspace;
#[cfg(not(target_os = "linux"))]
#[path = "platform/unsupported.rs"]
mod workspace;

pub use cancel::Cancel;
pub use error::{OpenError, ToolError};
pub use output::{Block, Outcome, Output};
pub use params::{Background, Sandbox, ShellLimits, ShellOptions, WorkspaceOptions};
pub use protected_paths::{ProtectedPath, protect};
pub use server_process::{ServerCommand, ServerPipes, ServerProcess};
pub use support::{SandboxSupport, Support};
pub use workspace::{Workspace, support};

#[cfg(test)]
mod tests;
