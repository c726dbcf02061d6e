//! What a broker stores: messages in queues, deliveries and schedules.

pub(crate) mod delivery;
pub(crate) mod dispatch;
pub(crate) mod queue;
pub(crate) mod schedule;
