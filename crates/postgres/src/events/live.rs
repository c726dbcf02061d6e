//! The runs under way in this process, and who waits for a change of a run or a session.
//!
//! It must never send a statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use model::{
    CallCost, Follows, LiveRun, MemoryWake, QueueWake, Retention, RunNames, RunRegistration,
    TurnLease,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::connect::held::Held;

/// The head of a session: `None` for no session, `Some(None)` for one without a turn.
pub(crate) type SessionHead = Option<Option<String>>;

/// A run under way in this process.
pub(crate) struct Entry {
    pub(crate) names: RunNames,
    pub(crate) run: Weak<dyn LiveRun>,
    /// The label of its session, an alias resolved.
    label: OnceLock<String>,
    /// The head of its session as its label was resolved, until it is read: W0 compares it.
    head: Mutex<Option<SessionHead>>,
    /// The epoch of its session's lease; 0 before it has one.
    pub(crate) epoch: AtomicI64,
    /// It has events that are not stored.
    pub(crate) dirty: AtomicBool,
    /// It waits for its session: a flush writes its row, and its events, before it has a lease.
    pub(crate) waits: AtomicBool,
    /// Its row among the runs that wait is written.
    pub(crate) listed: AtomicBool,
    /// Commit points that are submitted and have not ended: later events may refer to what they write.
    pending: AtomicUsize,
    /// Its end is written, or its lease is another's: no more events are stored.
    pub(crate) over: AtomicBool,
    /// The number of its newest stored event. Whoever writes for the run has the lock meanwhile.
    pub(crate) stored: Arc<tokio::sync::Mutex<u64>>,
}

impl Entry {
    /// Whether a flush may write its events now.
    pub(crate) fn is_free(&self) -> bool {
        let is_known = match self.epoch.load(Ordering::Acquire) {
            // The events of a resumed turn belong to another process until its lease is taken.
            0 => self.waits.load(Ordering::Acquire) && !self.names.resumes,
            _ => true,
        };
        is_known && self.commit_points() == 0
    }

    /// The number of its commit points that are submitted and have not ended.
    pub(crate) fn commit_points(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

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

    /// Sets the head that was read with the label.
    pub(crate) fn head_is(&self, head: SessionHead) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }

    /// The label, where it is certain.
    pub(crate) fn resolved(&self) -> Option<&str> {
        // A resumed turn belongs to its session, even if the alias was changed.
        let own = self.names.resumes.then_some(&self.names.session_label);
        self.label.get().or(own).map(String::as_str)
    }
}

/// A commit point of a run, from its submission to its end.
pub(crate) struct CommitPoint(Option<Arc<Entry>>);

impl Drop for CommitPoint {
    fn drop(&mut self) {
        if let Some(entry) = &self.0 {
            entry.pending.fetch_sub(1, Ordering::SeqCst);
        }
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
    /// The turns of runs that have ended, and whose rows among those that wait are still there.
    pub(crate) left: Mutex<Vec<String>>,
    /// Other processes follow runs.
    pub(crate) has_listeners: AtomicBool,
    /// The host of this process's memory wants searches by pgvector.
    pub(crate) uses_pgvector: AtomicBool,
    /// Calls have reserved in accounts here: turns have some to close.
    pub(crate) has_accounts: AtomicBool,
    /// What calls have used that are not settled yet.
    pub(crate) unsettled: Mutex<Vec<(String, CallCost)>>,
    /// Settlements that were submitted.
    pub(crate) settlements: AtomicUsize,
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
            left: Mutex::default(),
            has_listeners: AtomicBool::new(false),
            uses_pgvector: AtomicBool::new(false),
            has_accounts: AtomicBool::new(false),
            unsettled: Mutex::default(),
            settlements: AtomicUsize::new(0),
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
            head: Mutex::default(),
            epoch: AtomicI64::new(0),
            dirty: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
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

    /// The head of a session as a run of this process has just read it, once.
    pub(crate) fn take_head(&self, label: &str) -> Option<SessionHead> {
        let runs = self.runs();
        let of = runs.values().filter(|entry| entry.label.get().is_some_and(|it| it == label));
        let mut heads =
            of.map(|entry| entry.head.lock().unwrap_or_else(PoisonError::into_inner).take());
        heads.find_map(|head| head)
    }

    /// A commit point of a run is submitted.
    pub(crate) fn commit_point(&self, turn_id: &str) -> CommitPoint {
        let entry = self.entry(turn_id);
        if let Some(entry) = &entry {
            entry.pending.fetch_add(1, Ordering::SeqCst);
        }
        CommitPoint(entry)
    }

    /// Whether an older run of this process has the same id and may still open its turn.
    pub(crate) fn follows_same(&self, entry: &Entry) -> bool {
        let older = |other: &Arc<Entry>| {
            other.names.run_id == entry.names.run_id && other.names.turn_id < entry.names.turn_id
        };
        let begins = |other: &Arc<Entry>| {
            !other.over.load(Ordering::Acquire)
                && other.epoch.load(Ordering::Acquire) == 0
                && !other.listed.load(Ordering::Acquire)
        };
        self.runs().values().any(|other| older(other) && begins(other))
    }

    /// The runs that wait for their sessions, and have no row yet.
    pub(crate) fn unlisted(&self) -> Vec<Arc<Entry>> {
        let runs = self.runs();
        let unlisted = |entry: &&Arc<Entry>| {
            entry.epoch.load(Ordering::Acquire) == 0
                && entry.waits.load(Ordering::Acquire)
                && !entry.listed.load(Ordering::Acquire)
                && !entry.over.load(Ordering::Acquire)
        };
        runs.values().filter(unlisted).cloned().collect()
    }

    /// Whether a run of this process waits for its session.
    pub(crate) fn has_waiting(&self) -> bool {
        self.runs().values().any(|entry| entry.listed.load(Ordering::Acquire))
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
            // Its turn has taken the place of its row.
            entry.listed.store(false, Ordering::Release);
            // A run of the same id may wait to be refused.
            self.news.notify_one();
            if entry.names.resumes {
                // Earlier events could not be written.
                entry.dirty.store(true, Ordering::Release);
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
    pub(crate) fn changes(self: &Arc<Self>, of: &str) -> Changes {
        let mut waits = self.waits();
        let wait = waits.entry(of.to_owned()).or_insert_with(|| watch::Sender::new(()));
        Changes { live: Arc::clone(self), of: of.to_owned(), seen: Some(wait.subscribe()) }
    }

    /// Wakes who waits for a change of `of`.
    pub(crate) fn wake(&self, of: &str) {
        if let Some(wait) = self.waits().get(of) {
            wait.send_replace(());
        }
    }
}

/// The changes of one name. When the last of them is dropped, nothing of the name is left.
pub(crate) struct Changes {
    live: Arc<Live>,
    of: String,
    /// There until it is dropped.
    seen: Option<watch::Receiver<()>>,
}

impl Changes {
    /// Waits for the next change, at most so long.
    pub(crate) async fn within(&mut self, most: Duration) {
        if let Some(seen) = &mut self.seen {
            // Who waits looks by itself too.
            let _ = timeout(most, seen.changed()).await;
        }
    }

    /// The changes until now are known.
    pub(crate) fn mark_unchanged(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.mark_unchanged();
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut waits = self.live.waits();
        // Under the lock, so that of two that are dropped at once the later one sees that it is the last.
        self.seen = None;
        if waits.get(&self.of).is_some_and(|wait| wait.receiver_count() == 0) {
            waits.remove(&self.of);
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

    fn waits(&self) {
        self.entry.waits.store(true, Ordering::Release);
        self.notify(true);
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
        if self.entry.listed.load(Ordering::Acquire) {
            let mut left = self.live.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(turn_id.clone());
        }
        // Its row is removed, and a run of the same id may wait for its end.
        self.live.news.notify_one();
        self.live.wake(turn_id);
    }
}

#[cfg(test)]
mod tests {
    use super::Live;
    use std::time::Duration;

    #[tokio::test]
    async fn nothing_is_left_of_a_name_that_nobody_waits_for() {
        let live = Live::new(None);
        let mut one = live.changes("turn");
        let other = live.changes("turn");
        live.wake("turn");
        one.within(Duration::MAX).await;
        drop(other);
        assert_eq!(live.waits().len(), 1);
        drop(one);
        assert_eq!(live.waits().len(), 0);
    }
}
