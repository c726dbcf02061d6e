//! Several processes over one server with a limit, in steps of ten milliseconds.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::governor::{Lane, Next, Priority};
use model::RateLimit;

/// A bucket of so many requests, full again so long after it was empty.
struct Server {
    size: i64,
    full_ms: i64,
    /// In parts of `full_ms`.
    level: i64,
    at: i64,
    served: u32,
    refused: u32,
}

impl Server {
    /// Answers a call: whether it was served, and the limits.
    fn call(&mut self, now: i64) -> (bool, RateLimits) {
        let most = self.size * self.full_ms;
        self.level = (self.level + (now - self.at) * self.size).min(most);
        self.at = now;
        let served = self.level >= self.full_ms;
        if served {
            self.level -= self.full_ms;
            self.served += 1;
        } else {
            self.refused += 1;
        }
        let reset = (most - self.level) / self.size;
        let requests = RateLimit {
            limit: Some(self.size.unsigned_abs()),
            remaining: (self.level / self.full_ms).unsigned_abs(),
            reset_ms: Some(reset.unsigned_abs()),
            slack_ms: 1,
        };
        (served, RateLimits { requests: Some(requests), ..RateLimits::default() })
    }
}

struct Process {
    lane: Lane,
    name: String,
    /// Its clock is so far from the shared one.
    ahead: i64,
    admitted: VecDeque<u64>,
    looked_at: i64,
    near_until: i64,
}

enum Event {
    Arrives { process: usize, id: u64, claimed: Option<Amounts> },
    Answered { process: usize, id: u64, claimed: Option<Amounts>, served: bool, limits: RateLimits },
}

struct World {
    server: Server,
    processes: Vec<Process>,
    state: Option<String>,
    events: BTreeMap<(i64, u64), Event>,
    random: u64,
    changes: u32,
}

impl World {
    fn new(processes: usize, size: i64, full_ms: i64, seed: u64) -> Self {
        let process = |n: usize| Process {
            lane: Lane::new(Duration::from_secs(60)),
            name: format!("p{n}"),
            ahead: i64::try_from(n).unwrap() * 1_000_000,
            admitted: VecDeque::new(),
            looked_at: i64::MIN,
            near_until: i64::MIN,
        };
        let level = size * full_ms;
        Self {
            server: Server { size, full_ms, level, at: 0, served: 0, refused: 0 },
            processes: (0..processes).map(process).collect(),
            state: None,
            events: BTreeMap::new(),
            random: seed,
            changes: 0,
        }
    }

    /// From 5 to 64 milliseconds.
    fn delay(&mut self) -> i64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        5 + i64::try_from((self.random >> 40) % 60).unwrap()
    }

    fn later(&mut self, at: i64, event: Event) {
        let n = self.events.len() as u64 + (self.random << 20);
        self.events.insert((at, n), event);
    }

    fn queue(&mut self, process: usize, now: i64) {
        let it = &mut self.processes[process];
        it.lane.queue(Priority::Interactive, 1, now + it.ahead);
    }

    fn change<T>(&mut self, now: i64, change: impl FnOnce(&mut SharedLimits) -> T) -> T {
        self.changes += 1;
        let mut limits = SharedLimits::parse(self.state.as_deref(), now);
        let done = change(&mut limits);
        self.state = Some(limits.text());
        done
    }

    fn step(&mut self, now: i64) {
        while let Some(entry) = self.events.first_entry().filter(|it| it.key().0 <= now) {
            match entry.remove() {
                Event::Arrives { process, id, claimed } => {
                    let (served, limits) = self.server.call(now);
                    let at = now + self.delay();
                    self.later(at, Event::Answered { process, id, claimed, served, limits });
                }
                Event::Answered { process, id, claimed, served, limits } => {
                    let it = &mut self.processes[process];
                    let at = now + it.ahead;
                    it.lane.answered(id, served, &limits, at);
                    let local = it.lane.local(id, &it.name, at).unwrap();
                    let is_near = it.lane.is_near(at);
                    it.lane.ended(id, served.then_some((1, 1)), at);
                    if !served {
                        it.lane.refused(None, at);
                        self.change(now, |limits| limits.refused(None));
                    }
                    if claimed.is_some() || is_near {
                        self.change(now, |it| it.answered(&local, claimed, served, &limits));
                    }
                }
            }
        }
        for process in 0..self.processes.len() {
            self.admit(process, now);
        }
    }

    fn admit(&mut self, process: usize, now: i64) {
        let state = SharedLimits::parse(self.state.as_deref(), now);
        let it = &mut self.processes[process];
        let at = now + it.ahead;
        while let Next::Go(id) = it.lane.next(at) {
            it.admitted.push_back(id);
        }
        while let Some(id) = self.processes[process].admitted.front().copied() {
            let it = &mut self.processes[process];
            if now >= it.looked_at + 500 {
                it.looked_at = now;
                if state.is_near() {
                    it.near_until = now + 500;
                }
            }
            let mut claimed = None;
            if it.lane.is_near(at) || now < it.near_until {
                let local = it.lane.local(id, &it.name, at).unwrap();
                match self.change(now, |limits| limits.claim(&local)) {
                    Claimed::Granted(settled) => claimed = Some(settled),
                    Claimed::Wait(_) => return,
                }
            }
            self.processes[process].admitted.pop_front();
            self.processes[process].lane.goes(id, at);
            let at = now + self.delay();
            self.later(at, Event::Arrives { process, id, claimed });
        }
    }

    fn run(&mut self, from: i64, to: i64) {
        (from..to).step_by(10).for_each(|now| self.step(now));
    }
}

#[test]
fn three_processes_at_one_limit_are_never_refused_and_use_all_of_it() {
    for seed in 0..12 {
        let mut world = World::new(3, 30, 3_000, seed);
        // Each learns the limit.
        for process in 0..3 {
            world.queue(process, 0);
        }
        world.run(0, 3_000);
        for call in 0..150 {
            world.queue(call % 3, 3_000);
        }
        world.run(3_000, 30_000);
        assert_eq!((world.server.refused, world.server.served), (0, 153), "seed {seed}");
    }
}

#[test]
fn without_the_shared_state_they_are_refused() {
    let mut world = World::new(3, 30, 3_000, 1);
    for process in 0..3 {
        world.queue(process, 0);
    }
    world.run(0, 3_000);
    for call in 0..150 {
        world.queue(call % 3, 3_000);
    }
    for now in (3_000..6_000).step_by(10) {
        world.state = None;
        for it in &mut world.processes {
            it.near_until = i64::MIN;
        }
        world.step(now);
    }
    assert!(world.server.refused > 20, "{}", world.server.refused);
}

#[test]
fn far_from_the_limit_nothing_is_shared() {
    let mut world = World::new(1, 1_000, 60_000, 7);
    for call in 0..200 {
        world.queue(0, call * 50);
        world.run(call * 50, call * 50 + 50);
    }
    world.run(10_000, 12_000);
    assert_eq!((world.server.served, world.server.refused, world.changes), (200, 0, 0));
}

#[test]
fn a_process_that_has_ended_holds_nothing_after_fifteen_seconds() {
    let mut world = World::new(2, 4, 600_000, 3);
    world.queue(0, 0);
    world.queue(1, 0);
    world.run(0, 1_000);
    // One of the two calls that are left is another's, which ends before it sends it.
    let lane = &mut world.processes[1].lane;
    lane.queue(Priority::Interactive, 1, 1_001_000);
    let Next::Go(id) = lane.next(1_001_000) else { panic!("it waits") };
    let local = lane.local(id, "p1", 1_001_000).unwrap();
    assert!(matches!(world.change(1_000, |it| it.claim(&local)), Claimed::Granted(_)));
    let out = |world: &World, now| SharedLimits::parse(world.state.as_deref(), now).unanswered();
    assert_eq!((out(&world, 15_999), out(&world, 16_000)), (1, 0));
    // The next answer says what is left.
    world.queue(0, 20_000);
    world.run(20_000, 21_000);
    world.queue(0, 21_000);
    world.run(21_000, 22_000);
    assert_eq!((world.server.served, world.server.refused), (4, 0));
}

#[test]
fn after_a_refusal_one_call_of_all_processes_is_sent_as_a_probe() {
    let mut world = World::new(2, 100, 60_000, 5);
    world.queue(0, 0);
    world.queue(1, 0);
    world.run(0, 1_000);
    world.change(1_000, |limits| limits.refused(Some(Duration::from_secs(2))));
    let lane = |world: &mut World, process: usize, now: i64| {
        let it = &mut world.processes[process];
        let id = it.lane.queue(Priority::Interactive, 1, now + it.ahead);
        while it.lane.next(now + it.ahead) == Next::Go(id) {}
        it.lane.local(id, &it.name, now + it.ahead).unwrap()
    };
    let (first, second) = (lane(&mut world, 0, 1_100), lane(&mut world, 1, 1_100));
    let wait = Claimed::Wait(Duration::from_millis(1_900));
    assert_eq!(world.change(1_100, |limits| limits.claim(&first)), wait);
    assert!(matches!(world.change(3_000, |it| it.claim(&first)), Claimed::Granted(_)));
    assert!(matches!(world.change(3_000, |it| it.claim(&second)), Claimed::Wait(_)));
    world.change(3_100, |it| it.answered(&first, None, true, &RateLimits::default()));
    assert!(matches!(world.change(3_100, |it| it.claim(&second)), Claimed::Granted(_)));
}
