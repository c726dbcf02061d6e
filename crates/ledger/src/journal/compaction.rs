//! A compaction in the ledger: a separate turn with the summary, and a row that names the turns which the summary replaces.
//!
//! It makes no decisions: the commit names the summarised and the retained turns. The row must never be written without its
//! turn.

use std::borrow::Cow;
use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::journal::open_turns;
use crate::journal::write::{Row, RowHeader, RowOutcome, insert_message, insert_turn, integer};
use crate::journal_rows::running::{leased_run, running_turn};
use crate::lease::claim::Claim;
use crate::rows::context_rows;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::turn_parents::{Parent, parent_of};
use crate::sessions::{moved, pointers, prompt_files};
use crate::sqlite::checksum::{insert, numbered};
use crate::sqlite::columns::{list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Column;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{
    Block, CompactionCommit, CompactionResult, CompactionUsage, Message, Role, StopReason,
    StorageError, StorageErrorKind, TurnHeader, TurnStatus, TurnType, summary_text,
};

static ADD: LazyLock<String> = LazyLock::new(|| {
    let columns = format!("turn_id, {}", list::<CompactionResult>());
    insert("compactions", &numbered(&columns))
});

/// Writes a compaction without a run's end, makes it the session's head, and makes it the parent of the open turn that
/// needed it.
///
/// # Errors
/// `stale_writer`, `stale_head`; `unknown_turn` if the session has no turn before it. Nothing is written then.
pub(crate) fn compact(
    connection: &Connection,
    commit: &CompactionCommit,
    claim: &Claim,
    clock: &Clock,
) -> Stored<()> {
    let CompactionCommit { id, header, open_turn, completed_at, compaction, usage } = commit;
    let label = &header.session_label;
    let run = match open_turn {
        Some(lease) => Some(leased_run(connection, claim, label, lease)?),
        None => {
            moved::refuse(connection)?;
            None
        }
    };
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
    write_turn(connection, header, (compaction, usage), (id, before), clock)?;
    write_row(connection, id, compaction)?;
    pointers::move_pointer(connection, label, id, *completed_at)?;
    if let Some(run) = run {
        open_turns::follow(connection, &run, id)?;
    }
    Ok(())
}

/// Writes the compaction's turn between the old head and the run's turn, with the summary as its message.
pub(crate) fn write_turn(
    connection: &Connection,
    header: &TurnHeader,
    (compaction, used): (&CompactionResult, &CompactionUsage),
    (id, before): (&str, &str),
    clock: &Clock,
) -> Stored<Parent> {
    let parent = parent_of(connection, before)?;
    // The cache of the provider is lost anyway.
    prompt_files::forget(connection, &header.session_label)?;
    let completed_at = header.started_at.saturating_add(integer(compaction.duration_ms));
    let row = Row {
        id,
        parent_turn_id: Some(before),
        turn_type: TurnType::Compaction,
        header: RowHeader::from(header),
        provider: &compaction.provider,
        model: &compaction.model,
        tools_available: Cow::Borrowed("[]"),
        permissions_granted: "[]",
        permissions_used: None,
        query_message_ids: &[],
        metadata: None,
        outcome: RowOutcome {
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
        },
    };
    let number = insert_turn(connection, &row, Some(&parent))?;
    let summary = Message {
        id: clock.new_id(),
        role: Role::User,
        blocks: vec![Block::text(summary_text(&compaction.summary))],
        sequence: 0,
        created_at: completed_at,
        provenance: None,
        provider_stop_reason: None,
    };
    insert_message(connection, number, &summary, &mut SharedValues::default())?;
    Ok(Parent {
        n: number,
        depth: parent.depth + 1,
        thread_tokens: parent.thread_tokens.saturating_add(integer(used.tokens.total_tokens)),
    })
}

/// Writes the row that names the summarised turns and the first retained one.
pub(crate) fn write_row(
    connection: &Connection,
    id: &str,
    compaction: &CompactionResult,
) -> Stored<()> {
    let values = std::iter::once(id.bind()).chain(values(compaction));
    let doing = format_args!("write the compaction `{id}`");
    sql::exec(connection, &ADD, params_from_iter(values), doing).map(drop)
}

/// Points the session at the turn before its last compaction; false if its thread has no compaction.
///
/// # Errors
/// `storage_locked` while a turn of the session runs; `ledger_moved`.
pub(crate) fn uncompact(
    connection: &Connection,
    label: &str,
    claim: &Claim,
    now: i64,
) -> Stored<bool> {
    moved::refuse(connection)?;
    if running_turn(connection, claim, label)?.is_some() {
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
