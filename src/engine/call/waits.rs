//! The event of a wait before a request, so that nobody sits before a silent run.

use std::sync::Arc;
use std::time::Duration;

use super::super::driver::Run;
use super::super::outcome::millis;
use super::super::sink::EventQueue;
use model::{CallPurpose, FailureKind, StreamEvent};

/// The request that is waited with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextCall<'a> {
    pub(crate) purpose: CallPurpose,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) profile: Option<&'a str>,
    /// Its number, from 1.
    pub(crate) attempt: u32,
}

/// Emits that `next` waits from `now_ms` on; `length` is `None` where its end is not known.
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

impl Run {
    /// Emits that the same profile is asked again after `delay`.
    pub(crate) fn announce_retry(&self, attempt: u32, delay: Duration) {
        let next = NextCall {
            purpose: CallPurpose::Run,
            provider: &self.context.provider,
            model: &self.context.model,
            profile: self.profile.as_deref(),
            attempt,
        };
        // An answer whose tool call could not be read is no failure of the plan's.
        let reason = self.plan.last_failure().unwrap_or(FailureKind::ServerError);
        announce_wait(&self.queue, next, reason, Some(delay), self.core.clock.now_ms());
    }
}
