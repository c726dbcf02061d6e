//! The events about a request besides its answer: `waiting` before it is delayed, `usage` after it. It must never wait itself.

use std::sync::Arc;
use std::time::Duration;

use super::called::{Called, Ending};
use crate::engine::events::EventQueue;
use crate::engine::state::millis;
use model::{CallPurpose, FailureKind, StreamEvent};

/// The request that is delayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextCall<'a> {
    pub(crate) purpose: CallPurpose,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) profile: Option<&'a str>,
    /// Its number, from 1.
    pub(crate) attempt: u32,
}

/// Emits that `next` waits from `now_ms` on; `length` is `None` where the end is unknown.
pub(crate) fn announce_wait(
    events: &Arc<EventQueue>,
    next: NextCall<'_>,
    reason: FailureKind,
    length: Option<Duration>,
    now_ms: i64,
) {
    let ms = length.map(millis);
    events.event(|seq| StreamEvent::Waiting {
        reason,
        purpose: next.purpose,
        attempt: next.attempt,
        provider: next.provider.to_owned(),
        model: next.model.to_owned(),
        profile_id: next.profile.map(ToOwned::to_owned),
        until: ms.map(|ms| now_ms.saturating_add_unsigned(ms)),
        ms,
        seq,
    });
}

/// Emits what a call has used, if it has used anything.
pub(super) fn announce_usage(events: &Arc<EventQueue>, called: &Called, number: u32) {
    let Some(attempt) = &called.attempt else { return };
    let Some(usage) = attempt.usage else { return };
    let answered =
        matches!(called.ending, Ending::Completed(_)) && attempt.purpose == CallPurpose::Run;
    let reply = called.reply.as_ref().filter(|_| answered);
    events.event(|seq| StreamEvent::Usage {
        purpose: attempt.purpose,
        attempt: number,
        provider: attempt.provider.clone(),
        model: attempt.model.clone(),
        message_id: reply.map(|reply| reply.message_id.clone()),
        usage,
        usage_estimated: attempt.usage_estimated,
        cost: attempt.cost,
        seq,
    });
}
