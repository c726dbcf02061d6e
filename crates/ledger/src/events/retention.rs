//! How long events stay in the file. It holds the setting alone: `event_log` deletes.

use std::time::Duration;

/// How long the events of a run are kept after its end.
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
