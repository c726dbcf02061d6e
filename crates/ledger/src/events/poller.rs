//! The ledger's look at the clock and at other processes: a thread that sleeps unless something waits for one of them.
//!
//! While events wait for company, or words for the index, it wakes when their time has come. While somebody follows another
//! process, or this one holds leases, it asks SQLite whether the file has changed, which reads shared memory only. It must
//! never hold the ledger open, and never run while nothing waits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::commands;
use crate::lease::claim::held;
use crate::open::registry::Core;
use crate::search::search_indexer;
use crate::sqlite::error::Stored;

/// How long what another process has written may go unseen.
const LOOK: Duration = Duration::from_millis(20);
/// Turns that make it worth while to index what they said.
const TURNS: u64 = 64;
/// Between two slices of the index: under any load, the writer's time is the turns' first.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens the connection that is asked.
type Opener = Box<dyn Fn() -> Stored<Connection> + Send + Sync>;

#[derive(Default)]
struct State {
    flush_at: Option<Instant>,
    index_at: Option<Instant>,
    followers: usize,
    leases: bool,
    stopping: bool,
}

/// The pulse of an open ledger.
pub(crate) struct Pulse {
    open: Opener,
    state: Mutex<State>,
    woken: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Counts the changes of the file.
    changes: watch::Sender<u64>,
    /// Turns that have ended since the index was last thought of.
    ended: AtomicU64,
}

impl Pulse {
    pub(crate) fn new(open: impl Fn() -> Stored<Connection> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            open: Box::new(open),
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

    fn wake(self: &Arc<Self>, core: &Arc<Core>, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.woken.notify_all();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (pulse, core) = (Arc::clone(self), Arc::downgrade(core));
            *thread = std::thread::Builder::new()
                .name("ledger-pulse".to_owned())
                .spawn(move || pulse.beat(&core))
                .ok();
        }
        let stands = thread.is_none();
        drop(thread);
        if stands {
            // Without a thread events do not wait for company.
            core.runs.flush(core);
        }
    }

    /// Has the waiting events written at `due`.
    pub(crate) fn flush_at(self: &Arc<Self>, core: &Arc<Core>, due: Instant) {
        if self.lock().flush_at.is_none() {
            self.wake(core, |state| state.flush_at = Some(due));
        }
    }

    /// Turns have ended, whose words are to be indexed with others'.
    pub(crate) fn ended(self: &Arc<Self>, core: &Arc<Core>, turns: u64) {
        if self.ended.fetch_add(turns, Ordering::Relaxed).saturating_add(turns) >= TURNS {
            self.index_soon(core);
        }
    }

    /// Has a slice of the index made after a pause.
    pub(crate) fn index_soon(self: &Arc<Self>, core: &Arc<Core>) {
        self.ended.store(0, Ordering::Relaxed);
        if self.lock().index_at.is_none() {
            let due = core.claim.clock.instant() + PAUSE;
            self.wake(core, |state| state.index_at = Some(due));
        }
    }

    /// This process holds leases: others may command its runs.
    pub(crate) fn leased(self: &Arc<Self>, core: &Arc<Core>) {
        if !self.lock().leases {
            self.wake(core, |state| state.leases = true);
        }
    }

    /// Somebody waits for changes, until the follower is dropped.
    pub(crate) fn follow(self: &Arc<Self>, core: &Arc<Core>) -> Follower {
        let changes = self.changes.subscribe();
        self.wake(core, |state| state.followers += 1);
        Follower { pulse: Arc::clone(self), changes }
    }

    /// The file has changed by this process.
    pub(crate) fn changed(&self) {
        if self.changes.receiver_count() > 0 {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn beat(&self, core: &Weak<Core>) {
        let mut eye = Eye::default();
        let mut looked = None;
        let mut state = self.lock();
        while !state.stopping {
            let looks = state.followers > 0 || state.leases;
            if state.flush_at.is_none() && state.index_at.is_none() && !looks {
                state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(core) = core.upgrade() else { return };
            let now = core.claim.clock.instant();
            let look_at = looks.then(|| looked.map_or(now, |at: Instant| at + LOOK));
            let times = state.flush_at.into_iter().chain(state.index_at).chain(look_at);
            let due = times.min().unwrap_or(now);
            if due > now {
                drop(core);
                let pause = due.saturating_duration_since(now);
                state =
                    self.woken.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let flushes = state.flush_at.take_if(|at| *at <= now).is_some();
            let indexes = state.index_at.take_if(|at| *at <= now).is_some();
            state.leases = state.leases && !held(&core.claim.held).is_empty();
            drop(state);
            if flushes {
                core.runs.flush(&core);
            }
            if indexes {
                search_indexer::begin(&core);
            }
            if look_at.is_some_and(|at| at <= now) {
                looked = Some(now);
                if core.guard.is_sound() && eye.sees_change(&self.open) {
                    self.changed();
                    eye.commands(&core);
                }
            }
            drop(core);
            state = self.lock();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.woken.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has no panic of its own.
            let _ = thread.join();
        }
    }
}

/// Somebody who waits for changes of the file.
pub(crate) struct Follower {
    pulse: Arc<Pulse>,
    changes: watch::Receiver<u64>,
}

impl Follower {
    /// Waits for a change since the last one that was seen here.
    pub(crate) async fn changed(&mut self) {
        // The sender is the pulse's, which this holds.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.pulse.lock();
        state.followers = state.followers.saturating_sub(1);
    }
}

/// The connection that is asked whether the file has changed.
#[derive(Default)]
struct Eye {
    connection: Option<Connection>,
    version: Option<i64>,
    /// Commands that were carried out, and whose answers are on their way.
    carried_out: HashSet<i64>,
}

impl Eye {
    /// Where it cannot be told, there may have been a change.
    fn sees_change(&mut self, open: &Opener) -> bool {
        if self.connection.is_none() {
            self.connection = open().ok();
        }
        let version = self.connection.as_ref().and_then(|connection| {
            connection
                .prepare_cached("PRAGMA data_version")
                .and_then(|mut statement| statement.query_row((), |row| row.get::<_, i64>(0)))
                .ok()
        });
        let changed = version.is_none() || version != self.version;
        self.version = version;
        changed
    }

    fn commands(&mut self, core: &Arc<Core>) {
        if held(&core.claim.held).is_empty() {
            return;
        }
        let Some(connection) = &self.connection else { return };
        // A file that cannot be read now is read at its next change.
        let Ok(open) = commands::open(connection) else {
            self.version = None;
            return;
        };
        self.carried_out.retain(|id| open.iter().any(|command| command.id == *id));
        for command in open {
            if self.carried_out.contains(&command.id) {
                continue;
            }
            let id = command.id;
            if commands::carry_out(core, command) {
                self.carried_out.insert(id);
            } else {
                // Another's, or of a run that is just being leased: looked at again.
                self.version = None;
            }
        }
    }
}
