//! The heartbeat: a thread that renews the leases of the turns that run in this process, in one job for all.
//!
//! It sleeps while none runs. It must never renew a lease that was not passed to it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::lease::claim::Claim;
use crate::lease::held::RunningTurn;
use crate::sqlite::error::Stored;
use crate::sqlite::writer::Writer;

/// Renewals during a lease: two may fail.
const BEATS: u64 = 3;

/// The heartbeat of an open ledger.
pub(crate) struct Heartbeat {
    claim: Claim,
    writer: Arc<Writer>,
    /// Set while turns run, or the ledger closes.
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    holding: bool,
    stopping: bool,
}

impl Heartbeat {
    pub(crate) fn new(claim: Claim, writer: Arc<Writer>) -> Arc<Self> {
        Arc::new(Self {
            claim,
            writer,
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        })
    }

    /// Renews the lease of a turn that now runs, until it has ended.
    pub(crate) fn hold(self: &Arc<Self>, label: &str, turn: RunningTurn) {
        self.claim.held.begin(label, turn);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.holding {
            return;
        }
        state.holding = true;
        drop(state);
        self.changed.notify_all();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let lease = u64::try_from(self.claim.lease_ms).unwrap_or_default();
            let pause = Duration::from_millis((lease / BEATS).max(1));
            let heartbeat = Arc::clone(self);
            // Without a thread, only the steps of a run renew its lease.
            *thread = std::thread::Builder::new()
                .name("ledger-leases".to_owned())
                .spawn(move || heartbeat.beat(pause))
                .ok();
        }
    }

    fn beat(&self, pause: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.stopping {
            if !state.holding {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (next, waited) =
                self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if state.stopping || !waited.timed_out() {
                continue;
            }
            let leases = self.claim.held.all();
            state.holding = !leases.is_empty();
            if state.holding {
                let claim = self.claim.clone();
                // The answer is not needed: after a failed renewal, or a full queue, the next one tries again.
                drop(self.writer.submit(move |connection| renew(connection, &claim, &leases)));
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopping = true;
        self.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }
}

fn renew(connection: &rusqlite::Connection, claim: &Claim, leases: &[(String, i64)]) -> Stored<()> {
    leases.iter().try_for_each(|(label, epoch)| claim.renew(connection, label, *epoch))
}
