//! A schedule: a message that is sent at times, as it is stored. It must never know how its times are computed.

/// A row of the schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// The host's id.
    pub id: String,
    /// When: JSON. Who defines a schedule computes its times.
    pub spec: String,
    /// What is sent: JSON.
    pub item: String,
    /// The next due time, in Unix milliseconds; `None` where none comes.
    pub next_at: Option<i64>,
    /// The last due time for which a message was queued.
    pub last_at: Option<i64>,
    /// When it was defined.
    pub created_at: i64,
}
