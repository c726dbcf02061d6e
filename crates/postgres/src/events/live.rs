//! The runs under way in this process, and who waits for a change of a run or a session.
//!
//! It must never send a statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use model::{
    Follows, LiveRun, MemoryWake, QueueWake, Retention, RunNames, RunRegistration, TurnLease,
};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::connect::held::Held;

/// A run under way in this process.
pub(crate) struct Entry {
    pub(crate) names: RunNames,
    pub(crate) run: Weak<dyn LiveRun>,
    /// The label of its session, an alias resolved.
    label: OnceLock<String>,
    /// The epoch of its session's lease; 0 before it has one.
    pub(crate) epoch: AtomicI64,
    /// It has events that are not stored.
    pub(crate) dirty: AtomicBool,
    /// A flush has found it without a lease.
    pub(crate) waited: AtomicBool,
    /// Its end is written, or its lease is another's: no more events are stored.
    pub(crate) over: AtomicBool,
    /// The number of its newest stored event. Whoever writes for the run has the lock meanwhile.
    pub(crate) stored: Arc<tokio::sync::Mutex<u64>>,
}

impl Entry {
    /// The label of its session.
    pub(crate) fn label(&self) -> &str {
        self.label.get().unwrap_or(&self.names.session_label)
    }

    /// When it began, in Unix milliseconds: the beginning of its turn's ULID.
    pub(crate) fn begun_at(&self) -> i64 {
        let digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let time = self.names.turn_id.chars().take(10).filter_map(|digit| digits.find(digit));
        time.fold(0, |time, digit| (time << 5) | i64::try_from(digit).unwrap_or_default())
    }

    /// Sets the label that an alias leads to: it may lead elsewhere later.
    pub(crate) fn resolve(&self, label: &str) -> &str {
        self.label.get_or_init(|| label.to_owned())
    }

    /// The label, where it is certain.
    pub(crate) fn resolved(&self) -> Option<&str> {
        // A resumed turn belongs to its session, even if the alias was changed.
        let own = self.names.resumes.then_some(&self.names.session_label);
        self.label.get().or(own).map(String::as_str)
    }
}

/// The runs of this process, and the waits for changes.
pub(crate) struct Live {
    by_turn: Mutex<HashMap<String, Arc<Entry>>>,
    waits: Mutex<HashMap<String, watch::Sender<()>>>,
    /// The brokers of this process.
    queues: Mutex<Vec<QueueWake>>,
    /// Wakes the indexer of this process's memory, which notes each turn that ends.
    pub(crate) memory: OnceLock<MemoryWake>,
    /// How long events are stored; `None` where they are not.
    pub(crate) retention: Option<Retention>,
    /// A run has new events.
    pub(crate) news: Notify,
    /// One of them must not wait for others.
    pub(crate) urgent: AtomicBool,
    /// There may be commands to runs of this process.
    pub(crate) commands: Notify,
    /// A turn of this process has begun.
    pub(crate) leases: Notify,
    /// When other processes were last shown that somebody here follows runs.
    pub(crate) shown: Mutex<Option<Instant>>,
    /// A turn runs here, or somebody here waits for one: notifications are worth a connection.
    pub(crate) listens: Notify,
    /// Other processes follow runs.
    pub(crate) has_listeners: AtomicBool,
}

impl Live {
    pub(crate) fn new(retention: Option<Retention>) -> Arc<Self> {
        Arc::new(Self {
            by_turn: Mutex::default(),
            waits: Mutex::default(),
            queues: Mutex::default(),
            memory: OnceLock::new(),
            retention,
            news: Notify::new(),
            urgent: AtomicBool::new(false),
            commands: Notify::new(),
            leases: Notify::new(),
            shown: Mutex::default(),
            listens: Notify::new(),
            has_listeners: AtomicBool::new(false),
        })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.by_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Arc<dyn RunRegistration> {
        let entry = Arc::new(Entry {
            names,
            run,
            label: OnceLock::new(),
            epoch: AtomicI64::new(0),
            dirty: AtomicBool::new(false),
            waited: AtomicBool::new(false),
            over: AtomicBool::new(false),
            stored: Arc::default(),
        });
        self.runs().insert(entry.names.turn_id.clone(), Arc::clone(&entry));
        Arc::new(Registered { live: Arc::clone(self), entry })
    }

    pub(crate) fn entry(&self, turn_id: &str) -> Option<Arc<Entry>> {
        self.runs().get(turn_id).cloned()
    }

    /// The run that `of` names, the newest one with the host's id.
    pub(crate) fn followed(&self, of: &Follows) -> Option<Arc<Entry>> {
        match of {
            Follows::Turn(turn) => self.entry(turn),
            Follows::Run(run) => {
                let runs = self.runs();
                let same = runs.values().filter(|entry| entry.names.run_id == *run);
                same.max_by(|one, other| one.names.turn_id.cmp(&other.names.turn_id)).cloned()
            }
        }
    }

    /// The runs with events that are not stored.
    pub(crate) fn dirty(&self) -> Vec<Arc<Entry>> {
        let runs = self.runs();
        runs.values().filter(|entry| entry.dirty.load(Ordering::Acquire)).cloned().collect()
    }

    /// A run has the lease of its session.
    pub(crate) fn leased(&self, held: &Held, label: &str, lease: TurnLease) {
        if let Some(entry) = self.entry(&lease.turn_id) {
            entry.epoch.store(lease.epoch, Ordering::Release);
            if entry.names.resumes {
                // Earlier events could not be written.
                entry.dirty.store(true, Ordering::Release);
                self.news.notify_one();
            }
        }
        held.hold(label, lease);
        self.listens.notify_one();
        self.leases.notify_one();
    }

    fn queues(&self) -> MutexGuard<'_, Vec<QueueWake>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A broker of this process wants to know which queues other processes change.
    pub(crate) fn watch_queues(&self, wake: QueueWake) {
        self.queues().push(wake);
        self.listens.notify_one();
    }

    /// Whether this process has a broker.
    pub(crate) fn has_broker(&self) -> bool {
        !self.queues().is_empty()
    }

    /// Another process has changed the queue of a session.
    pub(crate) fn wake_queue(&self, label: &str) {
        for wake in self.queues().iter() {
            wake(label);
        }
    }

    /// A turn has ended, and is noted for the memory.
    pub(crate) fn wake_memory(&self) {
        if let Some(wake) = self.memory.get() {
            wake();
        }
    }

    /// Forgets a run that has no turn, because another run has its id.
    pub(crate) fn forget(&self, turn_id: &str) {
        self.runs().remove(turn_id);
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes of a turn, a session, or an answer, by its name, from now on.
    pub(crate) fn changes(&self, of: &str) -> watch::Receiver<()> {
        let mut waits = self.waits();
        waits.entry(of.to_owned()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Wakes who waits for a change of `of`.
    pub(crate) fn wake(&self, of: &str) {
        let mut waits = self.waits();
        if waits.get(of).is_some_and(|wait| wait.send(()).is_err()) {
            waits.remove(of);
        }
    }
}

/// A run as it is registered.
struct Registered {
    live: Arc<Live>,
    entry: Arc<Entry>,
}

impl RunRegistration for Registered {
    fn stores_events(&self) -> bool {
        self.live.retention.is_some()
    }

    fn notify(&self, urgent: bool) {
        if !self.stores_events() || self.entry.over.load(Ordering::Acquire) {
            return;
        }
        self.entry.dirty.store(true, Ordering::Release);
        if urgent {
            self.live.urgent.store(true, Ordering::Release);
        }
        self.live.news.notify_one();
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut runs = self.live.runs();
        let turn_id = &self.entry.names.turn_id;
        // The turn may have been resumed meanwhile: then the entry is another run's.
        if runs.get(turn_id).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            runs.remove(turn_id);
        }
        drop(runs);
        self.live.wake(turn_id);
    }
}
