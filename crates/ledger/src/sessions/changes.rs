//! What a host sets on a session: creating one without a turn, and its metadata. It must never move a pointer.

use rusqlite::Connection;

use crate::rows::metadata_rows;
use crate::sessions::pointers::{self, unknown_session};
use crate::sessions::{aliases, moved};
use crate::sqlite::error::Stored;
use model::{MetadataChange, SessionChange, StorageError, StorageErrorKind, names_no_session};

/// Creates a session without a turn.
///
/// # Errors
/// `storage_constraint` for a label that is taken, or that names no session; `ledger_moved`.
pub(crate) fn create(
    connection: &Connection,
    label: &str,
    with: &SessionChange,
    now: i64,
) -> Stored<()> {
    moved::refuse(connection)?;
    let refused = |why: &str| {
        let message = format!("session `{label}` {why}; pass another label");
        StorageError::new(StorageErrorKind::Constraint, message).at("label")
    };
    if names_no_session(label) {
        return Err(refused("would be a run in no session"));
    }
    if pointers::is_taken(connection, label)? || aliases::is_alias(connection, label)? {
        return Err(refused("exists already"));
    }
    pointers::create(connection, label, None, now, false)?;
    set(connection, label, with)
}

/// Sets what is given of the session.
///
/// # Errors
/// `unknown_session`; `ledger_moved`.
pub(crate) fn update(connection: &Connection, label: &str, with: &SessionChange) -> Stored<()> {
    moved::refuse(connection)?;
    if names_no_session(label) || pointers::visible_head(connection, label)?.is_none() {
        return Err(unknown_session(label));
    }
    set(connection, label, with)
}

fn set(connection: &Connection, label: &str, with: &SessionChange) -> Stored<()> {
    match &with.metadata {
        MetadataChange::None => Ok(()),
        MetadataChange::Remove => metadata_rows::set_on_session(connection, label, None),
        MetadataChange::Replace(metadata) => {
            metadata_rows::set_on_session(connection, label, Some(metadata))
        }
    }
}
