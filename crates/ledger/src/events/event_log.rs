//! The terminal event of a turn that nobody runs any more.
//!
//! It must never end a run: the commit of its turn does.

use rusqlite::Connection;

use crate::events::event_json::terminal;
use crate::journal_rows::{event_rows, run_rows};
use crate::sqlite::error::Stored;
use model::{StorageErrorKind, StreamEvent};

/// Adds `event` as the last of an interrupted turn, where its events are stored.
pub(crate) fn end_interrupted(
    connection: &Connection,
    turn_id: &str,
    event: &StreamEvent,
) -> Stored<()> {
    let run = run_rows::of_turn(connection, turn_id)?.filter(|run| run.keeps_events);
    let Some(run) = run else { return Ok(()) };
    let mut event = event.clone();
    let mut last = 0;
    let mut has_deltas = false;
    loop {
        let (events, is_whole) = match event_rows::read(connection, &run, last) {
            // Nobody gets an event that stands behind it.
            Err(error) if error.kind == StorageErrorKind::Corrupt => return Ok(()),
            read => read?,
        };
        last = events.last().map_or(last, |event| event.seq);
        has_deltas |= events.iter().any(|event| event.message_id.is_some());
        if is_whole {
            break;
        }
    }
    if let StreamEvent::StreamError { partial, .. } = &mut event {
        *partial = has_deltas;
    }
    event_rows::append(connection, run.n, last, &[terminal(&event, last)], false)
}
