//! Files of the process that no coding tool touches, in whatever workspace: the ledgers that are open. It must never forget one
//! that is open twice.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

static PATHS: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// While it exists, its file is protected.
#[derive(Debug)]
pub struct ProtectedPath(PathBuf);

/// Protects a file, with SQLite's files beside it, in every workspace of this process.
#[must_use]
pub fn protect(path: PathBuf) -> ProtectedPath {
    let path = std::path::absolute(&path).unwrap_or(path);
    PATHS.write().unwrap_or_else(PoisonError::into_inner).push(path.clone());
    ProtectedPath(path)
}

impl Drop for ProtectedPath {
    fn drop(&mut self) {
        let mut paths = PATHS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = paths.iter().position(|path| *path == self.0) {
            paths.swap_remove(at);
        }
    }
}

/// The files that are protected now.
pub(crate) fn of_process() -> Vec<PathBuf> {
    PATHS.read().unwrap_or_else(PoisonError::into_inner).clone()
}
