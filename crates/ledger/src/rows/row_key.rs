//! The keys of messages and tool calls: the number of their turn, and their position in it.
//!
//! It must never make a key of one turn that another turn could have.

use crate::sqlite::error::Stored;
use model::{StorageError, StorageErrorKind};

/// The bits of a position. The views of the schema have the same number.
pub(crate) const POSITION: u32 = 20;

/// A condition on a key: it is one of the turn `t`.
pub(crate) const OF_TURN: &str = "BETWEEN t.n << 20 AND t.n << 20 | 1048575";

/// The key of the message or call at `sequence` in the turn with the number `turn`.
///
/// # Errors
/// `storage_constraint` for a position that no key has.
pub(crate) fn key(turn: i64, sequence: u32) -> Stored<i64> {
    if sequence >> POSITION != 0 {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("a turn cannot have a message or a tool call at position {sequence}"),
        ));
    }
    Ok(turn << POSITION | i64::from(sequence))
}

/// The number of the turn that a key names.
pub(crate) fn turn_of(key: i64) -> i64 {
    key >> POSITION
}

/// The position in the turn.
pub(crate) fn sequence_of(key: i64) -> u32 {
    u32::try_from(key & ((1 << POSITION) - 1)).unwrap_or_default()
}
