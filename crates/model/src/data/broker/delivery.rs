//! A delivery: the answer of an ended turn that a host passes on, as the outbox stores it. It must never decide anything.

use serde::{Deserialize, Serialize};

/// What became of a delivery so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It waits, or a process has it.
    Pending,
    /// The host has acknowledged it.
    Delivered,
    /// It has failed too often, and waits for the host.
    Parked,
}

impl DeliveryStatus {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Parked => "parked",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Parked].into_iter().find(|it| it.as_str() == name)
    }
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// Its turn, which is also its idempotency key.
    pub turn_id: String,
    /// The session of the turn.
    pub session_label: String,
    /// Where it goes: JSON.
    pub target: String,
    /// What became of it so far.
    pub status: DeliveryStatus,
    /// How often it was handed out.
    pub tries: u32,
    /// How often that failed.
    pub failures: u32,
    /// It is not handed out before this time, in Unix milliseconds.
    pub not_before: i64,
    /// The last failure.
    pub error: Option<String>,
    /// When its turn ended.
    pub created_at: i64,
    /// When the host acknowledged it.
    pub delivered_at: Option<i64>,
    /// Grows with each claim.
    pub epoch: i64,
}
