//! Who may change a workspace by patches: one at a time, among all processes.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::root::Root;

/// The right to change a workspace by patches: held by one process at a time, and given back when it ends.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) root: OwnedFd,
}

impl Lock {
    /// Nothing while another process has it.
    pub(super) fn acquire(root: &Root) -> Result<Option<Self>, Errno> {
        let root = root.open_path(Path::new("."))?.into_directory()?;
        match rustix::fs::flock(&root, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { root })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
