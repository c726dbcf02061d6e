//! The flushes of new events between commit points: one statement for all runs, which does not wait for the server's disk.
//!
//! An urgent event is written at once, a delta waits a few milliseconds for others. It must never write for a run whose lease
//! is another's.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::clock::Clock;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::events::new_events::NewEvents;
use crate::events::waiting;
use crate::journal::pointer::stale_writer;
use crate::rows::turn_read::get;

/// The time between two flushes of deltas.
const WINDOW: Duration = Duration::from_millis(8);
/// The most runs in one statement.
const RUNS: usize = 256;

/// Flushes until the ledger is closed.
pub(crate) async fn run(server: Rc<Server>) {
    let live = std::sync::Arc::clone(&server.live);
    let clock = Clock::default();
    let mut last = None;
    loop {
        live.news.notified().await;
        let due = last.map(|last| last + WINDOW);
        while let Some(due) = due.filter(|due| *due > clock.instant())
            && !live.urgent.load(Ordering::Acquire)
        {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = live.news.notified() => {}
            }
        }
        let urgent = live.urgent.swap(false, Ordering::AcqRel);
        flush(&server, urgent).await;
        last = Some(clock.instant());
    }
}

/// Writes the new events of all runs whose turns are open, and the runs that wait for their session. The first commit point of
/// another run writes its events.
async fn flush(server: &Server, urgent: bool) {
    waiting::remove_left(server).await;
    let mut batch = Vec::new();
    for entry in server.live.dirty() {
        if entry.over.load(Ordering::Acquire) {
            entry.dirty.store(false, Ordering::Release);
            continue;
        }
        if !entry.is_free() {
            // Its commit point wakes this again.
            server.live.urgent.fetch_or(urgent, Ordering::AcqRel);
            continue;
        }
        if batch.len() == RUNS {
            server.live.news.notify_one();
            break;
        }
        let waits = entry.epoch.load(Ordering::Acquire) == 0;
        if waits && server.live.follows_same(&entry) {
            continue;
        }
        let Some(mut events) = NewEvents::now(server, entry) else { continue };
        match events.tail.encode(&[]) {
            Ok(()) if waits && !events.is_known() => waiting::write(server, events).await,
            Ok(()) if events.tail.is_empty() => {}
            Ok(()) => batch.push(events),
            Err(error) => events.failed(server, &error),
        }
    }
    if batch.is_empty() {
        return;
    }
    let written = write(server, &batch).await;
    for events in batch {
        match &written {
            Err(error) => events.failed(server, error),
            Ok(turns) if turns.contains(&events.entry.names.turn_id) => events.done(server, false),
            Ok(_) => {
                let error = stale_writer(events.entry.label());
                events.failed(server, &error);
            }
        }
    }
}

/// The turns whose events are stored: those that run here still.
async fn write(server: &Server, batch: &[NewEvents]) -> Stored<Vec<String>> {
    let (mut labels, mut turns, mut epochs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lasts, mut bodies) = (Vec::<i64>::new(), Vec::<&[u8]>::new());
    let mut checksums = Vec::<i64>::new();
    for events in batch {
        labels.push(events.entry.label());
        turns.push(events.entry.names.turn_id.as_str());
        epochs.push(events.entry.epoch.load(Ordering::Acquire));
        lasts.extend(&events.tail.last);
        bodies.extend(events.tail.bodies.iter().map(Vec::as_slice));
        checksums.extend(&events.tail.checksums);
    }
    let params: [Param<'_>; 7] = [
        (&labels, Type::TEXT_ARRAY),
        (&turns, Type::TEXT_ARRAY),
        (&epochs, Type::INT8_ARRAY),
        (&lasts, Type::INT8_ARRAY),
        (&bodies, Type::BYTEA_ARRAY),
        (&checksums, Type::INT8_ARRAY),
        (&server.owner, Type::TEXT),
    ];
    // Written data survives the end of this process: it need not wait for the disk.
    let text = "with leased as (
           select e.* from unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[])
             as e (label, turn_id, epoch, last, body, checksum)
           join @sessions s on s.label = e.label and s.epoch = e.epoch and s.owner = $7 and s.running = e.turn_id
           where set_config('synchronous_commit', 'off', true) is not null
           for share of s),
         written as (
           insert into @events (turn_id, last, body, checksum) select turn_id, last, body, checksum from leased
           on conflict do nothing)
         select turn_id, exists (select from @listeners where owner <> $7 and expires_at > @now_ms()) as listened from leased";
    let rows = server.rows("store the events of runs", text, &params).await?;
    if let Some(row) = rows.first() {
        server.live.has_listeners.store(get(row, "listened")?, Ordering::Release);
    }
    rows.iter().map(|row| get(row, "turn_id")).collect()
}
