//! The turns that this process runs, by their sessions: whose leases its heartbeat renews.
//!
//! It must never decide who has a lease: the rows do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::TurnLease;

/// The turns that this process runs, by their sessions.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<HashMap<String, TurnLease>>>);

impl Held {
    fn turns(&self) -> MutexGuard<'_, HashMap<String, TurnLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold(&self, label: &str, lease: TurnLease) {
        self.turns().insert(label.to_owned(), lease);
    }

    /// Forgets the turn; false where it ran here no more.
    pub(crate) fn end(&self, label: &str, turn_id: &str) -> bool {
        let mut turns = self.turns();
        let runs = turns.get(label).is_some_and(|lease| lease.turn_id == turn_id);
        if runs {
            turns.remove(label);
        }
        runs
    }

    /// The turn that this process runs in a session.
    pub(crate) fn running(&self, label: &str) -> Option<TurnLease> {
        self.turns().get(label).cloned()
    }

    /// Whether this process runs a turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns().is_empty()
    }

    /// The sessions and the epochs of their turns.
    pub(crate) fn all(&self) -> (Vec<String>, Vec<i64>) {
        self.turns().iter().map(|(label, lease)| (label.clone(), lease.epoch)).unzip()
    }
}
