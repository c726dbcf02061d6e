//! The leases of this open ledger, in memory: those under which a turn runs, and those that the end of a turn has left for
//! the next turn of the session.
//!
//! The rows of the file decide who may write. It must never have a lease as idle whose last turn was not committed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::recent::Recent;

/// The idle leases that are remembered. The next turn of another session takes a new lease.
const IDLE: usize = 1_024;

/// A turn that runs in this process, and the epoch of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningTurn {
    pub(crate) turn_id: String,
    pub(crate) epoch: i64,
}

/// The leases of an open ledger, by session.
pub(crate) struct Held {
    running: Mutex<HashMap<String, RunningTurn>>,
    /// Their epochs.
    idle: Recent<String, i64>,
}

impl Default for Held {
    fn default() -> Self {
        Self { running: Mutex::default(), idle: Recent::new(IDLE, usize::MAX) }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunningTurn>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn that runs in the session.
    pub(crate) fn running(&self, label: &str) -> Option<RunningTurn> {
        self.lock().get(label).cloned()
    }

    /// The epoch of the turn that runs in the session.
    pub(crate) fn epoch(&self, label: &str) -> Option<i64> {
        self.lock().get(label).map(|turn| turn.epoch)
    }

    /// The epoch under which the last turn of the session was committed.
    pub(crate) fn idle(&self, label: &str) -> Option<i64> {
        self.idle.get(label)
    }

    /// Whether no turn runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The sessions with a running turn, and the epochs of their leases.
    pub(crate) fn all(&self) -> Vec<(String, i64)> {
        self.lock().iter().map(|(label, turn)| (label.clone(), turn.epoch)).collect()
    }

    /// A turn runs in the session.
    pub(crate) fn begin(&self, label: &str, turn: RunningTurn) {
        self.idle.take(&label.to_owned());
        self.lock().insert(label.to_owned(), turn);
    }

    /// The turn was committed. Its lease is left for the next turn of the session.
    pub(crate) fn commit(&self, label: &str, turn: &RunningTurn) {
        if self.end(label, turn) {
            self.idle.put(label.to_owned(), turn.epoch, 0);
        }
    }

    /// The turn runs no longer. False if it did not run.
    pub(crate) fn end(&self, label: &str, turn: &RunningTurn) -> bool {
        let mut running = self.lock();
        let runs = running.get(label) == Some(turn);
        if runs {
            running.remove(label);
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, IDLE, RunningTurn};

    fn turn(id: &str, epoch: i64) -> RunningTurn {
        RunningTurn { turn_id: id.to_owned(), epoch }
    }

    #[test]
    fn a_lease_is_idle_after_a_commit_and_only_then() {
        let held = Held::default();
        held.begin("main", turn("t1", 3));
        assert_eq!((held.epoch("main"), held.idle("main")), (Some(3), None));
        held.commit("main", &turn("t1", 3));
        assert_eq!((held.epoch("main"), held.idle("main")), (None, Some(3)));
        held.begin("main", turn("t2", 3));
        assert_eq!((held.running("main"), held.idle("main")), (Some(turn("t2", 3)), None));
        // The former turn of the same epoch ends nothing.
        assert!(!held.end("main", &turn("t1", 3)));
        held.commit("main", &turn("t1", 3));
        assert_eq!((held.epoch("main"), held.idle("main")), (Some(3), None));
        assert!(held.end("main", &turn("t2", 3)) && held.is_empty());
        assert_eq!(held.idle("main"), None, "it was not committed");
    }

    #[test]
    fn the_oldest_idle_leases_are_forgotten() {
        let held = Held::default();
        for number in 0..=IDLE {
            let label = format!("s{number}");
            held.begin(&label, turn("t", 1));
            held.commit(&label, &turn("t", 1));
        }
        assert_eq!(["s0", "s1"].map(|label| held.idle(label)), [None, Some(1)]);
    }
}
