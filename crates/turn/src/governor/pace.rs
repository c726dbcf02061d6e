//! How fast calls are admitted where refusals are all that is known of a limit: by what was served between two of them.
//!
//! A bucket is empty at each refusal, so that what it served in between is what it gained, and it serves more between two
//! of them the slower it is asked. A server that refuses at random does not: there a pace only adds up. It must never guess before
//! something was served.

/// The longest pause between two calls, in microseconds: a server that refuses at random must not look like a slow one.
const SLOWEST: i64 = 250_000;
/// Calls that follow this closely, in microseconds, need no pace.
const FASTEST: i64 = 500;
/// The pause halves each time so many milliseconds pass without a refusal.
const HALVING: i64 = 60_000;
/// A pace has helped where half as many calls again were served before the next refusal, or so many of them that it cannot
/// be chance.
const MANY: i64 = 1_000;
/// Calls that a late wake-up may catch up on.
const CATCH_UP: i64 = 2;

/// What was served since the last refusal, and the pace in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    round: Option<Round>,
    pause: Option<Pause>,
}

#[derive(Debug, Clone)]
struct Round {
    /// When the refusal that began it came.
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
    /// What was served in the round in which it was measured.
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

    /// A call is sent.
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

    /// A call was not refused.
    pub(super) fn served(&mut self) {
        if let Some(round) = &mut self.round {
            round.served = round.served.saturating_add(1);
        }
    }

    /// The last refusal did not show a limit: the pace is what it was.
    pub(super) fn restore(&mut self, before: Self) {
        self.pause = before.pause;
    }

    /// Calls are refused from now on; only the first refusal of a cohort counts.
    pub(super) fn refused(&mut self, now: i64) {
        let round = self.round.replace(Round { began: now, opened: None, served: 0 });
        let Some(Round { began, opened: Some(opened), served: served @ 1.. }) = round else {
            return;
        };
        // A fifth slower than it was since the refusal, or half as fast as since the first call: the slower of the two.
        // But a bucket that was full before that call gained less in the meantime than it could, so that neither is
        // believed to be twice as slow as the other.
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
            // What was served at one pace shows little of a faster one, so the pace slows by steps.
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
    fn nothing_is_held_before_something_was_served_between_two_refusals() {
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
    fn what_was_served_between_two_refusals_is_the_pace_a_fifth_slower() {
        let mut pace = Pace::default();
        pace.refused(0);
        for at in 0..100 {
            pace.admitted(200 + at);
            pace.served();
        }
        // A hundred in half a second: one in 5 ms, and 6.25 ms from now on.
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

    /// A pace after a hundred that were served in half a second, 6.25 ms, with `served` at that pace and a refusal after.
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
    fn a_pace_that_helped_is_slower_by_a_step_and_each_minute_without_a_refusal_faster() {
        // Half as fast as one in 6 ms; the step is a doubling at most.
        assert_eq!(next_after_three(refused_again(200), 10_000), 12);
        assert_eq!(next_after_three(refused_again(200), 70_000), 6);
    }

    #[test]
    fn a_pace_that_did_not_help_is_none() {
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
