//! The numbered event of an interrupted turn.
//!
//! It must never end a run: the commit of its turn does.

use rusqlite::Connection;

use crate::journal_rows::event_rows;
use crate::journal_rows::run_rows::RunRow;
use crate::sqlite::error::Stored;
use model::{RunEvent, StorageErrorKind, StreamEvent};

/// Adds `event` as the last event of an interrupted turn, if its events are stored.
pub(crate) fn end_interrupted(
    connection: &Connection,
    run: &RunRow,
    event: &StreamEvent,
) -> Stored<()> {
    if !run.keeps_events {
        return Ok(());
    }
    let mut event = event.clone();
    let mut last = 0;
    let mut has_deltas = false;
    loop {
        let (events, is_whole) = match event_rows::read(connection, run, last) {
            // No reader receives an event after a damaged one.
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
    event_rows::append(connection, run.n, last, &[RunEvent::following(&event, last)], false)
        .map(drop)
}
