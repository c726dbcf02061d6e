//! One limit of a lane: what remains of it, and when it is refilled.
//!
//! A bucket that fills evenly, as the providers that report their limits describe them: `reset` is when it is full. Whole
//! numbers throughout. It must never estimate more than the server can have.

use model::{RateLimit, RateLimitState};
use serde::{Deserialize, Serialize};

/// Millionths, so that a bucket that gains one token an hour fills too.
const UNIT: i128 = 1_000_000;
/// How long a request may take to arrive. A full bucket gains nothing meanwhile, so the estimate must not either.
pub(super) const LAG: i64 = 250;
/// Limits are per minute, unless a provider has shown another rate.
const USUAL: i64 = 60_000;

/// The estimate of one limit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Meter {
    /// Its size.
    limit: i128,
    /// What remained at `since`; negative where more was used than there was.
    level: i128,
    /// The start of the refill, in milliseconds.
    since: i64,
    /// When it is full by the last report, apart from what was `taken` since.
    full: i64,
    taken: i128,
    /// It gains `gain` in `over` milliseconds.
    gain: i128,
    over: i64,
}

impl Meter {
    /// Created from its first report. `None` for a limit of zero, which is no valid report.
    pub(super) fn of(reported: RateLimit, others: u64, now: i64) -> Option<Self> {
        let limit =
            i128::from(reported.limit.unwrap_or(reported.remaining).max(reported.remaining));
        if limit == 0 {
            return None;
        }
        let level = (i128::from(reported.remaining) - i128::from(others)) * UNIT;
        let limit = limit * UNIT;
        let (full, taken) = (i64::MAX, 0);
        let mut meter = Self { limit, level, since: now, full, taken, gain: limit, over: USUAL };
        meter.pace(reported);
        meter.fills(reported, others, now);
        Some(meter)
    }

    /// Applies a report. `sent_at` is when the call was sent; `others` is what was sent since the last answer before that: the
    /// server may have counted it or not.
    pub(super) fn update(&mut self, reported: RateLimit, sent_at: i64, others: u64, now: i64) {
        let remaining = i128::from(reported.remaining) * UNIT;
        if let Some(limit) = reported.limit.filter(|limit| *limit > 0) {
            let limit = i128::from(limit) * UNIT;
            if limit != self.limit {
                (self.limit, self.gain, self.over) = (limit, limit, USUAL);
            }
        }
        self.limit = self.limit.max(remaining);
        self.pace(reported);
        let least = remaining - i128::from(others) * UNIT;
        let most = remaining.saturating_add(self.gained(now.saturating_sub(sent_at)));
        self.level = self.level(now).clamp(least, most);
        self.since = self.since.max(now);
        self.fills(reported, others, now);
    }

    fn fills(&mut self, reported: RateLimit, others: u64, now: i64) {
        let reset = reported.reset_ms.map(|reset| reset.saturating_add(reported.slack_ms));
        self.full = reset.map_or(i64::MAX, |reset| now.saturating_add_unsigned(reset));
        self.taken = i128::from(others) * UNIT;
    }

    /// How fast it fills, within what the reset can mean: the remainder is reported in whole numbers, rounded down.
    fn pace(&mut self, reported: RateLimit) {
        let used = self.limit - i128::from(reported.remaining) * UNIT;
        let Some(reset) = reported.reset_ms.and_then(|reset| i64::try_from(reset).ok()) else {
            return;
        };
        let slack = i64::try_from(reported.slack_ms).unwrap_or(i64::MAX);
        let faster = |(a, in_a): (i128, i64), (b, in_b): (i128, i64)| {
            a.saturating_mul(i128::from(in_b)) > b.saturating_mul(i128::from(in_a))
        };
        let least = (used - UNIT, reset.saturating_add(slack));
        let most = (used, reset.saturating_sub(slack));
        if least.0 > 0 && least.1 > 0 && faster(least, (self.gain, self.over)) {
            (self.gain, self.over) = least;
        }
        if most.0 > 0 && most.1 > 0 && faster((self.gain, self.over), most) {
            (self.gain, self.over) = most;
        }
    }

    fn gained(&self, ms: i64) -> i128 {
        self.gain.saturating_mul(i128::from(ms.max(0))) / i128::from(self.over)
    }

    fn level(&self, now: i64) -> i128 {
        let gained = self.gained(now.saturating_sub(self.since));
        let even = self.level.saturating_add(gained).min(self.limit);
        if now >= self.full { even.max(self.limit - self.taken) } else { even }
    }

    /// Subtracts the estimated cost of a call.
    pub(super) fn take(&mut self, cost: u64, now: i64) {
        let full = self.level(now.saturating_add(LAG)) >= self.limit;
        self.level = self.level(now) - i128::from(cost) * UNIT;
        self.taken += i128::from(cost) * UNIT;
        let from = if full { now.saturating_add(LAG) } else { now };
        self.since = self.since.max(from);
    }

    /// Corrects the estimate: a call cost `less` less than was subtracted; negative means more.
    pub(super) fn give(&mut self, less: i128, now: i64) {
        self.level = (self.level(now) + less * UNIT).min(self.limit);
        // The server may have counted the difference before the last answer.
        self.taken += (-less).max(0) * UNIT;
        self.since = self.since.max(now);
    }

    /// When there is enough for `cost`. A call that costs more than the whole is sent when the bucket is full.
    pub(super) fn due(&self, cost: u64, now: i64) -> i64 {
        let wanted = (i128::from(cost) * UNIT).min(self.limit);
        let short = wanted - self.level(now);
        if short <= 0 {
            return now;
        }
        // Saturates: a server may report any number, and the caller bounds the wait.
        let gain = self.gain.max(1);
        let ms = short.saturating_mul(i128::from(self.over)).saturating_add(gain - 1) / gain;
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        let even = self.since.max(now).saturating_add(ms);
        let whole = self.full > now && self.limit - self.taken >= wanted;
        if whole { even.min(self.full) } else { even }
    }

    /// Returns the `cost` of a call that was never sent.
    pub(super) fn untake(&mut self, cost: u64, now: i64) {
        self.give(i128::from(cost), now);
        self.taken = (self.taken - i128::from(cost) * UNIT).max(0);
    }

    /// Whether less than one part in `parts` of it is left, without what `also` names.
    pub(super) fn is_below(&self, parts: u64, also: [u64; 2], now: i64) -> bool {
        let [times, units] = also;
        let also = i128::from(times) * i128::from(units) * UNIT;
        (self.level(now) - also) * i128::from(parts) < self.limit
    }

    pub(super) fn is_more_than(&self, other: &Self, now: i64) -> bool {
        self.level(now) > other.level(now)
    }

    /// The same by a clock that is `by` milliseconds ahead.
    pub(super) fn moved(mut self, by: i64) -> Self {
        self.since = self.since.saturating_add(by);
        // Never full is never full.
        if self.full < i64::MAX {
            self.full = self.full.saturating_add(by);
        }
        self
    }

    pub(super) fn state(&self, now: i64) -> RateLimitState {
        let whole = |micro: i128| u64::try_from(micro.max(0) / UNIT).unwrap_or(u64::MAX);
        let limit = whole(self.limit);
        let full_in = self.due(limit, now).saturating_sub(now);
        RateLimitState {
            limit,
            remaining: whole(self.level(now)),
            full_in_ms: u64::try_from(full_in).unwrap_or_default(),
        }
    }
}
