//! The turn of a line, reduced to what a ledger can store.
//!
//! It must never accept a turn that `verify()` would reject.

use super::record::TurnRecord;
use super::report::Problems;
use crate::error::Stored;
use model::{Role, StorageError, StorageErrorKind, TransferCode};

/// Removes references to messages that the turn does not have.
///
/// # Errors
/// `storage_constraint` for a turn that no version of this engine writes.
pub(crate) fn fitted(
    problems: &mut Problems,
    line: Option<u64>,
    record: &TurnRecord,
) -> Stored<TurnRecord> {
    let refused = |why: &str| {
        let message = format!("turn `{}` {why}", record.id);
        Err(StorageError::new(StorageErrorKind::Constraint, message))
    };
    if !matches!(record.status.as_str(), "completed" | "aborted" | "failed")
        || record.completed_at.is_none()
        || record.stop_reason.is_none()
    {
        return refused("has not ended, or has no end time or stop reason");
    }
    if record.compaction.is_some() && record.messages.len() != 1 {
        return refused("is a compaction with other messages than its summary");
    }
    let mut turn = record.clone();
    let has = |id: &String| record.messages.iter().any(|it| it.message.id == *id);
    turn.query_message_ids.retain(has);
    turn.response_message_id.take_if(|id| {
        let mut messages = record.messages.iter();
        !messages.any(|it| it.message.id == **id && it.message.role == Role::Assistant)
    });
    if turn.query_message_ids.len() < record.query_message_ids.len()
        || turn.response_message_id != record.response_message_id
    {
        let message = format!(
            "turn `{}` names a question or an answer that it does not have; the reference is dropped",
            record.id
        );
        problems.add(line, TransferCode::LostReference, message);
    }
    Ok(turn)
}
