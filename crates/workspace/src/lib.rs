//! The file tools of coding agents (`read`, `write`, `edit`, `ls`, `find`, `grep`, `apply_patch`) beneath directory handles, as blocking functions.
//!
//! It must never open by a path that it has checked as a string: the kernel resolves each path beneath a handle
//! (docs/guide/coding-tools.md). It must never block for longer than the disk: FIFOs, devices and sockets are not opened.
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
mod read;
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
mod write;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod workspace;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod workspace;

pub use cancel::Cancel;
pub use error::{OpenError, ToolError};
pub use output::{Block, Output};
pub use params::WorkspaceOptions;
pub use workspace::Workspace;

#[cfg(test)]
mod tests;
