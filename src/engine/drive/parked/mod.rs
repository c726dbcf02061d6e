//! A turn that is parked: it waits for a decision without a lease, and continues or ends.

mod end;
mod wait;

pub(super) use end::{
    deliver_end, end_parked, reject_closed, reject_failed, reject_left, return_parked,
};
pub(super) use wait::{Wakes, can_park, continued, park, wait};
