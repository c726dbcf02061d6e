//! Two turns compared: the nearest turn that both have in their ancestries, and what each side has after it.
//!
//! Both ancestries are walked up to that turn and no further. It must never hold the content of more turns than the limit.

use crate::connect::error::Stored;
use crate::connect::server::Server;
use crate::journal::pointer::unknown_turn;
use crate::reading::turns::{summary, turn};
use model::{DiffOptions, DiffSide, HistoryMessage, ToolCallRow, TurnDiff, TurnSummary};

/// Bytes of the content of one side.
const SIDE_BYTES: usize = 16 << 20;

/// Compares two ended turns.
///
/// # Errors
/// `unknown_turn` for either.
pub(crate) async fn diff(
    server: &Server,
    a: &str,
    b: &str,
    options: &DiffOptions,
) -> Stored<TurnDiff> {
    let (mut at_a, mut at_b) = (summary(server, a).await?, summary(server, b).await?);
    for (at, id, field) in [(&at_a, a, "turnA"), (&at_b, b, "turnB")] {
        if at.is_none() {
            return Err(unknown_turn(id).at(field));
        }
    }
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let ancestor = loop {
        match (&at_a, &at_b) {
            (Some(a), Some(b)) if a.id == b.id => break at_a.take(),
            // A common turn of both is above the deeper one.
            (Some(a), b) if b.as_ref().is_none_or(|b| b.depth <= a.depth) => {
                let next = above(server, a).await?;
                of_a.extend(std::mem::replace(&mut at_a, next));
            }
            (_, Some(b)) => {
                let next = above(server, b).await?;
                of_b.extend(std::mem::replace(&mut at_b, next));
            }
            (_, None) => break None,
        }
    };
    let (a, b) = (side(server, of_a, options).await?, side(server, of_b, options).await?);
    Ok(TurnDiff { ancestor, a, b })
}

async fn above(server: &Server, turn: &TurnSummary) -> Stored<Option<TurnSummary>> {
    match &turn.parent_turn_id {
        Some(parent) => summary(server, parent).await,
        None => Ok(None),
    }
}

/// The side with these turns, newest first.
async fn side(server: &Server, turns: Vec<TurnSummary>, options: &DiffOptions) -> Stored<DiffSide> {
    let mut side = DiffSide::of(&turns);
    let mut bytes = 0;
    for summary in turns.into_iter().rev() {
        if side.turns.len() == options.limit.items() || bytes > SIDE_BYTES {
            side.truncated = true;
            break;
        }
        let turn = turn(server, &summary.id).await?.ok_or_else(|| unknown_turn(&summary.id))?;
        for message in turn.messages {
            bytes += message.content.len() + message.thinking.as_ref().map_or(0, String::len);
            side.messages.push(HistoryMessage { turn_id: turn.id.clone(), message });
        }
        for call in turn.tool_calls {
            bytes += call.params.get().len();
            bytes += call.result.as_ref().map_or(0, |result| result.get().len());
            let (turn_id, session_label) = (turn.id.clone(), turn.session_label.clone());
            side.tool_calls.push(ToolCallRow { turn_id, session_label, call });
        }
        side.turns.push(summary);
    }
    Ok(side)
}
