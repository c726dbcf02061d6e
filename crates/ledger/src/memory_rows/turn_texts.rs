//! The texts of a turn that the memory reads: what its user and its assistant said. Tool results and reasoning are not among them.
//!
//! It must never change a row.

use rusqlite::Connection;

use crate::memory_rows::scope_rows;
use crate::rows::{blobs, tool_call_rows};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{PendingText, PendingTurn, summary_of};

pub(crate) const TEXTS: &str = "SELECT m.content, m.blobs_json, m.role, m.created_at FROM message_values m
     WHERE m.key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575 AND m.role IN ('user', 'assistant') ORDER BY m.key";
const READING: &str = "read the texts of a turn for the memory";

/// A turn whose texts are read.
pub(crate) struct TurnRow {
    pub(crate) turn_id: String,
    pub(crate) n: i64,
    pub(crate) session_label: String,
    pub(crate) is_summary: bool,
}

/// A turn with its texts.
pub(crate) fn turn(connection: &Connection, row: TurnRow, with_calls: bool) -> Stored<PendingTurn> {
    let TurnRow { turn_id, n, session_label, is_summary } = row;
    let mut texts = sql::map(connection, TEXTS, (n,), READING, |fields| {
        let text = blobs::message_text(connection, fields)?.into_owned();
        Ok(PendingText { text, role: fields.next()?, created_at: fields.next()? })
    })?;
    if is_summary {
        for text in &mut texts {
            text.text = summary_of(&text.text).to_owned();
        }
    }
    let identity = scope_rows::identity_of(connection, &session_label)?;
    let calls =
        if with_calls { tool_call_rows::tool_calls(connection, &turn_id)? } else { Vec::new() };
    Ok(PendingTurn { turn_id, session_label, identity, is_summary, texts, calls })
}
