//! The broker's driver: takes messages into the queues of sessions, and begins, steers, aborts and takes over their turns.
//!
//! `broker::queue` decides, the ledger stores, the host begins turns. It must never hold a message that is not stored.

mod agents;
mod claims;
mod dispatcher;
mod ends;
mod host;
mod lanes;
mod outbox;
mod peers;
mod recovery;
mod schedules;
mod sending;
mod session;
mod state;
mod turns;

pub(crate) use dispatcher::{DispatchParts, Dispatcher};
pub(crate) use host::{EndedTurn, StartTurn, SteeredItems, TaskLimits, TurnHost};
pub(crate) use lanes::LaneLimits;
pub(crate) use sending::{Disposition, Receipt};
pub(crate) use session::EnteringMessage;
pub(crate) use state::SessionState;
pub(crate) use turns::Arming;
