//! The rows of a queue: a new message, and how a turn has ended for the messages that it took.
//!
//! A ledger stores them. It must never read a clock.

use crate::queue::{Admission, TurnEnd as Ended};
use model::{
    Block, Enqueued, FailedReason, FailureKind, ItemStatus, NewItem, QueueEnd, StopReason,
    StoredItem, TurnEnd,
};

/// How long an event is remembered, in milliseconds: seven days.
pub const EVENTS_MS: i64 = 7 * 24 * 3_600 * 1_000;

/// The channel and the account of a message's event.
#[must_use]
pub fn event_source(new: &NewItem) -> (&str, &str) {
    let route = &new.item.route;
    (route.channel.as_deref().unwrap_or_default(), route.account.as_deref().unwrap_or_default())
}

/// The row of a new message, and what its sender learns.
#[must_use]
pub fn new_row(
    new: &NewItem,
    (session_label, is_fork): (String, bool),
    admission: Admission,
    now: i64,
) -> (StoredItem, Enqueued) {
    let mut row = StoredItem {
        item: new.item.clone(),
        session_label: session_label.clone(),
        source: new.source.clone(),
        message: new.message.clone(),
        request: new.request.clone(),
        event_id: new.event_id.clone(),
        sender: new.sender.clone(),
        status: ItemStatus::Pending,
        reason: None,
        detail: None,
        turn_id: None,
        created_at: now,
        claimed_at: None,
        delivered_at: None,
    };
    let enqueued = match admission {
        Admission::Rejected => {
            row.status = ItemStatus::Failed;
            row.reason = Some(FailedReason::Rejected);
            Enqueued::Rejected { session_label }
        }
        Admission::Queued { not_before, dropped } => {
            row.item.not_before = not_before;
            Enqueued::Queued { session_label, is_fork, dropped }
        }
    };
    (row, enqueued)
}

/// The text of a turn's last answer; empty where that was written before the end, because the turn has not ended with it.
#[must_use]
pub fn answer(turn: &TurnEnd) -> String {
    let id = turn.response_message_id.as_ref();
    let answer = turn.messages.iter().find(|message| Some(&message.id) == id);
    answer.iter().flat_map(|message| &message.blocks).filter_map(Block::as_text).collect()
}

/// How a turn has ended after which its session's head is `head`.
#[must_use]
pub fn how_ended(turn: &TurnEnd, queue: &QueueEnd, head: Option<&str>) -> Ended {
    if head == Some(turn.turn_id.as_str()) {
        return Ended::Moved;
    }
    if turn.stop_reason == StopReason::Aborted {
        return Ended::Aborted;
    }
    if queue.is_interrupted && queue.has_effect {
        return Ended::Interrupted;
    }
    let (kind, is_retryable, retry_after_ms) = match &turn.error {
        Some(error) => (error.detail.kind, error.retryable, error.detail.retry_after_ms),
        // It was answered, and is beside the session's thread.
        None => (FailureKind::Storage, false, None),
    };
    let retry_after_ms = retry_after_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    Ended::Failed { kind, is_retryable, has_effect: queue.has_effect, retry_after_ms }
}
