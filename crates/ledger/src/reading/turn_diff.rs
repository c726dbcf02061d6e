//! Two turns compared: the nearest turn that both have in their ancestries, and what each side has after it.
//!
//! Both ancestries are walked up to that turn and no further. It must never hold the content of more turns than the limit.

use rusqlite::Connection;

use crate::reading::turn_tree::{above, one};
use crate::rows::turn_parents::unknown_turn;
use crate::rows::{message_rows, tool_call_rows};
use crate::sqlite::error::Stored;
use model::{
    AgentMessage, DiffOptions, DiffSide, HistoryMessage, ToolCallRow, TurnDiff, TurnSummary,
};

/// Bytes of the content of one side.
const SIDE_BYTES: usize = 16 << 20;

/// Compares two ended turns.
///
/// # Errors
/// `unknown_turn` for either.
pub(crate) fn diff(
    connection: &Connection,
    a: &str,
    b: &str,
    options: &DiffOptions,
) -> Stored<TurnDiff> {
    let read =
        |id: &str, field: &str| one(connection, id)?.ok_or_else(|| unknown_turn(id).at(field));
    let (mut at_a, mut at_b) = (Some(read(a, "turnA")?), Some(read(b, "turnB")?));
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let ancestor = loop {
        match (&at_a, &at_b) {
            (Some(a), Some(b)) if a.id == b.id => break at_a.take(),
            // A common turn of both is above the deeper one.
            (Some(a), b) if b.as_ref().is_none_or(|b| b.depth <= a.depth) => {
                let next = above(connection, a)?;
                of_a.extend(std::mem::replace(&mut at_a, next));
            }
            (_, Some(b)) => {
                let next = above(connection, b)?;
                of_b.extend(std::mem::replace(&mut at_b, next));
            }
            (_, None) => break None,
        }
    };
    let side = |turns| side(connection, turns, options);
    Ok(TurnDiff { ancestor, a: side(of_a)?, b: side(of_b)? })
}

/// The side with these turns, newest first.
fn side(
    connection: &Connection,
    turns: Vec<TurnSummary>,
    options: &DiffOptions,
) -> Stored<DiffSide> {
    let mut side = DiffSide::of(&turns);
    let mut bytes = 0;
    for turn in turns.into_iter().rev() {
        if side.turns.len() == options.limit.items() || bytes > SIDE_BYTES {
            side.truncated = true;
            break;
        }
        for message in message_rows::messages(connection, &turn.id)? {
            let message = AgentMessage::from(message);
            bytes += message.content.len() + message.thinking.as_ref().map_or(0, String::len);
            side.messages.push(HistoryMessage { turn_id: turn.id.clone(), message });
        }
        for call in tool_call_rows::tool_calls(connection, &turn.id)? {
            bytes += call.params.get().len();
            bytes += call.result.as_ref().map_or(0, |result| result.get().len());
            let (turn_id, session_label) = (turn.id.clone(), turn.session_label.clone());
            side.tool_calls.push(ToolCallRow { turn_id, session_label, call });
        }
        side.turns.push(turn);
    }
    Ok(side)
}
