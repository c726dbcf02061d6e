//! Errors of the files that are read and written. A message must never have the content of a line.

use base::error::is_out_of_descriptors;
use model::{StorageError, StorageErrorKind};

/// The result of everything in this crate.
pub type Stored<T> = Result<T, StorageError>;

/// The error of a ledger that was moved to `place`.
#[must_use]
pub fn moved(place: &str) -> StorageError {
    let message = format!("the ledger was moved to {place}; open that one");
    StorageError::new(StorageErrorKind::Moved, message)
}

/// An error of the file system while `doing` something.
pub(crate) fn file(doing: &str, error: &std::io::Error) -> StorageError {
    use std::io::ErrorKind;
    let (kind, remedy) = match error.kind() {
        _ if is_out_of_descriptors(error) => (
            StorageErrorKind::NoDescriptors,
            "close files or connections, or raise the process's limit (`ulimit -n`)",
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            (StorageErrorKind::ReadOnly, "make the ledger's file and folder writable")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (StorageErrorKind::Full, "free space on the disk and try again")
        }
        _ => (StorageErrorKind::Io, "check the disk and the ledger's path"),
    };
    StorageError::new(kind, format!("could not {doing}: {error}; {remedy}"))
}
