//! The port of the broker's outbox: what was written with the end of a turn (`QueueEnd`) is handed out until a host
//! acknowledges it. A backend decides by `crates/broker` only.

use crate::{DeliveryStatus, PortFuture, StoredDelivery};

/// Deliveries that this process has claimed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// Of each session at most one: the oldest that waits.
    pub deliveries: Vec<StoredDelivery>,
    /// When the next one may be claimed, in Unix milliseconds; `None` where none waits for a time.
    pub next_at: Option<i64>,
    /// After so many milliseconds the claims must be renewed.
    pub renew_ms: u64,
}

/// How a host has answered a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It has passed it on.
    Delivered,
    /// It could not.
    Failed(String),
    /// It has not tried.
    Released,
}

/// Which deliveries a list has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Those with this status.
    pub status: DeliveryStatus,
    /// Those of this session.
    pub session_label: Option<String>,
    /// Those after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// The outbox of a ledger. A write is submitted before its future is first polled.
pub trait DeliveryStore: Send + Sync {
    /// Claims deliveries for this process: of each session the oldest that waits, if no living process has it and its time has come.
    fn claim(&self, most: usize) -> PortFuture<'static, ClaimedDeliveries>;

    /// Renews the claims of these turns under these epochs.
    fn renew(&self, claims: Vec<(String, i64)>) -> PortFuture<'static, ()>;

    /// Ends the claim of a turn's delivery under this epoch. `None` where another process has taken it over, or it was
    /// acknowledged meanwhile.
    fn end_claim(
        &self,
        turn_id: String,
        epoch: i64,
        outcome: DeliveryOutcome,
    ) -> PortFuture<'static, Option<StoredDelivery>>;

    /// Acknowledges the delivery of a turn, whoever has it. False where it waits no more.
    fn acknowledge(&self, turn_id: String) -> PortFuture<'static, bool>;

    /// Has a parked delivery handed out again. False where it is not parked.
    fn hand_out_again(&self, turn_id: String) -> PortFuture<'static, bool>;

    /// The deliveries of a filter, oldest first.
    fn deliveries(&self, filter: DeliveryFilter) -> PortFuture<'_, Vec<StoredDelivery>>;
}
