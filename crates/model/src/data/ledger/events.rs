//! Stored events as a host follows them: which run, a page of its events, and commands to runs of other processes.
//!
//! Plain data: how events are stored is the backend's.

use std::time::Duration;

/// What is followed.
#[derive(Debug, Clone)]
pub enum Follows {
    /// The newest run with the host's id.
    Run(String),
    /// The turn.
    Turn(String),
}

/// Events of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The run's turn.
    pub turn_id: String,
    /// JSON of each event.
    pub events: Vec<String>,
    /// The number of the last one.
    pub last: u64,
    /// Nothing comes after these: the run has ended, or its process is gone.
    pub over: bool,
}

/// How far the events of a session's runs were delivered: the newest run, and those that go on, each with its last event.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cursor(pub i64, pub Vec<(i64, u64)>);

/// Events of a session's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// Where the next page begins.
    pub cursor: Cursor,
    /// The run, its turn and the JSON of each event.
    pub events: Vec<(String, String, String)>,
}

/// What is asked of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// End as aborted.
    Abort,
    /// Take a message.
    Steer(String),
}

/// How long the events of a run stay after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// For so long at most.
    pub age: Duration,
    /// Those of so many runs at most, the last that ended; `None` for any number.
    pub turns: Option<u32>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3_600), turns: None }
    }
}
