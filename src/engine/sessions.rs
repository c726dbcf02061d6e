//! One run per session: the next one waits until the running one has committed (RULES §5, §6).
//!
//! It orders the runs of this process only; the ledger's compare-and-set guards against other processes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Lanes = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// The lanes of all sessions that are running or waited for; a lane without either is dropped.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    lanes: Lanes,
}

/// The right to run a session; the next one goes on when it is dropped.
pub(crate) struct Lane {
    lanes: Lanes,
    label: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Sessions {
    /// Waits for the session, first come, first served.
    pub(crate) async fn enter(&self, label: &str) -> Lane {
        let lane = Arc::clone(
            self.lanes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(label.to_owned())
                .or_default(),
        );
        let guard = lane.lock_owned().await;
        Lane { lanes: Arc::clone(&self.lanes), label: label.to_owned(), guard: Some(guard) }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.guard = None;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Held by the map alone: nobody runs it and nobody waits.
        if lanes.get(&self.label).is_some_and(|lane| Arc::strong_count(lane) == 1) {
            lanes.remove(&self.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sessions;

    #[tokio::test]
    async fn a_session_runs_one_at_a_time_and_leaves_nothing_behind() {
        let sessions = Sessions::default();
        let first = sessions.enter("a").await;
        let other = sessions.enter("b").await;
        let waiting = {
            let sessions = sessions.clone();
            async move { sessions.enter("a").await }
        };
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        let second = waiting.await;
        drop(second);
        drop(other);
        assert_eq!(sessions.len(), 0);
    }
}
