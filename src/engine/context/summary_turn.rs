//! A summary as a turn of the history. It must never write one.

use model::{Block, HistoryTurn, Message, Role, TurnStatus};
use turn::prefix;

/// The hash that identifies a conversation with a summary at its beginning; 0 without a summary.
pub(crate) fn base_of(summary: Option<&HistoryTurn>) -> u64 {
    summary.map_or(0, |summary| prefix::text(&summary.id))
}

/// A summary as the turn that the ledger will return.
pub(crate) fn summary_turn(id: &str, text: &str, now: i64) -> HistoryTurn {
    let message = Message {
        id: id.to_owned(),
        role: Role::User,
        blocks: vec![Block::text(text)],
        sequence: 0,
        created_at: now,
        provenance: None,
        provider_stop_reason: None,
    };
    HistoryTurn {
        id: id.to_owned(),
        status: TurnStatus::Completed,
        edited: false,
        edited_messages: 0,
        messages: vec![message],
    }
}
