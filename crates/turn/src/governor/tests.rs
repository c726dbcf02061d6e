//! The lane against a simulated server with a limit: no call is refused, for any calls in any order.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::call::KINDS;
use super::lane::{DISTRUST, OVERTAKEN, SETTLING};
use super::meter::{self, Meter};
use super::{Lane, Next, Priority};
use model::{RateLimit, RateLimits};

const PATIENCE: Duration = Duration::from_secs(60);

/// The bucket of a server, in exact arithmetic: `cap` units, full again after `over` milliseconds.
struct Bucket {
    cap: i128,
    over: i128,
    /// In units of 1 / over.
    level: i128,
    at: i64,
}

impl Bucket {
    fn new(cap: u64, over: u64) -> Self {
        let (cap, over) = (i128::from(cap), i128::from(over));
        Self { cap, over, level: cap * over, at: 0 }
    }

    fn fill(&mut self, now: i64) {
        let gained = i128::from(now - self.at) * self.cap;
        self.level = (self.level + gained).min(self.cap * self.over);
        self.at = now;
    }

    /// Whether a request of `cost` is accepted, and its headers.
    fn accept(&mut self, cost: u64, now: i64) -> (bool, RateLimit) {
        self.fill(now);
        let cost = i128::from(cost) * self.over;
        let fits = self.level >= cost;
        if fits {
            self.level -= cost;
        }
        let missing = self.cap * self.over - self.level;
        let reset = (missing + self.cap - 1) / self.cap;
        let reported = RateLimit {
            limit: Some(u64::try_from(self.cap).unwrap()),
            remaining: u64::try_from(self.level / self.over).unwrap(),
            reset_ms: Some(u64::try_from(reset).unwrap()).filter(|reset| *reset > 0),
            slack_ms: 1,
        };
        (fits, reported)
    }
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Queue(u64, Priority),
    Arrive(u64, u64),
    Answer(u64, bool, RateLimits),
    End(u64, u64),
    Check,
}

/// Sends every admitted call, and returns the time of the next check.
fn pump(lane: &mut Lane, now: i64) -> (Vec<u64>, Option<i64>) {
    let mut sent = Vec::new();
    loop {
        match lane.next(now) {
            Next::Go(id) => sent.push(id),
            Next::Wait(_, until) => return (sent, Some(until)),
            Next::Idle => return (sent, None),
        }
    }
}

fn requests(remaining: u64, limit: u64, reset_ms: u64) -> RateLimits {
    let reported =
        RateLimit { limit: Some(limit), remaining, reset_ms: Some(reset_ms), slack_ms: 1 };
    RateLimits { requests: Some(reported), ..RateLimits::default() }
}

/// A lane with `remaining` of `limit` requests, after one call answered at 0.
fn lane(remaining: u64, limit: u64, reset_ms: u64) -> Lane {
    let mut lane = Lane::new(PATIENCE);
    let id = lane.queue(Priority::Interactive, 10, 0);
    assert_eq!(lane.next(0), Next::Go(id));
    lane.answered(id, true, &requests(remaining, limit, reset_ms), 0);
    lane.ended(id, Some((10, 0)), 0);
    lane
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Interactive), Just(Priority::Worker), Just(Priority::Compaction)]
}

proptest! {
    /// Requests take up to [`meter::LAG`] to arrive, answers any time: the server refuses none, and all calls are sent.
    #[test]
    fn a_server_that_reports_its_limits_correctly_refuses_no_call(
        cap in 1u64..30,
        over in 1_000u64..60_000,
        token_cap in 200u64..2_000,
        calls in prop::collection::vec(
            (0i64..5_000, 1u64..200, 0i64..meter::LAG, 0i64..4_000, 0u64..100, priority()), 1..60),
    ) {
        let mut lane = Lane::new(Duration::from_secs(100_000));
        let (mut slots, mut tokens) = (Bucket::new(cap, over), Bucket::new(token_cap, over));
        let mut plan: BTreeMap<(i64, usize), Happens> = BTreeMap::new();
        let mut order = 0..;
        let mut at = 10_000;
        // The first call is sent alone and reports the limits.
        plan.insert((0, order.next().unwrap()), Happens::Queue(0, Priority::Interactive));
        let mut sent: BTreeMap<u64, usize> = BTreeMap::new();
        for (position, (gap, .., priority)) in calls.iter().enumerate() {
            at += gap / 10;
            let position = u64::try_from(position).unwrap();
            plan.insert((at, order.next().unwrap()), Happens::Queue(position, *priority));
        }
        let mut arrived = 0;
        while let Some(((now, _), what)) = plan.pop_first() {
            let call = |id: u64, sent: &BTreeMap<u64, usize>| calls[sent[&id]];
            match what {
                Happens::Queue(position, priority) => {
                    let position = usize::try_from(position).unwrap();
                    let id = lane.queue(priority, calls[position].1, now);
                    sent.insert(id, position);
                }
                Happens::Arrive(id, cost) => {
                    arrived += 1;
                    let (fits, first) = slots.accept(1, now);
                    let (also, second) = tokens.accept(cost, now);
                    prop_assert!(fits && also, "refused at {now}: {first:?} {second:?} {lane:?}");
                    let reported = RateLimits {
                        requests: Some(first),
                        input: Some(second),
                        ..RateLimits::default()
                    };
                    let then = now + call(id, &sent).3;
                    plan.insert((then, order.next().unwrap()), Happens::Answer(id, true, reported));
                }
                Happens::Answer(id, well, reported) => {
                    lane.answered(id, well, &reported, now);
                    let then = now + 50;
                    plan.insert((then, order.next().unwrap()), Happens::End(id, call(id, &sent).1));
                }
                Happens::End(id, input) => lane.ended(id, Some((input, call(id, &sent).4)), now),
                Happens::Check => {}
            }
            let (admitted, until) = pump(&mut lane, now);
            for id in admitted {
                let (_, cost, delay, ..) = call(id, &sent);
                plan.insert((now + delay, order.next().unwrap()), Happens::Arrive(id, cost));
            }
            if let Some(until) = until {
                prop_assert!(until > now);
                if !plan.values().any(|it| matches!(it, Happens::Check)) || until < now + 1_000 {
                    plan.insert((until, order.next().unwrap()), Happens::Check);
                }
            }
        }
        prop_assert_eq!(arrived, calls.len() + 1);
        prop_assert!(lane.is_idle());
    }

    /// A larger remainder never makes a call wait longer; a larger call is never sent sooner.
    #[test]
    fn waits_are_monotone(
        limit in 1u64..1_000, left in 0u64..1_000, more in 0u64..1_000,
        reset in 1u64..100_000, cost in 0u64..2_000, larger in 0u64..2_000, now in 0i64..100_000,
    ) {
        let reported = |remaining: u64| RateLimit {
            limit: Some(limit), remaining: remaining.min(limit), reset_ms: None, slack_ms: 1,
        };
        let poor = Meter::of(reported(left), 0, 0).unwrap();
        let rich = Meter::of(reported(left + more), 0, 0).unwrap();
        prop_assert!(rich.due(cost, now) <= poor.due(cost, now));
        prop_assert!(poor.due(cost, now) <= poor.due(cost + larger, now));
        let paced = Meter::of(RateLimit { reset_ms: Some(reset), ..reported(left) }, 0, 0).unwrap();
        prop_assert!(paced.due(cost, now) >= now);
        prop_assert!(paced.due(cost, now) < i64::MAX);
    }

    /// For any calls with any priority, a call is overtaken by a bounded number of later ones.
    #[test]
    fn nobody_starves(crowd in prop::collection::vec(priority(), 1..120)) {
        let mut lane = lane(0, 1, 100);
        let mut queued: BTreeMap<u64, usize> = BTreeMap::new();
        let mut crowd = crowd.into_iter().enumerate();
        let mut overtaken: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now = 1;
        loop {
            // Two arrive for each that is sent.
            for (position, priority) in crowd.by_ref().take(2) {
                queued.insert(lane.queue(priority, 1, now), position);
            }
            match lane.next(now) {
                Next::Go(id) => {
                    let position = queued.remove(&id).unwrap();
                    for (other, its) in &queued {
                        if *its < position {
                            *overtaken.entry(*other).or_default() += 1;
                        }
                    }
                    lane.answered(id, true, &requests(0, 1, 100), now);
                    lane.ended(id, Some((1, 1)), now);
                }
                Next::Wait(_, until) => now = until,
                Next::Idle => break,
            }
        }
        prop_assert!(overtaken.values().all(|times| *times <= OVERTAKEN), "{overtaken:?}");
        prop_assert!(queued.is_empty());
    }

    /// Whatever a server reports, the first of the queue is sent within the lane's patience after the last one.
    #[test]
    fn no_header_holds_the_queue_forever(
        limit in prop::option::of(prop_oneof![Just(u64::MAX), 0u64..100]), remaining in 0u64..3,
        reset_ms in prop::option::of(prop_oneof![
            Just(0), Just(u64::MAX), Just(i64::MAX.unsigned_abs()), 0u64..2_147_483_648,
        ]),
        slack_ms in prop_oneof![Just(0), Just(1), Just(1_000), Just(u64::MAX)],
        input in prop_oneof![Just(0), Just(u64::MAX), 0u64..1_000],
    ) {
        let one = RateLimit { limit, remaining, reset_ms, slack_ms };
        let reported = RateLimits {
            requests: Some(one), tokens: Some(one), input: Some(one), output: Some(one),
        };
        let mut lane = Lane::new(PATIENCE);
        let patience = i64::try_from(PATIENCE.as_millis()).unwrap();
        let mut now = 0;
        for _ in 0..20 {
            let id = lane.queue(Priority::Compaction, input, now);
            let queued = now;
            while let Next::Wait(_, until) = lane.next(now) {
                prop_assert!(until > now);
                now = until;
            }
            prop_assert!(now - queued <= patience);
            lane.answered(id, true, &reported, now);
            lane.ended(id, Some((input, u64::MAX)), now);
        }
    }
}

#[test]
fn a_call_without_limits_is_sent_immediately() {
    let mut lane = Lane::new(PATIENCE);
    for _ in 0..1_000 {
        let id = lane.queue(Priority::Worker, u64::MAX, 7);
        assert_eq!(lane.next(7), Next::Go(id));
    }
    assert_eq!((lane.next(7), lane.is_busy(1, 7)), (Next::Idle, false));
}

#[test]
fn calls_are_ordered_by_priority_and_then_by_arrival() {
    let mut lane = lane(0, 10, 10_000);
    let [summary, worker, first, second] =
        [Priority::Compaction, Priority::Worker, Priority::Interactive, Priority::Interactive]
            .map(|priority| lane.queue(priority, 1, 1));
    let mut order = Vec::new();
    let mut now = 1;
    while order.len() < 4 {
        match lane.next(now) {
            Next::Go(id) => order.push(id),
            Next::Wait(_, until) => now = until,
            Next::Idle => panic!("somebody waits"),
        }
    }
    assert_eq!(order, [first, second, worker, summary]);
}

#[test]
fn a_cancelled_call_costs_nothing() {
    let mut lane = lane(1, 10, 60_000);
    let [first, second] = [1, 1].map(|input| lane.queue(Priority::Interactive, input, 1));
    assert_eq!(pump(&mut lane, 1).0, [first]);
    lane.withdrawn(first, 2);
    assert_eq!(pump(&mut lane, 2).0, [second]);
    lane.withdrawn(second, 3);
    assert!(lane.is_idle());
}

#[test]
fn after_a_refusal_one_call_is_sent_and_then_more_with_each_answer() {
    let mut lane = Lane::new(PATIENCE);
    let refused = lane.queue(Priority::Interactive, 1, 0);
    assert_eq!(pump(&mut lane, 0).0, [refused]);
    lane.answered(refused, false, &RateLimits::default(), 10);
    lane.refused(Some(Duration::from_secs(2)), 10);
    lane.ended(refused, None, 10);
    for _ in 0..40 {
        lane.queue(Priority::Interactive, 1, 11);
    }
    assert_eq!(pump(&mut lane, 11), (Vec::new(), Some(2_010)));
    let mut rounds = Vec::new();
    let mut now = 2_010;
    loop {
        let (sent, _) = pump(&mut lane, now);
        if sent.is_empty() {
            break;
        }
        rounds.push(sent.len());
        now += 100;
        for id in sent {
            lane.answered(id, true, &RateLimits::default(), now);
            lane.ended(id, Some((1, 1)), now);
        }
    }
    assert_eq!(rounds, [1, 2, 4, 8, 16, 9]);
    // Enough calls were answered, but those that were refused with them may still return: the lane probes for a while.
    let settled = 2_010 + SETTLING;
    for (at, expected) in [(now, 41), (settled, 1)] {
        for _ in 0..expected {
            lane.queue(Priority::Interactive, 1, at);
        }
        let (sent, _) = pump(&mut lane, at);
        assert_eq!(sent.len(), expected);
        for id in sent {
            lane.answered(id, true, &RateLimits::default(), at);
            lane.ended(id, Some((1, 1)), at);
        }
    }
    let now = settled;
    for _ in 0..100 {
        lane.queue(Priority::Interactive, 1, now);
    }
    assert_eq!(pump(&mut lane, now).0.len(), 100);
}

#[test]
fn after_a_failed_probe_the_next_call_probes_and_a_second_refusal_closes_the_lane_again() {
    let mut lane = Lane::new(PATIENCE);
    lane.refused(Some(Duration::from_secs(1)), 0);
    let [one, two, three] = [1, 1, 1].map(|input| lane.queue(Priority::Interactive, input, 0));
    assert_eq!(pump(&mut lane, 1_000).0, [one]);
    lane.ended(one, None, 1_100);
    assert_eq!(pump(&mut lane, 1_100).0, [two]);
    lane.answered(two, false, &RateLimits::default(), 1_200);
    lane.refused(Some(Duration::from_secs(5)), 1_200);
    lane.ended(two, None, 1_200);
    assert_eq!(pump(&mut lane, 1_200), (Vec::new(), Some(6_200)));
    assert_eq!(pump(&mut lane, 6_200).0, [three]);
}

#[test]
fn a_wait_over_a_minute_is_left_to_the_profiles_cooldown() {
    let mut lane = Lane::new(PATIENCE);
    lane.refused(Some(Duration::from_secs(61)), 0);
    let id = lane.queue(Priority::Interactive, 1, 0);
    assert_eq!(pump(&mut lane, 0).0, [id]);
}

#[test]
fn headers_that_an_answer_proves_wrong_are_ignored() {
    // Nothing remains, and the refill takes hours.
    let mut lane = lane(0, 1, 36_000_000);
    let one = lane.queue(Priority::Interactive, 1, 0);
    assert_eq!(pump(&mut lane, 0), (Vec::new(), Some(60_000)));
    assert_eq!(pump(&mut lane, 60_000).0, [one]);
    lane.answered(one, true, &requests(0, 1, 36_000_000), 60_100);
    let two = lane.queue(Priority::Interactive, 1, 60_200);
    assert_eq!(pump(&mut lane, 60_200).0, [two]);
    // Not forever.
    lane.answered(two, true, &requests(0, 1, 36_000_000), 60_100 + DISTRUST);
    let last = lane.queue(Priority::Interactive, 1, 60_100 + DISTRUST);
    assert!(pump(&mut lane, 60_100 + DISTRUST).0.is_empty());
    assert!(lane.is_waiting(last));
}

#[test]
fn at_the_reset_the_limit_is_full_apart_from_later_calls() {
    // The refill rate of a bucket of one is unknown.
    let mut lane = lane(0, 1, 700);
    let [first, second] = [1, 1].map(|input| lane.queue(Priority::Interactive, input, 0));
    assert_eq!(pump(&mut lane, 0).1, Some(701));
    assert_eq!(pump(&mut lane, 701), (vec![first], Some(60_701)));
    lane.answered(first, true, &requests(0, 1, 700), 800);
    assert_eq!(pump(&mut lane, 800).1, Some(1_501));
    assert_eq!(pump(&mut lane, 1_501).0, [second]);
}

#[test]
fn a_reset_in_the_past_leaves_the_usual_pace() {
    let mut lane = Lane::new(PATIENCE);
    let id = lane.queue(Priority::Interactive, 10, 0);
    assert_eq!(pump(&mut lane, 0).0, [id]);
    let reported = RateLimit { limit: Some(60), remaining: 0, reset_ms: None, slack_ms: 1 };
    let reported = RateLimits { requests: Some(reported), ..RateLimits::default() };
    lane.answered(id, true, &reported, 0);
    lane.queue(Priority::Interactive, 10, 0);
    assert_eq!(pump(&mut lane, 0).1, Some(1_000));
}

#[test]
fn a_lone_refusal_changes_neither_the_width_nor_the_pace() {
    let mut lane = Lane::new(PATIENCE);
    let mut now = 0;
    let mut served = 0;
    // One in twenty is refused at random: a hundred calls together, and the refused ones return.
    let mut turn = 0;
    let mut left = 300;
    for _ in 0..20 {
        for _ in 0..left.min(100) {
            lane.queue(Priority::Interactive, 1, now);
        }
        let (sent, until) = pump(&mut lane, now);
        if sent.is_empty() {
            now = until.unwrap();
        }
        lane.dismiss();
        for id in sent {
            turn += 1;
            let well = turn % 20 != 7;
            lane.answered(id, well, &RateLimits::default(), now + 5);
            if well {
                served += 1;
                left -= 1;
            } else {
                lane.refused(Some(Duration::from_secs(1)), now + 5);
            }
            lane.ended(id, well.then_some((1, 1)), now + 5);
        }
        now += 5;
        if left == 0 {
            break;
        }
    }
    assert_eq!(served, 300);
    assert!(now < 10_000, "{now}");
}

#[test]
fn limits_that_only_refusals_report_end_with_a_served_call() {
    let mut lane = Lane::new(PATIENCE);
    let [one, two] = [1, 1].map(|input| lane.queue(Priority::Interactive, input, 0));
    assert_eq!(pump(&mut lane, 0).0, [one, two]);
    lane.answered(one, false, &requests(0, 1, 36_000_000), 10);
    lane.refused(Some(Duration::from_secs(1)), 10);
    lane.ended(one, None, 10);
    assert!(lane.limits(10)[0].is_some());
    lane.answered(two, true, &RateLimits::default(), 20);
    lane.ended(two, Some((1, 1)), 20);
    assert_eq!(lane.limits(20), [None; KINDS]);
    let three = lane.queue(Priority::Interactive, 1, 20);
    assert_eq!(pump(&mut lane, 20), (Vec::new(), Some(1_010)));
    assert_eq!(pump(&mut lane, 1_010).0, [three]);
}
