//! The runs under way in this process, and the flushes of their events: one job of the writer for all runs that have new ones.
//!
//! An urgent event is written at once, a delta waits a few milliseconds for others; a job that is submitted for a run writes
//! the new events of that run as well. It must never acknowledge a flush before it is in the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::events::archive::Archive;
use crate::events::poller::Poller;
use crate::events::run_entry::{Added, CommitPoint, EventWrite, RunEntry, Written};
use crate::lease::claim::Claim;
use crate::sqlite::writer::{Job, Writer, caught};
use model::{LiveRun, Retention, RunNames, RunRegistration, StorageError, StorageErrorKind};

/// The time between two flushes of deltas (as the hub's).
const WINDOW: Duration = Duration::from_millis(4);
#[derive(Default)]
struct State {
    by_turn: HashMap<String, Arc<RunEntry>>,
    dirty: Vec<Arc<RunEntry>>,
    /// A flush was submitted and has not ended.
    writing: bool,
    /// The next flush must not wait.
    urgent: bool,
    last: Option<Instant>,
}

/// The runs under way in this process that one ledger stores.
pub(crate) struct Runs {
    state: Mutex<State>,
    claim: Claim,
    writer: Arc<Writer>,
    poller: Arc<Poller>,
    archive: Arc<Archive>,
    stores: bool,
}

impl Runs {
    pub(crate) fn new(
        claim: Claim,
        writer: Arc<Writer>,
        poller: Arc<Poller>,
        stores: bool,
    ) -> Arc<Self> {
        let archive = Arc::default();
        Arc::new(Self { state: Mutex::default(), claim, writer, poller, archive, stores })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Arc<dyn RunRegistration> {
        let entry = Arc::new(RunEntry::new(names, run, self.stores));
        self.lock().by_turn.insert(entry.names.turn_id.clone(), Arc::clone(&entry));
        Arc::new(Registered { runs: Arc::clone(self), entry })
    }

    pub(crate) fn entry(&self, turn_id: &str) -> Option<Arc<RunEntry>> {
        self.lock().by_turn.get(turn_id).cloned()
    }

    /// The newest run with the host's id.
    pub(crate) fn of_run(&self, run_id: &str) -> Option<Arc<RunEntry>> {
        let state = self.lock();
        let entries = state.by_turn.values().filter(|it| it.names.run_id == run_id);
        entries.max_by(|one, other| one.names.turn_id.cmp(&other.names.turn_id)).cloned()
    }

    /// The run that is under way in the session.
    pub(crate) fn of_session(&self, label: &str) -> Option<Arc<RunEntry>> {
        self.entry(&self.claim.held.running(label)?.turn_id)
    }

    /// Records that the run holds its session's lease.
    pub(crate) fn leased(self: &Arc<Self>, turn_id: &str, epoch: i64) {
        let Some(entry) = self.entry(turn_id) else { return };
        entry.leased(epoch);
        if entry.names.resumes {
            // Earlier events could not be written.
            self.notify(&entry, true);
        }
    }

    /// Forgets a run that has no turn, because another run has its id: who follows that id follows the other one.
    pub(crate) fn forget(&self, turn_id: &str) {
        self.lock().by_turn.remove(turn_id);
    }

    /// The write of the turn's new events by a job that is submitted for the turn; `None` where events are not stored.
    pub(crate) fn event_write(self: &Arc<Self>, turn_id: &str) -> Option<EventWrite> {
        let entry = self.entry(turn_id).filter(|entry| entry.stores)?;
        let newest = entry.begin_commit_point();
        let point = Submitted { runs: Arc::clone(self), entry, newest };
        Some(EventWrite::new(Arc::new(point), self.claim.clone()))
    }

    fn notify(self: &Arc<Self>, entry: &Arc<RunEntry>, urgent: bool) {
        if !entry.writes() || entry.flush_failed() {
            return;
        }
        let mut state = self.lock();
        if entry.mark() {
            state.dirty.push(Arc::clone(entry));
        }
        if entry.epoch() == 0 {
            // The commit that opens the turn also writes these events, so the flush waits for it for one window.
            state.last = Some(self.claim.clock.instant());
        } else {
            state.urgent |= urgent;
        }
        self.begin(state);
    }

    /// Submits a flush to the writer, now or when it is due.
    fn begin(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        state.dirty.retain(|entry| entry.is_marked());
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

    /// Submits the flush that is due.
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

    /// Counts an ended turn of this process for the archive.
    pub(crate) fn turn_ended(&self) {
        self.archive.ended(&self.writer);
    }

    /// See [`Archive::to_check`].
    pub(crate) fn to_check(&self, retention: &Retention) -> Retention {
        self.archive.to_check(retention)
    }

    /// Submits the archiving of ended runs, also of processes that have ended.
    pub(crate) fn archive_ended(&self) {
        self.archive.begin(&self.writer);
    }

    /// Archives all ended runs, as the last job of this process.
    pub(crate) fn archive_last(&self) {
        self.archive.finish(&self.writer);
    }
}

/// A submitted commit point of a run. When it ends, the events that were left to it and that it has not written are written.
struct Submitted {
    runs: Arc<Runs>,
    entry: Arc<RunEntry>,
    /// The number of the newest event before it.
    newest: u64,
}

impl CommitPoint for Submitted {
    fn entry(&self) -> &RunEntry {
        &self.entry
    }

    fn newest(&self) -> u64 {
        self.newest
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        // A panic of the run's code must not leave a destructor.
        let _ = caught(|| {
            if self.entry.end_commit_point(self.newest) {
                self.runs.notify(&self.entry, true);
            }
        });
    }
}

/// A run as it is registered with [`Runs`].
struct Registered {
    runs: Arc<Runs>,
    entry: Arc<RunEntry>,
}

impl RunRegistration for Registered {
    fn stores_events(&self) -> bool {
        self.entry.stores
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

/// The new events of all runs, in one transaction that does not wait for the disk: written data survives the end of the
/// process.
struct EventFlush {
    runs: Weak<Runs>,
    entries: Vec<(Arc<RunEntry>, Written)>,
    failed: Option<StorageError>,
}

impl EventFlush {
    fn take(&mut self, runs: &Runs) {
        if self.entries.is_empty() {
            let dirty = std::mem::take(&mut runs.lock().dirty);
            for entry in dirty {
                // An entry may be in the list twice.
                if entry.unmark() {
                    self.entries.push((entry, Written::default()));
                }
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
            match entry.write(connection, &runs.claim, (None, None), Added::Nothing) {
                Ok(now) => *written = now,
                // Nothing of this run was written; the other runs are still written.
                Err(error)
                    if matches!(
                        error.kind,
                        StorageErrorKind::StaleWriter | StorageErrorKind::DuplicateRun
                    ) =>
                {
                    *written = Written::default();
                    if error.kind == StorageErrorKind::DuplicateRun {
                        runs.forget(&entry.names.turn_id);
                    }
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
            // If the transaction did not begin, the entries were not taken yet; they are notified of the failure all the
            // same.
            self.take(&runs);
        }
        for (entry, written) in self.entries {
            // A flush writes for many runs: a panic in one must not leave the others without an answer.
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
