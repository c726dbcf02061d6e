//! The port to what begins turns and hears what became of messages. It must never be awaited.

use model::{StoredDelivery, StoredItem, StoredSchedule, TurnBudget};

/// A turn that is to begin.
pub(crate) struct StartTurn {
    /// Its ULID.
    pub(crate) turn_id: String,
    /// The id of its run.
    pub(crate) run_id: String,
    pub(crate) session_label: String,
    /// The messages that it has, in their order.
    pub(crate) items: Vec<StoredItem>,
    /// The dropped messages that it names, and the note about them.
    pub(crate) dropped: Vec<String>,
    pub(crate) note: Option<String>,
    pub(crate) limits: TaskLimits,
}

/// The limits of a turn that the tasks of other agents among its messages set.
#[derive(Debug, Default)]
pub(crate) struct TaskLimits {
    /// The time that is left, in milliseconds; negative where it is over.
    pub(crate) timeout_ms: Option<i64>,
    /// What may be spent.
    pub(crate) budget: Option<TurnBudget>,
}

/// A turn that has ended, or could not begin.
pub(crate) struct EndedTurn {
    pub(crate) turn_id: String,
    /// Its messages, as they are stored now.
    pub(crate) items: Vec<StoredItem>,
}

/// Messages that were offered to a running turn.
pub(crate) struct SteeredItems {
    pub(crate) turn_id: String,
    pub(crate) items: Vec<String>,
}

/// What begins turns. Each call returns at once.
pub(crate) trait TurnHost: Send + Sync {
    /// Whether it can begin turns.
    fn is_alive(&self) -> bool;

    /// Begins a turn. The host registers its run with [`super::Dispatcher::begun`], or refuses the turn.
    fn start(&self, turn: StartTurn);

    /// Resumes an interrupted turn: the host registers its run, or closes the turn.
    fn resume(&self, turn_id: &str, session_label: &str, limits: TaskLimits);

    /// Composes messages that are offered to a running turn. The host answers with [`super::Dispatcher::enter_turn`].
    fn compose(&self, session_label: &str, turn_id: &str, items: Vec<StoredItem>);

    /// A turn waits for decisions, or waits no longer.
    fn approvals_changed(&self, session_label: &str, turn_id: &str);

    /// Messages are entering a running turn.
    fn steered(&self, steered: SteeredItems);

    /// A turn has ended.
    fn ended(&self, turn: EndedTurn);

    /// Messages that were queued here have ended in another process.
    fn ended_elsewhere(&self, items: Vec<StoredItem>);

    /// A message interrupts a turn of the session that waits for a decision, and that the dispatcher does not run.
    fn abort_parked(&self, session_label: &str);

    /// Messages have failed without a turn.
    fn failed(&self, items: Vec<StoredItem>);

    /// Takes a delivery. The host answers it with [`super::Dispatcher::answered`].
    fn deliver(&self, delivery: StoredDelivery);

    /// A delivery has failed too often.
    fn delivery_parked(&self, delivery: StoredDelivery);

    /// Schedules are due. The host takes their times with [`super::Dispatcher::fire`].
    fn due(&self, schedules: Vec<StoredSchedule>);

    /// The store failed. What was to happen is tried again.
    fn error(&self, error: &model::StorageError);
}
