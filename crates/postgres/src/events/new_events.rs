//! The new events of a run, written by the statement of a commit point or of a flush.
//!
//! Events follow the newest stored one, and its lock is held until the statement has ended, so that no number is written twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{RunEvent, RunEventKind, StorageError, StorageErrorKind, StreamEvent};
use tokio::sync::OwnedMutexGuard;
use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::events::live::Entry;
use crate::rows::body::{self, Body};

/// A stored event: its number, kind, message and text.
type Line<'a> = (u64, u8, Option<&'a str>, &'a str);

/// The events that a statement writes.
pub(crate) struct NewEvents {
    pub(crate) entry: Arc<Entry>,
    stored: OwnedMutexGuard<u64>,
    stores: bool,
    pub(crate) tail: Tail,
}

/// The events after the newest stored one, as the piece that a statement writes: no row, or one.
#[derive(Default)]
pub(crate) struct Tail {
    stored: u64,
    events: Vec<RunEvent>,
    pub(crate) last: Vec<i64>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) checksums: Vec<i64>,
}

impl NewEvents {
    /// Those of a turn's run; `None` where no run of this process is registered for it. Waits for another write of them.
    pub(crate) async fn of(server: &Server, turn_id: &str) -> Option<Self> {
        let entry = server.live.entry(turn_id)?;
        let stored = Arc::clone(&entry.stored).lock_owned().await;
        Self::taken(server, entry, stored, usize::MAX)
    }

    /// Like [`NewEvents::of`], for a step: without events that may refer to what later commit points write.
    pub(crate) async fn of_step(server: &Server, turn_id: &str) -> Option<Self> {
        let entry = server.live.entry(turn_id)?;
        let stored = Arc::clone(&entry.stored).lock_owned().await;
        Self::taken(server, entry, stored, 1)
    }

    /// Like [`NewEvents::of`]; `None` also while another statement writes them.
    pub(crate) fn now(server: &Server, entry: Arc<Entry>) -> Option<Self> {
        let stored = Arc::clone(&entry.stored).try_lock_owned().ok()?;
        Self::taken(server, entry, stored, 0)
    }

    /// No events where more than `own` commit points of the run are under way: the last of them writes them.
    fn taken(
        server: &Server,
        entry: Arc<Entry>,
        stored: OwnedMutexGuard<u64>,
        own: usize,
    ) -> Option<Self> {
        let run = entry.run.upgrade()?;
        let stores = server.live.retention.is_some() && !entry.over.load(Ordering::Acquire);
        let mut events = Vec::new();
        if stores {
            // Later events mark the entry again.
            entry.dirty.store(false, Ordering::SeqCst);
            events = run.unstored(*stored);
            // After they were read: who emits an event has submitted the commit point before.
            if entry.commit_points() > own {
                events.clear();
                entry.dirty.store(true, Ordering::SeqCst);
            }
        }
        let tail = Tail { stored: *stored, events, ..Tail::default() };
        Some(Self { entry, stored, stores, tail })
    }

    /// What a statement writes; `None` where events are not stored.
    pub(crate) fn tail(&mut self) -> Option<&mut Tail> {
        self.stores.then_some(&mut self.tail)
    }

    /// Whether the run has its row among those that wait, with all its events.
    pub(crate) fn is_known(&self) -> bool {
        self.entry.listed.load(Ordering::Acquire) && self.tail.is_empty()
    }

    /// The statement has ended; `ends` where it ended the run.
    pub(crate) fn done(mut self, server: &Server, ends: bool) {
        if let Some(last) = self.tail.last.first() {
            *self.stored = last.cast_unsigned();
        }
        let entry = &self.entry;
        if ends {
            entry.over.store(true, Ordering::Release);
            entry.listed.store(false, Ordering::Release);
        }
        if let Some(run) = entry.run.upgrade().filter(|_| self.stores) {
            run.ack(*self.stored);
        }
        if !self.tail.last.is_empty() || ends {
            server.changed(&entry.names.turn_id, entry.label());
        }
        self.rest(server);
    }

    /// Nothing was written, and the events stay unstored: the run waits for its session, if `waits`, or begins again.
    pub(crate) fn put_back(self, server: &Server, waits: bool) {
        if self.stores {
            self.entry.waits.fetch_or(waits, Ordering::AcqRel);
            self.entry.dirty.store(true, Ordering::Release);
            self.rest(server);
        }
    }

    /// Events that came during the statement are for the next one.
    fn rest(&self, server: &Server) {
        if self.entry.dirty.load(Ordering::Acquire) {
            server.live.news.notify_one();
        }
    }

    /// The statement has failed: the events are delivered now, and are stored with the next commit point. A run whose id another
    /// one has is refused.
    pub(crate) fn failed(self, server: &Server, error: &StorageError) {
        let Some(run) = self.entry.run.upgrade().filter(|_| self.stores) else { return };
        match error.kind {
            StorageErrorKind::StaleWriter | StorageErrorKind::DuplicateRun => {
                self.entry.over.store(true, Ordering::Release);
                if error.kind == StorageErrorKind::DuplicateRun {
                    // Who follows that id follows the other one.
                    server.live.forget(&self.entry.names.turn_id);
                    run.refuse(error);
                }
                run.stop_storing();
            }
            _ => run.nack(),
        }
    }
}

impl Tail {
    /// Nothing, after number `stored`.
    pub(crate) fn after(stored: u64) -> Self {
        Self { stored, ..Self::default() }
    }

    /// Makes the piece, with the events that the statement itself adds.
    pub(crate) fn encode(&mut self, added: &[StreamEvent]) -> Stored<()> {
        let mut last = self.events.last().map_or(self.stored, |event| event.seq);
        let mut more = Vec::new();
        for event in added {
            let event = RunEvent::following(event, last);
            last = event.seq;
            more.push(event);
        }
        let lines: Vec<Line<'_>> = self.events.iter().chain(&more).map(line).collect();
        (self.last, self.bodies, self.checksums) = Default::default();
        if !lines.is_empty() {
            let Body { bytes, checksum } = body::encode(&lines)?;
            self.last.push(last.cast_signed());
            self.bodies.push(bytes);
            self.checksums.push(checksum);
        }
        Ok(())
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// The number of parameters.
    pub(crate) const PARAMS: usize = 3;

    pub(crate) fn params(&self) -> [Param<'_>; Self::PARAMS] {
        [
            (&self.last, Type::INT8_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (&self.checksums, Type::INT8_ARRAY),
        ]
    }
}

fn line(event: &RunEvent) -> Line<'_> {
    let kind = match event.kind {
        RunEventKind::Token => 0,
        RunEventKind::Reasoning => 1,
        RunEventKind::Event => 2,
    };
    (event.seq, kind, event.message_id.as_deref(), &event.text)
}

/// The events of a piece.
pub(crate) fn read_piece(bytes: &[u8], checksum: i64, turn_id: &str) -> Stored<Vec<RunEvent>> {
    let what = format!("a piece of the events of turn `{turn_id}`");
    let lines: Vec<(u64, u8, Option<String>, String)> = body::decode(bytes, checksum, &what)?;
    let events = lines.into_iter().map(|(seq, kind, message_id, text)| {
        let kind = match kind {
            0 => RunEventKind::Token,
            1 => RunEventKind::Reasoning,
            2 => RunEventKind::Event,
            _ => return Err(damaged(&what)),
        };
        let message_id = message_id.map(Arc::from);
        Ok(RunEvent { seq, kind, message_id, text: Arc::from(text), added: None })
    });
    events.collect()
}

/// Inserts the piece of the turn `turn`, for each row of `of`: one that is stored already stays as it is.
pub(crate) fn insert_events(turn: &str, of: &str, first: usize) -> String {
    let (second, third) = (first + 1, first + 2);
    format!(
        ", events as (insert into @events (turn_id, last, body, checksum)
           select {turn}, e.* from {of}, unnest(${first}::int8[], ${second}::bytea[], ${third}::int8[]) as e
           on conflict do nothing)"
    )
}
