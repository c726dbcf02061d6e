//! W4 (docs/rules/sessions-and-ledger.md#commit-points): writes a finished run to the ledger, in the transaction that the
//! writer has opened.
//!
//! The session's pointer is compared and set; a turn never follows a head that its run did not know. A turn that was opened
//! is finished under its lease; any other turn is written whole. It must never write a part of a turn: every check comes
//! before the first row, and an error after it undoes the job.

use rusqlite::Connection;

use crate::journal::message_ids::MessageIds;
use crate::journal::write::{Row, insert_message, insert_tool_call, insert_turn};
use crate::journal::{cache_chain, compaction, open_turns};
use crate::journal_rows::run_rows::RunRow;
use crate::rows::context_layers;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::turn_parents::{is_compacted, parent_of};
use crate::sessions::{moved, pointers};
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{
    CommitReceipt, CompactionUsage, MessageLayers, StorageError, StorageErrorKind, TurnEnd,
};
use turn::stale_head::{Ending, Landing};

/// Whether the commit of the turn stores it beside its session's thread.
pub(crate) fn lands_beside(connection: &Connection, turn: &TurnEnd) -> Stored<bool> {
    let head = pointers::head(connection, &turn.header.session_label)?.flatten();
    Ok(matches!(landing(connection, turn, head.as_deref()), Landing::Beside(_)))
}

/// Where the turn is stored while `head` is the head of its session.
fn landing<'a>(connection: &Connection, turn: &'a TurnEnd, head: Option<&'a str>) -> Landing<'a> {
    let ending = Ending {
        head,
        expected: turn.header.expected_head.as_deref(),
        parent: turn.header.parent_turn_id.as_deref(),
        moves: turn.move_pointer,
        compacts: turn.compaction.is_some(),
        on_stale_head: turn.on_stale_head,
    };
    let compacted = ending.is_stale() && is_compacted(connection, ending.head, ending.expected);
    ending.landing(compacted)
}

/// Writes the turn, its messages and tool calls, and moves the session's pointer (docs/rules/turns-and-streams.md#session-pointer).
/// `run` is the run of a turn that was opened; its lease was checked.
///
/// # Errors
/// `stale_head` when the session's head has changed and the turn
/// may not become a branch; `unknown_turn` for a parent that does not exist, `storage_constraint` for an id that exists
/// already. Nothing is written then.
pub(crate) fn commit_turn(
    connection: &Connection,
    turn: &TurnEnd,
    run: Option<&RunRow>,
    clock: &Clock,
) -> Stored<CommitReceipt> {
    if run.is_none() {
        moved::refuse(connection)?;
    }
    let session = pointers::head(connection, &turn.header.session_label)?;
    let head = session.clone().flatten();
    let (mut parent_id, moves, stale_head) = match landing(connection, turn, head.as_deref()) {
        Landing::InThread(parent) => (parent.map(ToOwned::to_owned), turn.move_pointer, None),
        Landing::Beside(parent) => {
            let stale_head = stale(turn, head.as_deref(), "was stored as a branch");
            (parent.map(ToOwned::to_owned), false, Some(stale_head))
        }
        Landing::Refused => {
            return Err(stale(turn, head.as_deref(), "was not written; run it again"));
        }
    };
    let mut parent = parent_id.as_deref().map(|id| parent_of(connection, id)).transpose()?;
    if session.is_none() {
        let (label, now) = (&turn.header.session_label, turn.completed_at);
        pointers::create(connection, label, parent_id.as_deref(), now, false)?;
    }
    let mut new_head = head;
    if let Some(result) = &turn.compaction {
        let Some(before) = parent_id.as_deref() else {
            return Err(StorageError::new(
                StorageErrorKind::Constraint,
                format!(
                    "turn `{}` has a compaction but no parent that could be compacted",
                    turn.turn_id
                ),
            ));
        };
        let id = clock.new_id();
        parent = Some(compaction::write_turn(
            connection,
            &turn.header,
            (result, &CompactionUsage::of_result(result)),
            (&id, before),
            clock,
        )?);
        move_pointer(connection, turn, &id)?;
        parent_id = Some(id.clone());
        new_head = Some(id);
    }
    match run {
        None => {
            open_turns::refuse_open(connection, &turn.turn_id)?;
            let row = Row::ended(turn, parent_id.as_deref());
            let number = insert_turn(connection, &row, parent.as_ref())?;
            let (mut ids, mut shared) = (MessageIds::default(), SharedValues::default());
            for message in &turn.messages {
                ids.insert_new(&message.id)?;
                insert_message(connection, number, message, &mut shared)?;
            }
            if let Some(MessageLayers { message_id, json }) = &turn.settings.layers {
                context_layers::set(connection, number, message_id, json)?;
            }
            for call in &turn.tool_calls {
                ids.expect(Some(call.message_id.as_str()).filter(|id| !id.is_empty()))?;
                insert_tool_call(connection, number, call, &shared, clock)?;
            }
        }
        // Without an open turn, the lease is free for every process, and this one may use it again.
        Some(run) => {
            let parent = (parent_id.as_deref(), parent.as_ref());
            open_turns::finish(connection, run, turn, parent, clock)?;
        }
    }
    if let Some(result) = &turn.compaction
        && let Some(id) = &parent_id
    {
        // Last, because the first kept turn may be this very turn.
        compaction::write_row(connection, id, result)?;
    }
    if moves {
        move_pointer(connection, turn, &turn.turn_id)?;
        new_head = Some(turn.turn_id.clone());
    } else if run.is_some() {
        pointers::opened(connection, &turn.header.session_label)?;
    }
    if let Some(step) = &turn.cache {
        let at_turn = new_head.as_deref() == Some(turn.turn_id.as_str());
        cache_chain::write(connection, &turn.header.session_label, &turn.turn_id, step, at_turn)?;
    }
    Ok(CommitReceipt { turn_id: turn.turn_id.clone(), head: new_head, stale_head })
}

fn stale(turn: &TurnEnd, head: Option<&str>, outcome: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleHead,
        format!(
            "session `{}` moved from `{}` to `{}` since the run began, and turn `{}` {outcome}",
            turn.header.session_label,
            turn.header.expected_head.as_deref().unwrap_or("no turn"),
            head.unwrap_or("no turn"),
            turn.turn_id
        ),
    )
}

fn move_pointer(connection: &Connection, turn: &TurnEnd, to: &str) -> Stored<()> {
    pointers::move_pointer(connection, &turn.header.session_label, to, turn.completed_at)
}
