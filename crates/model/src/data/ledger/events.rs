//! Stored events as a host follows them: which run, a page of its events, and commands to runs in other processes.
//!
//! Plain data: the backend defines how events are stored.

use std::time::Duration;

/// Which run to follow.
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
    /// The number of the last event.
    pub last: u64,
    /// Whether these are the last: the run has ended, or its process has.
    pub over: bool,
}

/// How far the events of a session's runs were delivered: the newest run, and the running ones, each with its last event.
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

/// A command to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// Abort the run.
    Abort,
    /// Add a user message.
    Steer(String),
}

/// How long the events of a run are stored after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// The maximum age.
    pub age: Duration,
    /// The maximum number of ended runs, the last ones; `None` for any number.
    pub turns: Option<u32>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3_600), turns: None }
    }
}
