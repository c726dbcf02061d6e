//! Simulated storms: the plans of many runs, one lane and one profile, a server that refuses, and a simulated clock.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::call::Waiting;
use super::lane::YIELDING;
use super::{Claim, Lane, Next, Priority};
use crate::fallback::{Candidate, Choice, Plan};
use crate::profiles::{CooldownPolicy, ProfileCandidate, ProfileUsages, failed};
use model::{AuthType, Failure, FailureKind, RateLimits};

const TIME: i64 = 3_600_000;

/// It refuses everything at first, and then is a bucket.
#[derive(Debug, Clone, Copy)]
struct Server {
    storm: i64,
    size: i64,
    /// In requests a second.
    rate: i64,
    /// The wait that it reports beyond the time until the next unit.
    margin: i64,
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Choose(usize),
    Waited(usize),
    Arrive(u64),
    Answer(u64, Option<i64>),
    Check,
}

struct World {
    server: Server,
    /// In thousandths of a request.
    level: i64,
    filled: i64,
    lane: Lane,
    usages: ProfileUsages,
    plans: Vec<Plan>,
    requests: Vec<u32>,
    answered: usize,
    calls: BTreeMap<u64, usize>,
    plan: BTreeMap<(i64, u64), Happens>,
    order: u64,
    dice: u64,
    look: Option<i64>,
}

impl World {
    fn new(server: Server, runs: usize, dice: u64) -> Self {
        let candidate = Candidate {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            window: 100,
            profiles: vec![ProfileCandidate { id: "a".to_owned(), kind: AuthType::ApiKey }],
            explicit: false,
            missing: None,
        };
        let mut world = Self {
            server,
            level: server.size * 1_000,
            filled: 0,
            lane: Lane::new(Duration::from_secs(60)),
            usages: ProfileUsages::new(),
            plans: vec![Plan::new(vec![candidate], None); runs],
            requests: vec![0; runs],
            answered: 0,
            calls: BTreeMap::new(),
            plan: BTreeMap::new(),
            order: 0,
            dice,
            look: None,
        };
        for run in 0..runs {
            let at = world.jitter(20);
            world.at(at, Happens::Choose(run));
        }
        world
    }

    /// A random number below `most`.
    fn jitter(&mut self, most: u64) -> i64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.dice >> 33) % most).unwrap()
    }

    fn at(&mut self, at: i64, what: Happens) {
        self.order += 1;
        self.plan.insert((at, self.order), what);
    }

    /// The wait that the server reports; `None` where it serves.
    fn refuses(&mut self, now: i64) -> Option<i64> {
        let Server { storm, size, rate, margin } = self.server;
        self.level = (self.level + (now - self.filled) * rate).min(size * 1_000);
        self.filled = now;
        if now >= storm && self.level >= 1_000 {
            self.level -= 1_000;
            return None;
        }
        Some((1_000 - self.level.min(1_000)) / rate + margin)
    }

    fn choose(&mut self, run: usize, now: i64) -> Result<(), Failure> {
        let left = Duration::from_millis((TIME - now).unsigned_abs());
        match self.plans[run].choose(&self.usages, now, left, &|_| false) {
            Choice::Use(profile) => {
                self.plans[run].using(profile.as_deref());
                let last = self.plans[run].is_last_request();
                let claim = Claim { priority: Priority::Interactive, last };
                let id = self.lane.queue(claim, 1, now);
                self.calls.insert(id, run);
            }
            Choice::Wait(pause) => {
                let wait = i64::try_from(pause.length.as_millis()).unwrap();
                let late = self.jitter(40);
                self.at(now + wait + 1 + late, Happens::Waited(run));
            }
            Choice::Switch { .. } => unreachable!("there is one model"),
            Choice::Fail(failure) => return Err(failure),
        }
        Ok(())
    }

    fn answer(&mut self, id: u64, refused: Option<i64>, now: i64) -> Result<(), Failure> {
        let run = self.calls[&id];
        self.lane.answered(id, refused.is_none(), &RateLimits::default(), now);
        let Some(wait) = refused else {
            self.lane.ended(id, Some((1, 1)), now);
            self.plans[run].answered();
            self.answered += 1;
            return Ok(());
        };
        let wait = Duration::from_millis(wait.unsigned_abs());
        let failure = Failure {
            retry_after: Some(wait),
            ..Failure::new(FailureKind::RateLimit, "", "slow down")
        };
        self.lane.refused(Some(wait), now);
        self.lane.ended(id, None, now);
        let left = Duration::from_millis((TIME - now).unsigned_abs());
        assert_eq!(self.plans[run].retry(&failure, false, &self.usages, now, left, 0.5), None);
        let usage = self.usages.entry("a".to_owned()).or_default();
        failed(usage, CooldownPolicy::default(), "m", &failure, now);
        if !self.lane.is_briefly_closed(now) {
            for id in self.lane.dismiss() {
                let late = self.jitter(20);
                self.at(now + late, Happens::Choose(self.calls[&id]));
            }
        }
        self.plans[run].spent(&failure, false, &self.usages, now, left)?;
        self.choose(run, now)
    }

    /// Sends every admitted call. No call is sent for the last time before another that may be refused more often.
    fn pump(&mut self, now: i64) {
        loop {
            let yields = |it: &Waiting| it.claim.last && now < it.queued_at + YIELDING;
            let before: Vec<(u64, bool)> =
                self.lane.waiting.iter().map(|it| (it.id, yields(it))).collect();
            match self.lane.next(now) {
                Next::Go(id) => {
                    let last = before.iter().any(|(of, yields)| *of == id && *yields);
                    assert!(!last || before.iter().all(|(_, it)| *it), "{before:?}");
                    let late = self.jitter(10);
                    self.requests[self.calls[&id]] += 1;
                    self.at(now + late, Happens::Arrive(id));
                }
                Next::Wait(_, until) => {
                    assert!(until > now);
                    if self.look.replace(until) != Some(until) {
                        self.at(until, Happens::Check);
                    }
                    return;
                }
                Next::Idle => return,
            }
        }
    }

    /// Runs until all calls are answered, or one fails.
    fn run(&mut self) -> Result<i64, Failure> {
        let mut now = 0;
        while let Some(((at, _), what)) = self.plan.pop_first() {
            now = at;
            match what {
                Happens::Choose(run) => self.choose(run, now)?,
                Happens::Waited(run) => {
                    self.plans[run].waited();
                    self.choose(run, now)?;
                }
                Happens::Arrive(id) => {
                    let refused = self.refuses(now);
                    let late = self.jitter(30);
                    self.at(now + late, Happens::Answer(id, refused));
                }
                Happens::Answer(id, refused) => self.answer(id, refused, now)?,
                Happens::Check => {}
            }
            self.pump(now);
            if self.answered == self.plans.len() {
                break;
            }
        }
        Ok(now)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    /// For any storm and any bucket after it: every run is answered, with three requests at most.
    #[test]
    fn every_run_of_a_storm_is_answered(
        runs in 60_usize..200,
        storm in 0_i64..3_000,
        size in 1_i64..200,
        rate in 20_i64..500,
        margin in 100_i64..4_000,
        dice: u64,
    ) {
        let server = Server { storm, size, rate, margin };
        let mut world = World::new(server, runs, dice);
        let ended = world.run();
        let requests: u32 = world.requests.iter().sum();
        prop_assert!(ended.is_ok(), "{:?} after {} of {runs}, {requests}", ended, world.answered);
        prop_assert_eq!(world.answered, runs);
        prop_assert!(world.requests.iter().all(|requests| *requests <= 3));
    }
}
