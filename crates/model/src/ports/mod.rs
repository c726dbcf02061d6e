//! The ports between the engine, the shell for JavaScript and the backends of the ledger.
//!
//! A backend implements [`crate::Journal`], [`crate::ApprovalStore`], [`crate::ProfileStore`] and [`crate::RatioStore`] for
//! the engine, [`crate::LedgerRead`] and [`crate::LedgerAdmin`] for the host, and [`crate::QueueStore`],
//! [`crate::DeliveryStore`] and [`crate::ScheduleStore`] for the broker, and [`crate::MemoryStore`] for the memory. It must
//! never name one.

pub(crate) mod approvals;
pub(crate) mod broker_turn;
pub(crate) mod commit;
pub(crate) mod delivery_store;
pub(crate) mod dispatch_store;
pub(crate) mod future;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod ledger_admin;
pub(crate) mod ledger_copy;
pub(crate) mod ledger_read;
pub(crate) mod live;
pub(crate) mod memory_store;
pub(crate) mod profiles;
pub(crate) mod prompt_store;
pub(crate) mod queue_store;
pub(crate) mod ratios;
pub(crate) mod run_events;
pub(crate) mod schedule_store;
