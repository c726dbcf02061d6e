//! The port between a run under way and whoever keeps its events and carries commands to it from other processes.
//!
//! The engine's run implements [`LiveRun`], the ledger [`Enrolment`]. It must never say how events are kept.

use std::sync::Arc;

/// What a run is called.
#[derive(Debug, Clone)]
pub struct RunNames {
    /// The turn's ULID.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The session.
    pub session_label: String,
    /// True where the turn is an interrupted one that goes on: its events are another's until its lease is taken.
    pub resumes: bool,
}

/// What kind of event was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldKind {
    /// A piece of visible text.
    Token,
    /// A piece of shown reasoning.
    Reasoning,
    /// Any other, as the JSON of a [`crate::StreamEvent`].
    Event,
}

/// One event of a run, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The event's number.
    pub seq: u64,
    /// What kind it is.
    pub kind: ToldKind,
    /// The message that a delta belongs to.
    pub message_id: Option<Arc<str>>,
    /// The delta, or the event's JSON.
    pub text: Arc<str>,
}

/// A run under way, as others reach it.
pub trait LiveRun: Send + Sync {
    /// Ends it as aborted.
    fn abort(&self);

    /// Hands it a message for its next tool boundary; false where it takes none.
    fn steer(&self, text: &str) -> bool;

    /// What it has told after event `after`, oldest first.
    fn told(&self, after: u64) -> Vec<Told>;

    /// Its events up to `seq` are in the file: they may be handed out, and need not be told again.
    fn kept(&self, seq: u64);

    /// Its events cannot be written now: they are handed out as they come. They are told again later.
    fn unkept(&self);

    /// Its events are not kept any more.
    fn forget(&self);
}

/// A run's place among those under way. Dropping it says that the run has ended.
pub trait Enrolment: Send + Sync {
    /// Whether the run's events are kept.
    fn keeps(&self) -> bool;

    /// The run has told something. `urgent` is false for deltas that may wait a few milliseconds for company.
    fn news(&self, urgent: bool);
}
