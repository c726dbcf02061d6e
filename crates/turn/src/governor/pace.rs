//! How fast calls are admitted where only refusals show a limit: by the number of calls served between two refusals.
//!
//! A bucket is empty at each refusal, so that it gained what it served in between, and it serves more between two refusals
//! the slower the calls are. A server that refuses at random does not: there a pace only adds delay. It must never guess
//! before a call was served.

/// The longest pause between two calls, in microseconds: random refusals must not look like a very low limit.
const SLOWEST: i64 = 250_000;
/// Shorter pauses than this, in microseconds, are no pace.
const FASTEST: i64 = 500;
/// The pause halves each time this many milliseconds pass without a refusal.
const HALVING: i64 = 60_000;
/// A pace has helped if half as many calls more were served before the next refusal, or so many that it cannot be chance.
const MANY: i64 = 1_000;
/// Calls that a late wake-up may catch up on.
const CATCH_UP: i64 = 2;

/// The calls served since the last refusal, and the current pace.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    round: Option<Round>,
    pause: Option<Pause>,
}

#[derive(Debug, Clone)]
struct Round {
    /// The time of the refusal that began this round.
    began: i64,
    /// When the first call was admitted after it.
    opened: Option<i64>,
    served: i64,
}

#[derive(Debug, Clone)]
struct Pause {
    /// In microseconds.
    between: i64,
    since: i64,
    /// When the next call may be sent, in microseconds.
    next: i64,
    /// The calls served in the round in which it was measured.
    served: i64,
}

impl Pause {
    fn between(&self, now: i64) -> i64 {
        let halvings = now.saturating_sub(self.since) / HALVING;
        self.between >> halvings.clamp(0, 40)
    }
}

impl Pace {
    /// When a call may be sent.
    pub(super) fn due(&self, now: i64) -> i64 {
        match &self.pause {
            Some(pause) if pause.between(now) >= FASTEST => {
                now.max(pause.next.saturating_add(999) / 1_000)
            }
            Some(_) | None => now,
        }
    }

    /// Records a sent call.
    pub(super) fn admitted(&mut self, now: i64) {
        if let Some(round) = &mut self.round {
            round.opened.get_or_insert(now);
        }
        if let Some(pause) = &mut self.pause {
            let between = pause.between(now);
            let late = now.saturating_mul(1_000).saturating_sub(between.saturating_mul(CATCH_UP));
            pause.next = pause.next.max(late).saturating_add(between);
        }
    }

    /// Records a served call.
    pub(super) fn served(&mut self) {
        if let Some(round) = &mut self.round {
            round.served = round.served.saturating_add(1);
        }
    }

    /// The last refusal did not show a limit: restores the previous pace.
    pub(super) fn restore(&mut self, before: Self) {
        self.pause = before.pause;
    }

    /// Records a refusal; only the first refusal of a cohort counts.
    pub(super) fn refused(&mut self, now: i64) {
        let round = self.round.replace(Round { began: now, opened: None, served: 0 });
        let Some(Round { began, opened: Some(opened), served: served @ 1.. }) = round else {
            return;
        };
        // A fifth slower than the rate since the refusal, or half the rate since the first call: the slower of the two. A
        // bucket that was full before that call gained less than it could meanwhile, so neither may be more than twice as
        // slow as the other.
        let whole = now.saturating_sub(began).saturating_mul(1_250);
        let open = now.saturating_sub(opened).saturating_mul(2_000);
        let measured = whole.max(open).min(whole.min(open).saturating_mul(2)) / served;
        let paced = self.pause.as_ref().map(|pause| (pause.between(now), pause.served));
        let between = match paced.filter(|(between, _)| *between >= FASTEST) {
            None => measured,
            Some((_, before)) if served.saturating_mul(2) < before.min(MANY).saturating_mul(3) => {
                self.pause = None;
                return;
            }
            // Calls served at one pace show little about a faster one, so the pace slows in steps.
            Some((between, _)) => {
                measured.clamp(between.saturating_mul(5) / 4, between.saturating_mul(2))
            }
        };
        let between = between.clamp(FASTEST, SLOWEST);
        self.pause = Some(Pause { between, since: now, next: now.saturating_mul(1_000), served });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_delayed_before_a_call_was_served_between_two_refusals() {
        let mut pace = Pace::default();
        pace.admitted(0);
        pace.served();
        pace.refused(10);
        pace.admitted(500);
        assert_eq!(pace.due(500), 500);
        pace.refused(600);
        assert_eq!(pace.due(600), 600);
    }

    #[test]
    fn the_pace_is_a_fifth_slower_than_the_calls_served_between_two_refusals() {
        let mut pace = Pace::default();
        pace.refused(0);
        for at in 0..100 {
            pace.admitted(200 + at);
            pace.served();
        }
        // A hundred in half a second: one per 5 ms, and 6.25 ms from now on.
        pace.refused(500);
        let mut now = 1_000;
        let mut admitted = 0;
        while now < 2_000 {
            if pace.due(now) <= now {
                pace.admitted(now);
                admitted += 1;
            } else {
                now = pace.due(now);
            }
        }
        assert!((158..=164).contains(&admitted), "{admitted}");
    }

    /// A pace of 6.25 ms (a hundred calls served in half a second), after `served` calls at that pace and a refusal.
    fn refused_again(served: i64) -> Pace {
        let mut pace = Pace::default();
        pace.refused(0);
        for at in 0..100 {
            pace.admitted(200 + at);
            pace.served();
        }
        pace.refused(500);
        for at in 0..served {
            pace.admitted(1_000 + at * 6);
            pace.served();
        }
        pace.refused(1_000 + served * 6);
        pace
    }

    fn next_after_three(mut pace: Pace, at: i64) -> i64 {
        for _ in 0..3 {
            pace.admitted(at);
        }
        pace.due(at) - at
    }

    #[test]
    fn a_pace_that_helped_slows_by_a_step_and_quickens_each_minute_without_a_refusal() {
        // Half as fast as one per 6 ms; a step at most doubles the pause.
        assert_eq!(next_after_three(refused_again(200), 10_000), 12);
        assert_eq!(next_after_three(refused_again(200), 70_000), 6);
    }

    #[test]
    fn a_pace_that_did_not_help_is_dropped() {
        assert_eq!(next_after_three(refused_again(149), 10_000), 0);
    }

    #[test]
    fn refusals_with_nothing_served_between_them_do_not_change_the_pace() {
        let mut pace = refused_again(200);
        for at in 0..40 {
            pace.refused(10_000 + at);
        }
        assert_eq!(next_after_three(pace, 10_100), 12);
    }
}
