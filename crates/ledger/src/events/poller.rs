//! The poller: a thread that sleeps unless something waits for a time or for another process.
//!
//! While events wait for a flush, or messages for the index, it wakes when they are due. While another process is followed,
//! or a turn runs in this one, it polls SQLite for a change of the file, which reads shared memory only. [`PollerTasks`] does
//! the due work. It must never hold the ledger open, and never run while nothing waits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::command_rows::{self, OpenCommand};
use crate::lease::claim::Claim;
use crate::sqlite::error::Stored;
use crate::sqlite::guard::Guard;
use crate::sqlite::sql;

/// The time between two polls of the file.
const POLL: Duration = Duration::from_millis(20);
/// Number of ended turns after which their messages are indexed.
const TURNS: u64 = 64;
/// The pause between two slices of the index, so that the writer has time for turns under any load.
const PAUSE: Duration = Duration::from_millis(50);

/// The calls of the poller when something is due or another process has written. The module that opens the ledger implements
/// them, because it may use every module that they need.
pub(crate) trait PollerTasks: Send + Sync {
    /// Submits the waiting events to the writer.
    fn flush_events(&self);
    /// Submits a slice of the search index to the writer.
    fn index_slice(&self);
    /// Passes a command of another process to its run; false for a run that is not of this process, or not yet.
    fn carry_out(&self, command: OpenCommand) -> bool;
}

/// Opens the connection that is polled.
type Opener = Box<dyn Fn() -> Stored<Connection> + Send + Sync>;

#[derive(Default)]
struct State {
    flush_at: Option<Instant>,
    index_at: Option<Instant>,
    followers: usize,
    /// Turns run in this process.
    runs: bool,
    stopping: bool,
}

/// The poller of an open ledger.
pub(crate) struct Poller {
    open: Opener,
    tasks: Weak<dyn PollerTasks>,
    claim: Claim,
    guard: Arc<Guard>,
    state: Mutex<State>,
    woken: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Counts the changes of the file.
    changes: watch::Sender<u64>,
    /// Turns that have ended since a slice of the index was last scheduled.
    ended: AtomicU64,
}

impl Poller {
    pub(crate) fn new(
        tasks: Weak<dyn PollerTasks>,
        claim: Claim,
        guard: Arc<Guard>,
        open: impl Fn() -> Stored<Connection> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: Box::new(open),
            tasks,
            claim,
            guard,
            state: Mutex::default(),
            woken: Condvar::new(),
            thread: Mutex::default(),
            changes: watch::Sender::new(0),
            ended: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes the thread; false if the system cannot start one.
    fn wake(self: &Arc<Self>, change: impl FnOnce(&mut State)) -> bool {
        change(&mut self.lock());
        self.woken.notify_all();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let poller = Arc::clone(self);
            *thread = std::thread::Builder::new()
                .name("ledger-poller".to_owned())
                .spawn(move || poller.run())
                .ok();
        }
        thread.is_some()
    }

    /// Schedules a flush of the waiting events at `due`. False without a thread: the caller then writes them at once.
    pub(crate) fn flush_at(self: &Arc<Self>, due: Instant) -> bool {
        if self.lock().flush_at.is_some() {
            return true;
        }
        let has_thread = self.wake(|state| state.flush_at = Some(due));
        if !has_thread {
            self.lock().flush_at = None;
        }
        has_thread
    }

    /// Counts ended turns, and schedules a slice of the index when there are enough.
    pub(crate) fn ended(self: &Arc<Self>, turns: u64) {
        if self.ended.fetch_add(turns, Ordering::Relaxed).saturating_add(turns) >= TURNS {
            self.index_soon();
        }
    }

    /// Schedules a slice of the index after a pause.
    pub(crate) fn index_soon(self: &Arc<Self>) {
        self.ended.store(0, Ordering::Relaxed);
        if self.lock().index_at.is_none() {
            let due = self.claim.clock.instant() + PAUSE;
            self.wake(|state| state.index_at = Some(due));
        }
    }

    /// Starts polling for commands, because a turn now runs in this process.
    pub(crate) fn leased(self: &Arc<Self>) {
        if !self.lock().runs {
            self.wake(|state| state.runs = true);
        }
    }

    /// Returns a follower of changes; the file is polled until it is dropped.
    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        let changes = self.changes.subscribe();
        self.wake(|state| state.followers += 1);
        Follower { poller: Arc::clone(self), changes }
    }

    /// Announces a change of the file that this process made.
    pub(crate) fn changed(&self) {
        if self.changes.receiver_count() > 0 {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn run(&self) {
        let mut watcher = ChangeWatcher::default();
        let mut polled = None;
        let mut state = self.lock();
        while !state.stopping {
            let polls = state.followers > 0 || state.runs;
            if state.flush_at.is_none() && state.index_at.is_none() && !polls {
                state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(tasks) = self.tasks.upgrade() else { return };
            let now = self.claim.clock.instant();
            let poll_at = polls.then(|| polled.map_or(now, |at: Instant| at + POLL));
            let times = state.flush_at.into_iter().chain(state.index_at).chain(poll_at);
            let due = times.min().unwrap_or(now);
            if due > now {
                drop(tasks);
                let pause = due.saturating_duration_since(now);
                state =
                    self.woken.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let flushes = state.flush_at.take_if(|at| *at <= now).is_some();
            let indexes = state.index_at.take_if(|at| *at <= now).is_some();
            state.runs = state.runs && !self.claim.held.is_empty();
            drop(state);
            if flushes {
                tasks.flush_events();
            }
            if indexes {
                tasks.index_slice();
            }
            if poll_at.is_some_and(|at| at <= now) {
                polled = Some(now);
                if self.guard.is_sound() && watcher.sees_change(&self.open) {
                    self.changed();
                    if !self.claim.held.is_empty() {
                        watcher.carry_out_commands(&*tasks);
                    }
                }
            }
            drop(tasks);
            state = self.lock();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.woken.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }
}

/// Waits for changes of the file.
pub(crate) struct Follower {
    poller: Arc<Poller>,
    changes: watch::Receiver<u64>,
}

impl Follower {
    /// Waits for a change after the last one that it has seen.
    pub(crate) async fn changed(&mut self) {
        // The follower holds the poller, and with it the sender, so this cannot fail.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.poller.lock();
        state.followers = state.followers.saturating_sub(1);
    }
}

/// Polls the file for changes on a separate connection.
#[derive(Default)]
struct ChangeWatcher {
    connection: Option<Connection>,
    version: Option<i64>,
    /// Commands that were carried out and whose answers are not written yet.
    carried_out: HashSet<i64>,
}

impl ChangeWatcher {
    /// True also if it cannot be determined.
    fn sees_change(&mut self, open: &Opener) -> bool {
        if self.connection.is_none() {
            self.connection = open().ok();
        }
        let version = self.connection.as_ref().and_then(|connection| {
            sql::one(connection, "PRAGMA data_version", (), "watch the ledger").ok()
        });
        let changed = version.is_none() || version != self.version;
        self.version = version;
        changed
    }

    fn carry_out_commands(&mut self, tasks: &dyn PollerTasks) {
        let Some(connection) = &self.connection else { return };
        // A file that cannot be read now is read at its next change.
        let Ok(open) = command_rows::open(connection) else {
            self.version = None;
            return;
        };
        self.carried_out.retain(|id| open.iter().any(|command| command.id == *id));
        for command in open {
            if self.carried_out.contains(&command.id) {
                continue;
            }
            let id = command.id;
            if tasks.carry_out(command) {
                self.carried_out.insert(id);
            } else {
                // The command is for another process, or for a run whose lease is being taken: the next poll tries again.
                self.version = None;
            }
        }
    }
}
