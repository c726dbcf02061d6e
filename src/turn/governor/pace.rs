//! How fast calls go where refusals are all that is known of a limit: what was served between two of them.
//!
//! A bucket is empty at each refusal, so that what it served in between is what it gained. It must never guess before
//! something was served.

/// The longest pause between two calls, in microseconds: a server that refuses at random must not look like a slow one.
const SLOWEST: i64 = 250_000;
/// Calls that follow this closely, in microseconds, need no pace.
const FASTEST: i64 = 500;
/// The pause halves each time so many milliseconds pass without a refusal.
const HALVING: i64 = 60_000;
/// Calls that a late wake-up may catch up on.
const CATCH_UP: i64 = 2;

/// What was served since the last refusal, and the pace that is kept.
#[derive(Debug, Default)]
pub(super) struct Pace {
    round: Option<Round>,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Round {
    /// When the refusal came that began it.
    began: i64,
    /// When the first call went after it.
    opened: Option<i64>,
    served: i64,
}

#[derive(Debug)]
struct Pause {
    /// In microseconds.
    between: i64,
    since: i64,
    /// When the next call may go, in microseconds.
    next: i64,
}

impl Pause {
    fn between(&self, now: i64) -> i64 {
        let halvings = now.saturating_sub(self.since) / HALVING;
        self.between >> halvings.clamp(0, 40)
    }
}

impl Pace {
    /// When a call may go.
    pub(super) fn when(&self, now: i64) -> i64 {
        match &self.pause {
            Some(pause) if pause.between(now) >= FASTEST => {
                now.max(pause.next.saturating_add(999) / 1_000)
            }
            Some(_) | None => now,
        }
    }

    /// A call goes.
    pub(super) fn went(&mut self, now: i64) {
        if let Some(round) = &mut self.round {
            round.opened.get_or_insert(now);
        }
        if let Some(pause) = &mut self.pause {
            let between = pause.between(now);
            let late = now.saturating_mul(1_000).saturating_sub(between.saturating_mul(CATCH_UP));
            pause.next = pause.next.max(late).saturating_add(between);
        }
    }

    /// A call was not refused.
    pub(super) fn served(&mut self) {
        if let Some(round) = &mut self.round {
            round.served = round.served.saturating_add(1);
        }
    }

    /// Calls are refused from now on; the first refusal of its burst.
    pub(super) fn refused(&mut self, now: i64) {
        let before = self.pause.as_ref().map(|pause| pause.between(now));
        let measured = self.round.as_ref().filter(|round| round.served > 0).and_then(|round| {
            let opened = round.opened?;
            // A fifth slower than it was since the refusal, or half as fast as since the first call: the slower of the
            // two. But a bucket that was full before that call gained less in the meantime than it could, so that
            // neither is believed to be twice as slow as the other.
            let whole = now.saturating_sub(round.began).saturating_mul(1_250);
            let open = now.saturating_sub(opened).saturating_mul(2_000);
            Some(whole.max(open).min(whole.min(open).saturating_mul(2)) / round.served)
        });
        let slower = before.map(|between| between.saturating_mul(5) / 4);
        if let Some(between) = measured.max(slower) {
            let between = between.clamp(FASTEST, SLOWEST);
            self.pause = Some(Pause { between, since: now, next: now.saturating_mul(1_000) });
        }
        self.round = Some(Round { began: now, opened: None, served: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_held_before_something_was_served_between_two_refusals() {
        let mut pace = Pace::default();
        pace.went(0);
        pace.served();
        pace.refused(10);
        pace.went(500);
        assert_eq!(pace.when(500), 500);
        pace.refused(600);
        assert_eq!(pace.when(600), 600);
    }

    #[test]
    fn what_was_served_between_two_refusals_is_the_pace_a_fifth_slower() {
        let mut pace = Pace::default();
        pace.refused(0);
        for at in 0..100 {
            pace.went(200 + at);
            pace.served();
        }
        // A hundred in half a second: one in 5 ms, and 6.25 ms from now on.
        pace.refused(500);
        let mut now = 1_000;
        let mut went = 0;
        while now < 2_000 {
            if pace.when(now) <= now {
                pace.went(now);
                went += 1;
            } else {
                now = pace.when(now);
            }
        }
        assert!((158..=164).contains(&went), "{went}");
    }

    #[test]
    fn each_refusal_is_slower_than_before_and_each_minute_without_one_faster() {
        let mut pace = Pace::default();
        pace.refused(0);
        pace.went(10);
        pace.served();
        pace.refused(80);
        // A fifth slower than one in 80 ms, or half as fast as one in 70 ms: the slower of the two.
        pace.went(1_000);
        pace.went(1_000);
        pace.went(1_000);
        assert_eq!(pace.when(1_000), 1_140);
        pace.served();
        pace.refused(1_010);
        // Slower than the pace that was refused.
        for _ in 0..3 {
            pace.went(2_000);
        }
        assert_eq!(pace.when(2_000), 2_175);
        for _ in 0..3 {
            pace.went(62_000);
        }
        assert_eq!(pace.when(62_000), 62_088);
        for _ in 0..40 {
            pace.refused(62_100);
            pace.served();
        }
        for _ in 0..3 {
            pace.went(70_000);
        }
        assert_eq!(pace.when(70_000), 70_250);
    }
}
