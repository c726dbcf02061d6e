//! The words of fixed lists in the rows of turns, messages and calls: the tables have their numbers, and the views the words.
//!
//! A list must never change its order, because the numbers are in files; the views of the schema have the same numbers.

use crate::sqlite::error::Stored;
use model::{StorageError, StorageErrorKind};

/// The words of `turn_type`.
pub(crate) const TURN_TYPES: [&str; 2] = ["normal", "compaction"];
/// The words of `status`.
pub(crate) const STATUSES: [&str; 5] = ["pending", "streaming", "completed", "aborted", "failed"];
/// The words of `role`.
pub(crate) const ROLES: [&str; 3] = ["unified", "manager", "worker"];
/// The words of `stop_reason`.
pub(crate) const STOP_REASONS: [&str; 6] =
    ["end_turn", "max_tokens", "tool_use", "timeout", "aborted", "error"];
/// The words of `error_kind`.
pub(crate) const ERROR_KINDS: [&str; 7] = [
    "context_overflow",
    "auth_failure",
    "rate_limit",
    "model_error",
    "timeout",
    "compaction_failure",
    "unknown",
];

/// The words of a message's `role`.
pub(crate) const MESSAGE_ROLES: [&str; 4] = ["user", "assistant", "system", "tool"];
/// The words of a call's `status`.
pub(crate) const CALL_STATUSES: [&str; 4] = ["pending", "running", "completed", "failed"];
/// The words of `replay`.
pub(crate) const REPLAYS: [&str; 4] = ["pure", "idempotent", "reconcilable", "unsafe"];

/// The number of a word.
///
/// # Errors
/// `storage_constraint` for a word that is not in the list.
pub(crate) fn number(words: &[&str], word: &str) -> Stored<i64> {
    let at = words.iter().position(|it| *it == word).and_then(|at| i64::try_from(at).ok());
    at.ok_or_else(|| {
        StorageError::new(
            StorageErrorKind::Constraint,
            format!("`{word}` is not one of {}", words.join(", ")),
        )
    })
}

/// The word with that number.
pub(crate) fn word<'w>(words: &[&'w str], number: i64) -> Option<&'w str> {
    usize::try_from(number).ok().and_then(|at| words.get(at)).copied()
}
