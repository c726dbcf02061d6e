//! What the server's errors mean: the kind of each for the caller, and whether a statement is worth another try.
//!
//! The texts have the server's own sentence and its SQLSTATE. They must never have a value of a row, nor a password.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use model::{StorageError, StorageErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The state of a statement that a moved ledger refuses.
const MOVED: &str = "NX001";

/// The answer of the ledger.
pub(crate) type Stored<T> = Result<T, StorageError>;

/// Why a statement has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The ledger refuses it.
    Refused(StorageError),
    /// The server or the connection failed.
    Server(Error),
    /// The server did not answer in this time, and the connection was given up.
    Unanswered(Duration),
    /// No host accepted a connection in this time.
    NotConnected(Duration),
    /// No connection of the pool became free in this time.
    Busy(Duration),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// Whether the same statement may succeed in another try: the connection or the server ended, or the transaction lost
/// against another one. Whether the first try took effect is unknown then.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.code() {
        None => {
            let io = std::error::Error::source(error).and_then(|it| it.downcast_ref::<io::Error>());
            // A certificate that was refused is refused again, and after a time-out too much time has passed.
            let is_refused = |error: &io::Error| {
                use io::ErrorKind::{InvalidData, InvalidInput, TimedOut};
                matches!(error.kind(), InvalidData | InvalidInput | TimedOut)
            };
            error.is_closed() || io.is_some_and(|error| !is_refused(error))
        }
        Some(state) => {
            state.code().starts_with("08")
                || [
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::T_R_DEADLOCK_DETECTED,
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::TOO_MANY_CONNECTIONS,
                    // A primary that became a standby: the next connection may find the new primary.
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                ]
                .contains(state)
        }
    }
}

/// The error of a statement that did `doing`.
pub(crate) fn stored(doing: impl Display, error: &Error) -> StorageError {
    let Some(server) = error.as_db_error() else {
        let why = std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        let message =
            format!("could not {doing}: {why}; check that the server runs and is reachable");
        return StorageError::new(StorageErrorKind::Io, message);
    };
    if server.code().code() == MOVED {
        return StorageError::new(StorageErrorKind::Moved, server.message());
    }
    let (kind, remedy) = remedy(server.code());
    let (code, message) = (server.code().code(), server.message());
    StorageError::new(
        kind,
        format!("could not {doing}: the server reports `{message}` ({code}); {remedy}"),
    )
}

fn remedy(state: &SqlState) -> (StorageErrorKind, &'static str) {
    let code = state.code();
    match code {
        "53100" => (StorageErrorKind::Full, "free space on the server's disk and try again"),
        "25006" => (StorageErrorKind::ReadOnly, "connect to the primary server"),
        "42501" => (StorageErrorKind::ReadOnly, "grant the role the rights on the schema"),
        "55P03" | "40001" | "40P01" => {
            (StorageErrorKind::Locked, "another process holds the lock; try again")
        }
        "22021" | "22P05" => {
            (StorageErrorKind::Constraint, "PostgreSQL stores no text with the character U+0000")
        }
        "28000" | "28P01" => {
            (StorageErrorKind::Io, "check the user, the password and `pg_hba.conf`")
        }
        "3D000" => (StorageErrorKind::Io, "create the database, or name another one"),
        _ if code.starts_with("23") => {
            (StorageErrorKind::Constraint, "the row breaks a rule of the schema")
        }
        _ if code.starts_with("XX") => (StorageErrorKind::Corrupt, "see the server's log"),
        _ => (StorageErrorKind::Io, "see the server's log, and try again"),
    }
}

/// The error of a statement whose time has passed while it did `doing`.
pub(crate) fn late(doing: impl Display, what: &str, limit: Duration) -> StorageError {
    let limit = limit.as_millis();
    let message = format!(
        "could not {doing}: {what} within {limit} ms; check that the server runs and is reachable, or raise `ledger.timeoutMs`"
    );
    StorageError::new(StorageErrorKind::Io, message)
}

/// The error for a stored value that this version cannot read.
pub(crate) fn damaged(what: impl Display) -> StorageError {
    let message = format!("{what}; the ledger is damaged: restore a backup");
    StorageError::new(StorageErrorKind::Corrupt, message)
}

/// The error after the ledger was closed.
pub(crate) fn closed() -> StorageError {
    StorageError::new(StorageErrorKind::Closed, "the ledger is closed; open the engine again")
}

/// The error of a call that this ledger does not have yet.
pub(crate) fn unsupported(what: &str, instead: &str) -> StorageError {
    let message = format!("a ledger in PostgreSQL does not have {what}; {instead}");
    StorageError::new(StorageErrorKind::Unsupported, message)
}
