//! One run under way in this process: its unstored events are written by jobs of the writer, its newest stored events stay
//! in memory for followers.
//!
//! It must never acknowledge an event to its run before the event is in the file.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rusqlite::Connection;
use tokio::sync::watch;

use crate::journal_rows::event_rows;
use crate::journal_rows::run_rows::{self, RunRow};
use crate::journal_rows::running::leased_run;
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sessions::aliases;
use crate::sqlite::error::Stored;
use model::{LiveRun, RunEvent, RunNames, StorageError, StorageErrorKind, StreamEvent, TurnLease};

/// Number of events that stay in memory for the followers of a run, and the limit of their text in bytes.
const RECENT: usize = 512;
const RECENT_BYTES: usize = 4 << 20;

/// A run under way in this process.
pub(crate) struct RunEntry {
    pub(crate) names: RunNames,
    pub(crate) run: Weak<dyn LiveRun>,
    /// Whether the ledger stores the events of runs.
    pub(crate) stores: bool,
    /// The label of its session, an alias resolved; set once, by the first that needs it.
    label: OnceLock<String>,
    /// The lease of its session; 0 before it has one.
    epoch: AtomicI64,
    /// The entry is in the list of the next flush.
    dirty: AtomicBool,
    /// A flush has failed: only commit points write the events now.
    flush_failed: AtomicBool,
    /// Another process has taken over the turn and its events.
    taken_over: AtomicBool,
    /// The terminal event was written; the same transaction ends the turn.
    ended: AtomicBool,
    /// The entry of the journal that was written last, perhaps in a transaction that was rolled back; 0 before the first.
    newest: AtomicI64,
    commit_points: Mutex<CommitPoints>,
    /// The run has a follower in this process.
    followed: AtomicBool,
    recent: Mutex<VecDeque<RunEvent>>,
    /// The newest event that is in the file.
    stored: watch::Sender<u64>,
}

/// The commit points of a run that are submitted and have not ended: later events may refer to the rows that they write, and an event must
/// not be in the file before its row.
#[derive(Default)]
struct CommitPoints {
    /// For each the number of the newest event before it, in the order of their submission.
    newest_before: Vec<u64>,
    /// Events were left to one of them.
    left: bool,
}

impl CommitPoints {
    /// The number of the last event that may be written before the commit point that follows `own`, or the first one. The later ones, up
    /// to `newest`, are left to it.
    fn bound(&mut self, own: Option<u64>, newest: u64) -> u64 {
        let own = own.and_then(|own| self.newest_before.iter().position(|it| *it == own));
        let bound = self.newest_before.get(own.map_or(0, |at| at + 1)).copied();
        self.left |= bound.is_some_and(|bound| bound < newest);
        bound.unwrap_or(u64::MAX)
    }

    /// One has ended. True if it was the last one, and events were left.
    fn end(&mut self, newest: u64) -> bool {
        if let Some(at) = self.newest_before.iter().position(|it| *it == newest) {
            self.newest_before.remove(at);
        }
        self.newest_before.is_empty() && std::mem::take(&mut self.left)
    }
}

/// Events that only a commit point writes, after those of the run's queue.
#[derive(Clone, Copy)]
pub(crate) enum Added<'a> {
    Nothing,
    /// The run parks with these.
    Parking(&'a [StreamEvent]),
    /// The run ends with this one.
    End(&'a StreamEvent),
}

/// Events of one run that a job writes.
#[derive(Default)]
pub(crate) struct Written {
    upto: u64,
    events: Vec<RunEvent>,
}

impl RunEntry {
    pub(super) fn new(names: RunNames, run: Weak<dyn LiveRun>, stores: bool) -> Self {
        Self {
            names,
            run,
            stores,
            label: OnceLock::new(),
            epoch: AtomicI64::new(0),
            dirty: AtomicBool::new(false),
            flush_failed: AtomicBool::new(false),
            taken_over: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            newest: AtomicI64::new(0),
            commit_points: Mutex::default(),
            followed: AtomicBool::new(false),
            recent: Mutex::default(),
            stored: watch::Sender::new(0),
        }
    }

    /// The label of the run's session. The alias that a run was started on is resolved once: it may lead elsewhere later.
    pub(crate) fn session_label(&self, connection: &Connection) -> Stored<&str> {
        if let Some(label) = self.label.get() {
            return Ok(label);
        }
        let label = match self.names.resumes {
            // A resumed turn belongs to its session, even if the alias was changed.
            true => self.names.session_label.clone(),
            false => aliases::resolve(connection, &self.names.session_label)?,
        };
        Ok(self.label.get_or_init(|| label))
    }

    /// Sets the epoch of the session's lease, which the run now holds.
    pub(super) fn leased(&self, epoch: i64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Whether the next commit point is to write its events, because a flush has failed.
    pub(super) fn flush_failed(&self) -> bool {
        self.flush_failed.load(Ordering::Acquire)
    }

    /// Marks the entry for the next flush. False if it was marked already.
    pub(super) fn mark(&self) -> bool {
        !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// Whether a flush is still needed: a commit point may have written the events.
    pub(super) fn is_marked(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// Removes the mark because a job writes the events. False if another job has done so already.
    pub(super) fn unmark(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether its events may be written.
    pub(super) fn writes(&self) -> bool {
        // The events of a resumed turn belong to another process until its lease is taken.
        self.stores
            && !self.taken_over.load(Ordering::Acquire)
            && (self.epoch() != 0 || !self.names.resumes)
    }

    fn commit_points(&self) -> MutexGuard<'_, CommitPoints> {
        self.commit_points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit point of the run is submitted. Returns the number of the newest event before it.
    pub(super) fn begin_commit_point(&self) -> u64 {
        let newest = self.run.upgrade().map_or(0, |run| run.newest());
        self.commit_points().newest_before.push(newest);
        newest
    }

    /// The commit point that was submitted after event `newest` has ended. True if no other one follows, and some of the events that
    /// were left to it are not stored: they came after its write.
    pub(super) fn end_commit_point(&self, newest: u64) -> bool {
        let were_left = self.commit_points().end(newest);
        let run = self.run.upgrade().filter(|_| were_left);
        run.is_some_and(|run| !run.unstored(*self.stored.borrow()).is_empty())
    }

    /// Writes the new events, then those of `added`. Without these, events that came after another commit point was submitted are left
    /// to it; `own` is the event before the caller's. `checked` is the run's row if its lease was checked in this transaction.
    pub(super) fn write(
        &self,
        connection: &Connection,
        claim: &Claim,
        (checked, own): (Option<&RunRow>, Option<u64>),
        added: Added<'_>,
    ) -> Stored<Written> {
        let ends = matches!(added, Added::End(_));
        let over = !ends && self.ended.load(Ordering::Acquire);
        let Some(run) = self.run.upgrade().filter(|_| self.writes() && !over) else {
            return Ok(Written::default());
        };
        let names = &self.names;
        let known = match (checked, self.epoch()) {
            (Some(run), _) => Some(Cow::Borrowed(run)),
            (None, 0) => run_rows::of_turn(connection, &names.turn_id)?.map(Cow::Owned),
            (None, epoch) => {
                let lease = TurnLease { turn_id: names.turn_id.clone(), epoch };
                Some(Cow::Owned(leased_run(
                    connection,
                    claim,
                    self.session_label(connection)?,
                    &lease,
                )?))
            }
        };
        let newest = self.newest.load(Ordering::Relaxed);
        let before = match &known {
            Some(run) => event_rows::last(connection, run, newest)?,
            None => 0,
        };
        // Later events mark the entry again.
        self.unmark();
        let mut events = run.unstored(before);
        if matches!(added, Added::Nothing)
            && let Some(newest) = events.last().map(|event| event.seq)
        {
            // After they were read: who emits an event has submitted the commit point before.
            let bound = self.commit_points().bound(own, newest);
            events.retain(|event| event.seq <= bound);
        }
        let mut upto = events.last().map_or(before, |event| event.seq);
        let added = match added {
            Added::Nothing => &[],
            Added::Parking(events) => events,
            Added::End(last) => std::slice::from_ref(last),
        };
        for event in added {
            events.push(RunEvent::following(event, upto));
            upto += 1;
        }
        if events.is_empty() {
            return Ok(Written { upto, events });
        }
        let (n, first) = match known {
            Some(run) => {
                let is_taken_over = names.resumes && *self.stored.borrow() == 0;
                if is_taken_over || !run.keeps_events {
                    run_rows::store_events(connection, run.n, &claim.owner)?;
                }
                (run.n, false)
            }
            None => {
                let n = run_rows::next(connection)?;
                let now = claim.clock.now_ms();
                let session_label = self.session_label(connection)?.to_owned();
                let names = RunNames { session_label, ..names.clone() };
                run_rows::add(
                    connection,
                    n,
                    &names,
                    now,
                    None,
                    (Some(&claim.owner), &claim.owner),
                )?;
                (n, true)
            }
        };
        let newest = event_rows::append(connection, n, before, &events, first)?;
        self.newest.store(newest, Ordering::Relaxed);
        if ends {
            self.ended.store(true, Ordering::Release);
        }
        Ok(Written { upto, events })
    }

    /// Acknowledges `written`, whose transaction is in the file.
    pub(super) fn done(&self, written: Written) {
        if written.upto == 0 {
            return;
        }
        self.flush_failed.store(false, Ordering::Release);
        if self.followed.load(Ordering::Acquire) {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            let newest = recent.back().map_or(0, |event| event.seq);
            recent.extend(written.events.into_iter().filter(|event| event.seq > newest));
            let over = recent.len().saturating_sub(RECENT);
            recent.drain(..over);
            let size =
                |event: &RunEvent| event.text.len() + event.added.as_deref().map_or(0, str::len);
            let mut bytes: usize = recent.iter().map(size).sum();
            while bytes > RECENT_BYTES
                && let Some(oldest) = recent.pop_front()
            {
                bytes -= size(&oldest);
            }
        }
        if let Some(run) = self.run.upgrade() {
            run.ack(written.upto);
        }
        self.stored
            .send_if_modified(|stored| written.upto > std::mem::replace(stored, written.upto));
    }

    /// Reports a failed transaction: readers of the run no longer wait for it.
    pub(super) fn failed(&self, error: &StorageError) {
        let is_duplicate = error.kind == StorageErrorKind::DuplicateRun;
        if error.kind != StorageErrorKind::StaleWriter && !is_duplicate {
            self.delayed();
            return;
        }
        self.taken_over.store(true, Ordering::Release);
        if let Some(run) = self.run.upgrade() {
            if is_duplicate {
                run.refuse(error);
            }
            run.stop_storing();
        }
    }

    /// Leaves the write to the next commit point.
    fn delayed(&self) {
        self.flush_failed.store(true, Ordering::Release);
        if let Some(run) = self.run.upgrade() {
            run.nack();
        }
    }

    /// The events after `after`, if they are in memory; empty if the follower has the newest.
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

/// A commit point of a run, from its submission until its job is answered or dropped.
pub(super) trait CommitPoint: Send + Sync {
    fn entry(&self) -> &RunEntry;
    /// The number of the newest event before it.
    fn newest(&self) -> u64;
}

/// The write of a run's new events by the job of a commit point.
#[derive(Clone)]
pub(crate) struct EventWrite {
    point: Arc<dyn CommitPoint>,
    claim: Claim,
    written: Arc<Mutex<Written>>,
}

impl EventWrite {
    pub(super) fn new(point: Arc<dyn CommitPoint>, claim: Claim) -> Self {
        Self { point, claim, written: Arc::default() }
    }

    /// The owner that the run's row names: the process that stores its events.
    pub(crate) fn owner(&self) -> &Owner {
        &self.claim.owner
    }

    /// Writes the events that are not stored yet, then those of `added`. `run` is the run's row if its lease was checked in this
    /// transaction.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        run: Option<&RunRow>,
        added: Added<'_>,
    ) -> Stored<()> {
        let own = Some(self.point.newest());
        let written = self.point.entry().write(connection, &self.claim, (run, own), added)?;
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
        Ok(())
    }

    /// Reports the end of the job's transaction; `stored` if it is in the file.
    pub(crate) fn done(self, stored: bool) {
        let entry = self.point.entry();
        if !stored {
            // A terminal event of this transaction is not in the file: the run's events are still to be written.
            entry.ended.store(false, Ordering::Release);
            entry.delayed();
            return;
        }
        let written =
            std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        entry.done(written);
    }
}
