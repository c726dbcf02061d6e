//! A compaction in the ledger: a turn of its own that holds the summary, and the row that says what it stands for.
//!
//! It decides nothing: what is summarised and kept comes with the commit. It must never be written without its turn.

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use crate::journal::write::{OnConflict, Row, RowOutcome, insert_message, insert_turn, integer};
use crate::lease::claim::Claim;
use crate::rows::context_rows;
use crate::rows::turn_parents::{Parent, parent_of};
use crate::sessions::pointers;
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::error::{Stored, sqlite};
use base::clock::Clock;
use model::{
    Block, CompactionCommit, CompactionResult, CompactionUsage, Message, Role, StopReason,
    StorageError, StorageErrorKind, TurnHeader, TurnLease, TurnStatus, TurnType, summary_text,
};

static FOLLOW: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_turn_id", "?2"), ("depth", "?3")]);
    format!("UPDATE turns SET {change} WHERE id = ?1 AND status = 'streaming'")
});
static EXPECT: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE open_turns SET {} WHERE turn_id = ?1", set(&[("expected_head", "?2")]))
});
static ADD: LazyLock<String> = LazyLock::new(|| {
    let row = numbered(
        "turn_id, summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, model, provider, \
         tokens_before, tokens_after, summary_tokens, summarization_input_tokens, summarization_output_tokens, \
         duration_ms, trigger, compaction_type",
    );
    insert("compactions", &row)
});

/// Writes a compaction by itself, makes it the session's head, and lets the open turn that needed it follow it.
///
/// # Errors
/// `stale_writer`, `stale_head`; `unknown_turn` where there is nothing before it. Nothing is written then.
pub(crate) fn compact(
    connection: &Connection,
    commit: &CompactionCommit,
    claim: &Claim,
    clock: &Clock,
) -> Stored<()> {
    let CompactionCommit { id, header, open_turn, completed_at, compaction, usage } = commit;
    let label = &header.session_label;
    if let Some(lease) = open_turn {
        claim.check(connection, label, lease.epoch)?;
    }
    let session = pointers::head(connection, label)?;
    if session.clone().flatten() != header.expected_head {
        return Err(StorageError::new(
            StorageErrorKind::StaleHead,
            format!("session `{label}` has moved on while it was compacted; compact it again"),
        ));
    }
    let Some(before) = header.parent_turn_id.as_deref() else {
        return Err(StorageError::new(
            StorageErrorKind::UnknownTurn,
            format!("session `{label}` has no turn that could be compacted"),
        ));
    };
    if session.is_none() {
        pointers::create(connection, label, Some(before), header.started_at, true)?;
    }
    let parent = write_turn(connection, header, (compaction, usage), (id, before), clock)?;
    write_row(connection, id, compaction)?;
    pointers::move_pointer(connection, label, id, *completed_at)?;
    if let Some(TurnLease { turn_id, .. }) = open_turn {
        follow(connection, turn_id, id, &parent)
            .map_err(|error| sqlite(&format!("move turn `{turn_id}`"), &error))?;
    }
    Ok(())
}

/// The open turn `turn_id` follows the compaction `id` from here on, also for who resumes it.
fn follow(
    connection: &Connection,
    turn_id: &str,
    id: &str,
    parent: &Parent,
) -> rusqlite::Result<()> {
    connection.prepare_cached(&FOLLOW)?.execute((turn_id, id, parent.depth + 1))?;
    connection.prepare_cached("UPDATE turns SET has_children = 1 WHERE id = ?1")?.execute((id,))?;
    connection.prepare_cached(&EXPECT)?.execute((turn_id, id)).map(drop)
}

/// The compaction's own turn, between the old head and the run's turn, holding the summary as its message.
pub(crate) fn write_turn(
    connection: &Connection,
    header: &TurnHeader,
    (compaction, used): (&CompactionResult, &CompactionUsage),
    (id, before): (&str, &str),
    clock: &Clock,
) -> Stored<Parent> {
    let parent = parent_of(connection, before)?;
    let completed_at = header.started_at.saturating_add(integer(compaction.duration_ms));
    let row = Row {
        id,
        parent_turn_id: Some(before),
        turn_type: TurnType::Compaction,
        header,
        provider: &compaction.provider,
        model: &compaction.model,
        tools_available: &[],
        permissions_granted: "[]",
        query_message_ids: &[],
        outcome: Some(RowOutcome {
            status: TurnStatus::Completed,
            stop_reason: StopReason::EndTurn,
            completed_at,
            usage: used.tokens,
            usage_estimated: used.estimated,
            context_tokens: None,
            cost: used.cost,
            response_message_id: None,
            tool_call_count: 0,
            error: None,
            attempts: &used.attempts,
        }),
    };
    insert_turn(connection, &row, Some(&parent))?;
    let summary = Message {
        id: clock.new_id(),
        role: Role::User,
        blocks: vec![Block::text(summary_text(&compaction.summary))],
        sequence: 0,
        created_at: completed_at,
        provenance: None,
        provider_stop_reason: None,
    };
    insert_message(connection, id, &summary, OnConflict::Refuse)?;
    Ok(Parent {
        depth: parent.depth + 1,
        thread_tokens: parent.thread_tokens.saturating_add(integer(used.tokens.total_tokens)),
    })
}

/// The row that says what was summarised and what is kept.
pub(crate) fn write_row(
    connection: &Connection,
    id: &str,
    compaction: &CompactionResult,
) -> Stored<()> {
    connection
        .prepare_cached(&ADD)
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                compaction.summary,
                compaction.summarized_through_turn_id,
                compaction.first_kept_turn_id,
                integer(compaction.turns_summarized),
                compaction.model,
                compaction.provider,
                integer(compaction.tokens_before),
                integer(compaction.tokens_after),
                integer(compaction.summary_tokens),
                integer(compaction.summarization_input_tokens),
                integer(compaction.summarization_output_tokens),
                integer(compaction.duration_ms),
                compaction.trigger,
                compaction.compaction_type,
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write the compaction `{id}`"), &error))
}

/// Points the session at the turn before its last compaction; false where its thread has none.
///
/// # Errors
/// `storage_locked` while a turn of the session runs.
pub(crate) fn uncompact(
    connection: &Connection,
    label: &str,
    claim: &Claim,
    now: i64,
) -> Stored<bool> {
    if claim.is_busy(connection, label)? {
        return Err(StorageError::new(
            StorageErrorKind::Locked,
            format!("a turn of session `{label}` runs; wait until it has ended"),
        ));
    }
    let Some(head) = pointers::head(connection, label)?.flatten() else { return Ok(false) };
    let Some(before) = context_rows::before_compaction(connection, &head)? else {
        return Ok(false);
    };
    pointers::move_pointer(connection, label, &before, now)?;
    Ok(true)
}
