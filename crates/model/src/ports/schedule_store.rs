//! The port of the broker's schedules. It stores due times and takes each once; it must never compute one.

use crate::{Enqueued, NewItem, PortFuture, QueueLimits, StoredSchedule};

/// A due time that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The schedule.
    pub id: String,
    /// The due time that it has; where it has another one, nothing happens.
    pub due: i64,
    /// Its next due time.
    pub next_at: Option<i64>,
    /// The message, and the due time that it is for; `None` where the time is left out.
    pub message: Option<(Box<NewItem>, i64)>,
}

/// The schedules of a ledger. A write is submitted before its future is first polled.
pub trait ScheduleStore: Send + Sync {
    /// Defines a schedule. One with the same definition stays as it is, with its due time. Returns what is stored then.
    fn put(
        &self,
        id: String,
        spec: String,
        item: String,
        next_at: Option<i64>,
    ) -> PortFuture<'static, StoredSchedule>;

    /// Removes a schedule. False where there is none.
    fn remove(&self, id: String) -> PortFuture<'static, bool>;

    /// All schedules, by their ids.
    fn schedules(&self) -> PortFuture<'_, Vec<StoredSchedule>>;

    /// Those that are due, and the next due time of the others.
    fn due(&self) -> PortFuture<'_, (Vec<StoredSchedule>, Option<i64>)>;

    /// Takes a due time and queues its message, in one transaction. `None` where another process has taken it, or it has no message.
    fn fire(&self, firing: Firing, limits: QueueLimits) -> PortFuture<'static, Option<Enqueued>>;
}
