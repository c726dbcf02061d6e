//! The flushes of new events between commit points: one statement for all runs, which does not wait for the server's disk.
//!
//! An urgent event is written at once, a delta waits a few milliseconds for others. It must never write for a run whose lease
//! is another's.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::clock::Clock;
use model::StorageErrorKind;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::events::new_events::NewEvents;
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
        live.urgent.store(false, Ordering::Release);
        if flush(&server).await {
            // Runs without a lease yet: their first commit point writes the events, unless they wait for longer.
            live.news.notify_one();
        }
        last = Some(clock.instant());
    }
}

/// Writes the new events of all runs; true where some wait for their lease.
async fn flush(server: &Server) -> bool {
    let mut batch = Vec::new();
    let mut waits = false;
    for entry in server.live.dirty().into_iter().take(RUNS) {
        if entry.over.load(Ordering::Acquire) {
            entry.dirty.store(false, Ordering::Release);
        } else if entry.epoch.load(Ordering::Acquire) == 0 {
            waits |= wait(&entry);
        } else if let Some(mut events) = NewEvents::now(server, entry) {
            match events.tail.encode(&[]) {
                Ok(()) if events.tail.is_empty() => {}
                Ok(()) => batch.push(events),
                Err(error) => events.failed(server, error.kind),
            }
        }
    }
    if batch.is_empty() {
        return waits;
    }
    let written = write(server, &batch).await;
    for events in batch {
        match &written {
            Err(error) => events.failed(server, error.kind),
            Ok(turns) if turns.contains(&events.entry.names.turn_id) => events.done(server, false),
            Ok(_) => events.failed(server, StorageErrorKind::StaleWriter),
        }
    }
    waits
}

/// A run that has no lease after one more window delivers its events unstored: it waits for its session, or opens no turn.
fn wait(entry: &crate::events::live::Entry) -> bool {
    if entry.names.resumes {
        // Its events belong to another process until its lease is taken.
        return false;
    }
    if entry.waited.swap(true, Ordering::AcqRel) {
        entry.dirty.store(false, Ordering::Release);
        if let Some(run) = entry.run.upgrade() {
            run.nack();
        }
        return false;
    }
    true
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
