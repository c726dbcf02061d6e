//! The port between a running turn and the ledger, which stores its events and delivers commands of other processes.
//!
//! The engine's run implements [`LiveRun`], the ledger [`RunRegistration`]. It must never decide how events are stored.

use std::sync::Arc;

use crate::StorageError;

/// The names of a run.
#[derive(Debug, Clone)]
pub struct RunNames {
    /// The turn's ULID.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The session.
    pub session_label: String,
    /// True where an interrupted turn is resumed: its events belong to another process until its lease is taken.
    pub resumes: bool,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEventKind {
    /// A piece of visible text.
    Token,
    /// A piece of shown reasoning.
    Reasoning,
    /// Any other, as the JSON of a [`crate::StreamEvent`].
    Event,
}

/// One event of a run, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// The event's number.
    pub seq: u64,
    /// Its kind.
    pub kind: RunEventKind,
    /// The message that a delta belongs to.
    pub message_id: Option<Arc<str>>,
    /// The delta, or the event's JSON as it is stored.
    pub text: Arc<str>,
    /// Members of the event that are not stored with it, because they stand in rows; `None` where it has none, and in an event
    /// from the file until they are looked up.
    pub added: Option<Arc<str>>,
}

/// A running turn, as other processes can control it.
pub trait LiveRun: Send + Sync {
    /// Ends it as aborted.
    fn abort(&self);

    /// Sends it a message for its next tool boundary; false where it accepts none.
    fn steer(&self, text: &str) -> bool;

    /// The number of its newest event; 0 before the first.
    fn newest(&self) -> u64;

    /// Its events after `after`, which are not stored, oldest first.
    fn unstored(&self, after: u64) -> Vec<RunEvent>;

    /// Its events up to `seq` are stored: they may be delivered, and need not be returned again.
    fn ack(&self, seq: u64);

    /// Its events cannot be stored now: they are delivered immediately, and returned again later.
    fn nack(&self);

    /// Its events are not stored any more.
    fn stop_storing(&self);

    /// The ledger has a run with its id: it ends without a turn.
    fn refuse(&self, error: &StorageError);
}

/// A run among those that run now. Dropping it ends the registration.
pub trait RunRegistration: Send + Sync {
    /// Whether the run's events are stored.
    fn stores_events(&self) -> bool;

    /// The run has new events. `urgent` is false for deltas that may wait a few milliseconds for more.
    fn notify(&self, urgent: bool);

    /// The run waits for its session: from now on other processes find it by its id. A journal that learns this by itself does
    /// nothing.
    fn waits(&self) {}
}
