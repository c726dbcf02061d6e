//! A compaction in the ledger: a turn of its own that holds the summary, and the row that says what it stands for.
//!
//! It decides nothing: what is summarised and kept comes with the commit. It must never be written without its turn.

use rusqlite::{Connection, params};

use super::commit::{Parent, Row, insert_message, insert_turn, integer, parent_of};
use super::error::{Stored, sqlite};
use crate::clock::Clock;
use crate::model::{
    Block, CompactionResult, Message, Role, StopReason, TokenUsage, TurnCommit, TurnStatus,
    TurnType,
};

/// How a summary begins when it stands in a context (RULES §3).
const SUMMARY_PREFIX: &str = "[Previous conversation summary]:";

/// The compaction's own turn, between the old head and the run's turn, holding the summary as its message.
pub(super) fn write_turn(
    connection: &Connection,
    turn: &TurnCommit,
    compaction: &CompactionResult,
    (id, before): (&str, &str),
    clock: &Clock,
) -> Stored<Parent> {
    let parent = parent_of(connection, before)?;
    let usage = TokenUsage::new(
        compaction.summarization_input_tokens,
        compaction.summarization_output_tokens,
        0,
        0,
        0,
    );
    let completed_at = turn.started_at.saturating_add(integer(compaction.duration_ms));
    let row = Row {
        id,
        parent_turn_id: Some(before),
        turn_type: TurnType::Compaction,
        status: TurnStatus::Completed,
        stop_reason: StopReason::EndTurn,
        model: &compaction.model,
        provider: &compaction.provider,
        usage,
        completed_at,
    };
    insert_turn(connection, turn, &row, Some(&parent))?;
    let text = if compaction.summary.starts_with(SUMMARY_PREFIX) {
        compaction.summary.clone()
    } else {
        format!("{SUMMARY_PREFIX}\n\n{}", compaction.summary)
    };
    let summary = Message {
        id: clock.new_id(),
        role: Role::User,
        blocks: vec![Block::text(text)],
        sequence: 0,
        created_at: completed_at,
        provenance: None,
        provider_stop_reason: None,
    };
    insert_message(connection, id, &summary)?;
    Ok(Parent {
        depth: parent.depth + 1,
        thread_tokens: parent.thread_tokens.saturating_add(integer(usage.total_tokens)),
    })
}

/// The row that says what was summarised and what is kept.
pub(super) fn write_row(
    connection: &Connection,
    id: &str,
    compaction: &CompactionResult,
) -> Stored<()> {
    connection
        .prepare_cached(
            "INSERT INTO compactions (turn_id, summary, summarized_through_turn_id, first_kept_turn_id,
               turns_summarized, model, provider, tokens_before, tokens_after, summary_tokens,
               summarization_input_tokens, summarization_output_tokens, duration_ms, \"trigger\")
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )
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
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write the compaction `{id}`"), &error))
}
