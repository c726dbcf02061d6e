//! Converts errors of SQLite and of the file system to the ledger's kinds and messages.
//!
//! A message must never contain a value that was bound to a statement: such values are prompts.

use std::fmt::Display;

use rusqlite::ErrorCode;

use base::error::is_out_of_descriptors;
use model::{StorageError, StorageErrorKind};

/// The result of everything in this module.
pub(crate) type Stored<T> = Result<T, StorageError>;

/// An error of SQLite while `doing` something ("commit the turn").
pub(crate) fn sqlite(doing: impl Display, error: &rusqlite::Error) -> StorageError {
    describe(&doing, error)
}

fn describe(doing: &dyn Display, error: &rusqlite::Error) -> StorageError {
    let kind = kind_of(error);
    let remedy = remedy(kind);
    match error {
        // The error's own text would quote the statement.
        rusqlite::Error::SqlInputError { msg, .. } => {
            StorageError::new(kind, format!("could not {doing}: {msg}; {remedy}"))
        }
        _ => StorageError::new(kind, format!("could not {doing}: {error}; {remedy}")),
    }
}

/// Like [`sqlite`], for a statement of a check. The statement is tested, so if SQLite rejects it, the schema or the index of
/// words is damaged.
pub(crate) fn in_check(doing: impl Display, error: &rusqlite::Error) -> StorageError {
    match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) => damaged(&format!("could not {doing}")),
        _ => describe(&doing, error),
    }
}

/// An error of the file system while `doing` something.
pub(crate) fn file(doing: &str, error: &std::io::Error) -> StorageError {
    use std::io::ErrorKind;
    let kind = match error.kind() {
        _ if is_out_of_descriptors(error) => StorageErrorKind::NoDescriptors,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StorageErrorKind::ReadOnly,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageErrorKind::Full,
        _ => StorageErrorKind::Io,
    };
    let remedy = remedy(kind);
    StorageError::new(kind, format!("could not {doing}: {error}; {remedy}"))
}

/// The error for a closed ledger, or one whose writer has ended.
pub(crate) fn closed() -> StorageError {
    StorageError::new(
        StorageErrorKind::Closed,
        "the ledger is closed; open a new engine to use it again",
    )
}

/// The error for a stored value that this version cannot read.
pub(crate) fn damaged(what: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::Corrupt,
        format!("{what}; the ledger is damaged: restore a backup"),
    )
}

/// The class of an error of SQLite. Errors of this crate's row decoding count as damage.
fn kind_of(error: &rusqlite::Error) -> StorageErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StorageErrorKind::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StorageErrorKind::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StorageErrorKind::Locked,
        // SQLite gives no reason, so this tests whether a descriptor is available.
        Some(ErrorCode::CannotOpen) if lacks_descriptors() => StorageErrorKind::NoDescriptors,
        Some(ErrorCode::NotADatabase) => StorageErrorKind::Foreign,
        Some(ErrorCode::DatabaseCorrupt) => StorageErrorKind::Corrupt,
        Some(ErrorCode::ConstraintViolation) if is_raised(error, "duplicate_run") => {
            StorageErrorKind::DuplicateRun
        }
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => StorageErrorKind::Constraint,
        Some(_) => StorageErrorKind::Io,
        None => match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => StorageErrorKind::Corrupt,
            _ => StorageErrorKind::Io,
        },
    }
}

/// Whether a trigger of the schema has raised the error with this text.
fn is_raised(error: &rusqlite::Error, text: &str) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(_, Some(raised)) if raised == text)
}

fn lacks_descriptors() -> bool {
    std::fs::File::open(".").is_err_and(|error| is_out_of_descriptors(&error))
}

fn remedy(kind: StorageErrorKind) -> &'static str {
    match kind {
        StorageErrorKind::Full => "free space on the disk and try again",
        StorageErrorKind::ReadOnly => "make the ledger's file and folder writable",
        StorageErrorKind::Locked => "another process holds the lock; try again",
        StorageErrorKind::Foreign => "pass the path of a ledger, or of a file that does not exist",
        StorageErrorKind::Newer => "update `@nexus/agent-engine`",
        StorageErrorKind::Corrupt => "restore a backup",
        StorageErrorKind::Constraint => "the row breaks a rule of the schema",
        StorageErrorKind::Exists => "pass another path",
        StorageErrorKind::Moved => "open the ledger at its new place",
        StorageErrorKind::Replaced => "close the engine and open the ledger again",
        StorageErrorKind::NotLocal => "pass a path on a local disk",
        StorageErrorKind::ReadExpired => "read in smaller parts",
        StorageErrorKind::NoDescriptors => {
            "close files or connections, or raise the process's limit (`ulimit -n`)"
        }
        StorageErrorKind::InUse
        | StorageErrorKind::InvalidImport
        | StorageErrorKind::StaleHead
        | StorageErrorKind::StaleWriter
        | StorageErrorKind::UnknownTurn
        | StorageErrorKind::UnknownSession
        | StorageErrorKind::UnknownRun
        | StorageErrorKind::EventsExpired
        | StorageErrorKind::DuplicateRun
        | StorageErrorKind::RunInterrupted
        | StorageErrorKind::NotRunning
        | StorageErrorKind::UnknownToolCall
        | StorageErrorKind::UnknownApproval
        | StorageErrorKind::UnknownFact
        | StorageErrorKind::AlreadyDecided
        | StorageErrorKind::AwaitingApproval
        | StorageErrorKind::InvalidQuery
        | StorageErrorKind::Closed
        | StorageErrorKind::Unsupported
        | StorageErrorKind::Io => "check the disk and the ledger's path",
    }
}
