//! A new file of ours: written whole under another name beside its place, then moved there.
//!
//! It must never overwrite a file, nor leave a part of one behind.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{self, Stored};
use super::file;
use crate::clock::Clock;
use crate::model::{StorageError, StorageErrorKind};

/// Lets `make` fill a file that only its owner can read, and moves it to `to`. Gives its place and what `make` gave.
///
/// # Errors
/// `storage_exists` where something is there already, before and after; what `make` says; any of storage.
pub(super) fn write<T>(
    to: &Path,
    clock: &Clock,
    make: impl FnOnce(&Path) -> Stored<T>,
) -> Stored<(PathBuf, T)> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(exists(to));
    }
    let to = file::resolve(to)?;
    let draft = file::companion(&to, &format!(".new-{}", clock.new_id()));
    let writing = |error| error::file(&format!("write `{}`", to.display()), &error);
    let made = file::create_private(&draft).map_err(writing).and_then(|()| make(&draft)).and_then(
        |made| match file::move_into_place(&draft, &to).map_err(writing)? {
            true => Ok(made),
            false => Err(exists(&to)),
        },
    );
    if made.is_err() {
        remove(&draft);
    }
    made.map(|made| (to, made))
}

/// Takes a draft away, with what SQLite may have put beside it.
pub(super) fn remove(draft: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        // Best effort: what is left of a draft harms nobody.
        let _ = fs::remove_file(file::companion(draft, suffix));
    }
}

fn exists(path: &Path) -> StorageError {
    StorageError::new(
        StorageErrorKind::Exists,
        format!("`{}` is there already; pass a path where nothing is", path.display()),
    )
}
