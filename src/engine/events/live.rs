//! A running turn that the journal and other processes can reach: its control, and its events that are not stored yet.
//!
//! It must never change the run except through its control.

use std::sync::Arc;

use super::queue::EventQueue;
use crate::engine::state::RunControl;
use model::{LiveRun, RunEvent, StorageError};

/// A run that other processes can reach.
pub(crate) struct ReachableRun {
    pub(crate) control: Arc<RunControl>,
    pub(crate) queue: Arc<EventQueue>,
}

impl LiveRun for ReachableRun {
    fn abort(&self) {
        self.control.abort();
    }

    fn steer(&self, text: &str) -> bool {
        self.control.steer(text)
    }

    fn newest(&self) -> u64 {
        self.queue.last_seq()
    }

    fn unstored(&self, after: u64) -> Vec<RunEvent> {
        self.queue.unstored(after)
    }

    fn ack(&self, seq: u64) {
        self.queue.ack(seq);
    }

    fn nack(&self) {
        self.queue.nack();
    }

    fn refuse(&self, error: &StorageError) {
        self.control.refuse(error.clone());
    }

    fn stop_storing(&self) {
        self.queue.stop_storing();
    }
}
