//! The runs under way in this process, and how their events come into the file: by the writer, in batches.
//!
//! An urgent event is written at once, a delta waits a few milliseconds for company; whatever is handed to the writer for
//! a run takes along the new events of that run. It must never let a batch be answered before it is in the file.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::event_log;
use crate::events::poller::Poller;
use crate::lease::claim::{Claim, held};
use crate::sqlite::error::Stored;
use crate::sqlite::writer::{Job, Writer, caught};
use model::{
    LiveRun, Retention, RunEvent, RunNames, RunRegistration, StorageError, StorageErrorKind,
    StreamEvent,
};

/// A delta waits so long for company, counted from the last batch (as the hub's).
const WINDOW: Duration = Duration::from_millis(4);
/// Events that stay in memory for those who follow a run.
const RECENT: usize = 512;

/// A run under way.
pub(crate) struct Entry {
    pub(crate) names: RunNames,
    pub(crate) run: Weak<dyn LiveRun>,
    pub(crate) keeps: bool,
    /// The lease of its session; 0 before it has one.
    epoch: AtomicI64,
    /// The next batch takes what it has told.
    dirty: AtomicBool,
    /// The file could not be written: only commit points try again.
    waits: AtomicBool,
    /// Another process goes on with the turn, and with its events.
    lost: AtomicBool,
    /// Its terminal event was handed to the file: the lease goes with it.
    ended: AtomicBool,
    /// Somebody in this process follows it.
    followed: AtomicBool,
    recent: Mutex<VecDeque<RunEvent>>,
    /// The newest event that is in the file.
    stored: watch::Sender<u64>,
}

/// Events of one run that a job writes.
#[derive(Default)]
pub(crate) struct Written {
    upto: u64,
    events: Vec<RunEvent>,
}

impl Entry {
    pub(crate) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn writes(&self) -> bool {
        // The events of a turn that goes on are another's until its lease is taken.
        self.keeps
            && !self.lost.load(Ordering::Acquire)
            && (self.epoch() != 0 || !self.names.resumes)
    }

    /// Writes what was told, and `last` behind it.
    fn write(
        &self,
        connection: &Connection,
        claim: &Claim,
        last: Option<&StreamEvent>,
    ) -> Stored<Written> {
        let over = last.is_none() && self.ended.load(Ordering::Acquire);
        let Some(run) = self.run.upgrade().filter(|_| self.writes() && !over) else {
            return Ok(Written::default());
        };
        let epoch = self.epoch();
        if epoch != 0 {
            claim.check(connection, &self.names.session_label, epoch)?;
        }
        let now = claim.clock.now_ms();
        let log = match event_log::log_of(connection, &self.names.turn_id)? {
            Some(log) if !self.names.resumes || *self.stored.borrow() != 0 => log,
            Some(_) | None => event_log::open(connection, &self.names, &claim.owner, now)?,
        };
        let tail = event_log::tail(connection, log)?;
        let before = tail.as_ref().map_or(0, |tail| tail.seq);
        let mut told = run.unstored(before);
        let mut upto = told.last().map_or(before, |event| event.seq);
        if let Some(last) = last {
            told.push(event_log::terminal(last, upto));
            upto += 1;
        }
        event_log::append(connection, log, tail, &told)?;
        if last.is_some() {
            event_log::end(connection, log, now)?;
            self.ended.store(true, Ordering::Release);
        }
        Ok(Written { upto, events: told })
    }

    /// What was written is in the file.
    fn done(&self, written: Written) {
        if written.upto == 0 {
            return;
        }
        self.waits.store(false, Ordering::Release);
        if self.followed.load(Ordering::Acquire) {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            let newest = recent.back().map_or(0, |event| event.seq);
            recent.extend(written.events.into_iter().filter(|event| event.seq > newest));
            let over = recent.len().saturating_sub(RECENT);
            recent.drain(..over);
        }
        if let Some(run) = self.run.upgrade() {
            run.ack(written.upto);
        }
        self.stored
            .send_if_modified(|stored| written.upto > std::mem::replace(stored, written.upto));
    }

    /// What was written is not in the file, and its reader does not wait for it any longer.
    fn failed(&self, error: &StorageError) {
        if error.kind != StorageErrorKind::StaleWriter {
            self.delayed();
            return;
        }
        self.lost.store(true, Ordering::Release);
        if let Some(run) = self.run.upgrade() {
            run.stop_storing();
        }
    }

    /// The next commit point tries again.
    fn delayed(&self) {
        self.waits.store(true, Ordering::Release);
        if let Some(run) = self.run.upgrade() {
            run.nack();
        }
    }

    /// The events after `after`, where they are in memory; none where the follower has seen the newest.
    pub(crate) fn recent(&self, after: u64) -> Option<Vec<RunEvent>> {
        self.followed.store(true, Ordering::Release);
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.stored.borrow() == after && after > 0 {
            return Some(Vec::new());
        }
        let first = recent.front()?.seq;
        (first <= after + 1).then(|| recent.iter().filter(|it| it.seq > after).cloned().collect())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.stored.subscribe()
    }
}

/// What a job of the writer takes along for a run: what it has told, and what becomes of that.
#[derive(Clone)]
pub(crate) struct EventWrite {
    entry: Arc<Entry>,
    claim: Claim,
    written: Arc<Mutex<Written>>,
}

impl EventWrite {
    pub(crate) fn write(&self, connection: &Connection, last: Option<&StreamEvent>) -> Stored<()> {
        let written = self.entry.write(connection, &self.claim, last)?;
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
        Ok(())
    }

    /// Whether the job's transaction is in the file.
    pub(crate) fn done(self, stored: bool) {
        if !stored {
            self.entry.delayed();
            return;
        }
        let written =
            std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        self.entry.done(written);
    }
}

#[derive(Default)]
struct State {
    by_turn: HashMap<String, Arc<Entry>>,
    dirty: Vec<Arc<Entry>>,
    /// A batch is with the writer.
    writing: bool,
    /// What came meanwhile is not to wait.
    urgent: bool,
    last: Option<Instant>,
}

/// The runs under way in this process that one ledger keeps.
pub(crate) struct Runs {
    state: Mutex<State>,
    claim: Claim,
    writer: Arc<Writer>,
    poller: Arc<Poller>,
    keeps: bool,
}

impl Runs {
    pub(crate) fn new(
        claim: Claim,
        writer: Arc<Writer>,
        poller: Arc<Poller>,
        keeps: bool,
    ) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), claim, writer, poller, keeps })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Arc<dyn RunRegistration> {
        let entry = Arc::new(Entry {
            names,
            run,
            keeps: self.keeps,
            epoch: AtomicI64::new(0),
            dirty: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            followed: AtomicBool::new(false),
            recent: Mutex::default(),
            stored: watch::Sender::new(0),
        });
        self.lock().by_turn.insert(entry.names.turn_id.clone(), Arc::clone(&entry));
        Arc::new(Registered { runs: Arc::clone(self), entry })
    }

    pub(crate) fn entry(&self, turn_id: &str) -> Option<Arc<Entry>> {
        self.lock().by_turn.get(turn_id).cloned()
    }

    /// The newest run with the host's id.
    pub(crate) fn of_run(&self, run_id: &str) -> Option<Arc<Entry>> {
        let state = self.lock();
        let entries = state.by_turn.values().filter(|it| it.names.run_id == run_id);
        entries.max_by(|one, other| one.names.turn_id.cmp(&other.names.turn_id)).cloned()
    }

    /// The run that holds the session's lease.
    pub(crate) fn of_session(&self, label: &str) -> Option<Arc<Entry>> {
        let epoch = held(&self.claim.held).get(label).copied()?;
        let state = self.lock();
        let mut entries = state.by_turn.values();
        entries.find(|it| it.names.session_label == label && it.epoch() == epoch).cloned()
    }

    /// The run has its session's lease.
    pub(crate) fn leased(self: &Arc<Self>, turn_id: &str, epoch: i64) {
        let Some(entry) = self.entry(turn_id) else { return };
        entry.epoch.store(epoch, Ordering::Release);
        if entry.names.resumes {
            // What was told before could not be written.
            self.notify(&entry, true);
        }
    }

    /// What a job for the turn takes along.
    pub(crate) fn event_write(&self, turn_id: &str) -> Option<EventWrite> {
        let entry = self.entry(turn_id).filter(|entry| entry.keeps)?;
        Some(EventWrite { entry, claim: self.claim.clone(), written: Arc::default() })
    }

    fn notify(self: &Arc<Self>, entry: &Arc<Entry>, urgent: bool) {
        if !entry.writes() || entry.waits.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lock();
        if !entry.dirty.swap(true, Ordering::AcqRel) {
            state.dirty.push(Arc::clone(entry));
        }
        state.urgent |= urgent;
        self.begin(state);
    }

    /// Hands a flush to the writer, or has it handed over when its time has come.
    fn begin(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.writing || state.dirty.is_empty() {
            return;
        }
        let now = self.claim.clock.instant();
        let due = state.last.map(|last| last + WINDOW).filter(|due| *due > now && !state.urgent);
        if let Some(due) = due {
            drop(state);
            if !self.poller.flush_at(due) {
                self.flush();
            }
            return;
        }
        state.writing = true;
        state.urgent = false;
        drop(state);
        self.writer.post(Box::new(EventFlush {
            runs: Arc::downgrade(self),
            entries: Vec::new(),
            failed: None,
        }));
    }

    /// The time of what waits has come.
    pub(crate) fn flush(self: &Arc<Self>) {
        let mut state = self.lock();
        state.urgent = true;
        self.begin(state);
    }

    fn written(self: &Arc<Self>) {
        let mut state = self.lock();
        state.writing = false;
        state.last = Some(self.claim.clock.instant());
        self.begin(state);
    }

    /// Hands the deletion of old events to the writer.
    pub(crate) fn trim(&self, retention: &Retention) {
        self.writer.post(Box::new(Trim {
            writer: Arc::downgrade(&self.writer),
            retention: retention.clone(),
            claim: self.claim.clone(),
            more: false,
        }));
    }
}

/// A run as it is registered with [`Runs`].
struct Registered {
    runs: Arc<Runs>,
    entry: Arc<Entry>,
}

impl RunRegistration for Registered {
    fn stores_events(&self) -> bool {
        self.entry.keeps
    }

    fn notify(&self, urgent: bool) {
        self.runs.notify(&self.entry, urgent);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut state = self.runs.lock();
        let turn_id = &self.entry.names.turn_id;
        // The turn may have been resumed meanwhile: then the entry is another run's.
        if state.by_turn.get(turn_id).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            state.by_turn.remove(turn_id);
        }
    }
}

/// The events of all runs that have told something, in one transaction that does not wait for the disk: what is handed
/// to the system survives the process.
struct EventFlush {
    runs: Weak<Runs>,
    entries: Vec<(Arc<Entry>, Written)>,
    failed: Option<StorageError>,
}

impl EventFlush {
    fn take(&mut self, runs: &Runs) {
        if self.entries.is_empty() {
            let dirty = std::mem::take(&mut runs.lock().dirty);
            for entry in dirty {
                entry.dirty.store(false, Ordering::Release);
                self.entries.push((entry, Written::default()));
            }
        }
    }
}

impl Job for EventFlush {
    fn run(&mut self, connection: &Connection) -> bool {
        let Some(runs) = self.runs.upgrade() else { return true };
        self.take(&runs);
        self.failed = None;
        for (entry, written) in &mut self.entries {
            match entry.write(connection, &runs.claim, None) {
                Ok(now) => *written = now,
                // Nothing of it was written; the others go on.
                Err(error) if error.kind == StorageErrorKind::StaleWriter => {
                    *written = Written::default();
                    entry.failed(&error);
                }
                Err(error) => {
                    self.failed = Some(error);
                    return false;
                }
            }
        }
        true
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(mut self: Box<Self>, failure: Option<&StorageError>) {
        if failure.is_some()
            && let Some(runs) = self.runs.upgrade()
        {
            // A transaction that was not to be had has taken nothing: those who wait are told all the same.
            self.take(&runs);
        }
        for (entry, written) in self.entries {
            // The batch is of many runs: what goes wrong with one must not leave the others waiting.
            let _ = match self.failed.as_ref().or(failure) {
                None => caught(|| entry.done(written)),
                Some(error) => caught(|| entry.failed(error)),
            };
        }
        if let Some(runs) = self.runs.upgrade() {
            runs.written();
            runs.poller.changed();
        }
    }
}

/// Takes old events away, a few rows at a time.
struct Trim {
    writer: Weak<Writer>,
    retention: Retention,
    claim: Claim,
    more: bool,
}

impl Job for Trim {
    fn run(&mut self, connection: &Connection) -> bool {
        self.more = false;
        match event_log::trim(connection, &self.retention, self.claim.clock.now_ms()) {
            Ok(more) => {
                self.more = more;
                true
            }
            // Tried again at the end of the next run.
            Err(_) => false,
        }
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        if let Some(writer) = self.writer.upgrade().filter(|_| failure.is_none() && self.more) {
            writer.post(self);
        }
    }
}
