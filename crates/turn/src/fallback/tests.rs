//! The plan in a simulated world: profiles, models, failures and a clock, and the exact order of the attempts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::profiles::{self, CooldownPolicy, ProfileCandidate, ProfileUsages, failed};
use crate::retry;
use model::{AuthType, Failure, FailureKind};

fn candidates(profiles: usize) -> Vec<Candidate> {
    [("m1", 100), ("m2", 50), ("m3", 200)]
        .into_iter()
        .map(|(model, window)| Candidate {
            provider: "p".to_owned(),
            model: model.to_owned(),
            window,
            profiles: (1..=profiles)
                .map(|n| ProfileCandidate { id: format!("p{n}"), kind: AuthType::ApiKey })
                .collect(),
            explicit: false,
            missing: None,
        })
        .collect()
}

/// One call of a run: its attempts and waits, and how it ended.
struct World {
    usages: ProfileUsages,
    now: i64,
    remaining: Duration,
    log: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self {
            usages: ProfileUsages::new(),
            now: 1_000_000,
            remaining: Duration::from_secs(3_600),
            log: Vec::new(),
        }
    }

    fn call(
        &mut self,
        plan: &mut Plan,
        mut answer: impl FnMut(&str, &str) -> Option<Failure>,
    ) -> Result<(), Failure> {
        for _ in 0..1_000 {
            let profile = match plan.choose(&self.usages, self.now, self.remaining, &|_| false) {
                Choice::Use(profile) => profile,
                Choice::Wait(Pause { length: wait, .. }) => {
                    self.log.push(format!("wait {}", wait.as_millis()));
                    self.now += i64::try_from(wait.as_millis()).unwrap();
                    self.remaining = self.remaining.saturating_sub(wait);
                    plan.waited();
                    continue;
                }
                Choice::Switch { to, .. } => {
                    plan.switched(to);
                    continue;
                }
                Choice::Fail(failure) => return Err(failure),
            };
            plan.using(profile.as_deref());
            let model = plan.candidates[plan.at].model.clone();
            let name = profile.clone().unwrap_or_default();
            if let Some(profile) = &profile {
                let usage = self.usages.get(profile).cloned().unwrap_or_default();
                assert!(profiles::cooled(&usage, &model, self.now).is_none(), "it is left alone");
            }
            self.log.push(format!("{model}/{name}"));
            let Some(failure) = answer(&model, &name) else {
                plan.answered();
                return Ok(());
            };
            let failure = retry::judged(&failure).into_owned();
            if plan.retry(&failure, false, &self.usages, self.now, self.remaining, 0.5).is_some() {
                continue;
            }
            if let Some(profile) = profile {
                let usage = self.usages.entry(profile).or_default();
                failed(usage, CooldownPolicy::default(), &model, &failure, self.now);
            }
            plan.spent(&failure, false, &self.usages, self.now, self.remaining)?;
        }
        panic!("it does not end: {:?}", self.log);
    }
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "", "x")
}

/// `m1/p1-p3` for one attempt with each profile, `m1/p1-p3x3` for three.
fn attempts(model: &str, profiles: usize, times: usize) -> Vec<String> {
    (1..=profiles).flat_map(|n| vec![format!("{model}/p{n}"); times]).collect()
}

/// The exact order of attempts where every attempt fails in one way.
#[test]
fn two_and_three_profiles_of_three_models_and_every_kind() {
    use FailureKind::*;
    for n in [2, 3] {
        let all = |parts: &[Vec<String>]| parts.concat();
        let each = |model: &str| attempts(model, n, 1);
        let thrice = |model: &str| attempts(model, n, 3);
        let first = |model: &str| vec![format!("{model}/p1")];
        for (kind, expected, end) in [
            (ContextOverflow, all(&[first("m1"), first("m3")]), ContextOverflow),
            // All limited: the next model at once, where the second failure widens the window.
            (RateLimit, all(&[each("m1"), each("m2")]), RateLimit),
            (Overloaded, all(&[thrice("m1"), thrice("m2")]), Overloaded),
            (Timeout, all(&[thrice("m1"), thrice("m2")]), Timeout),
            (ServerError, all(&[thrice("m1"), thrice("m2"), thrice("m3")]), ServerError),
            (Network, all(&[thrice("m1"), thrice("m2"), thrice("m3")]), Network),
            (Billing, each("m1"), Billing),
            (Auth, each("m1"), Auth),
            (AuthPermanent, each("m1"), AuthPermanent),
            (ModelNotFound, all(&[first("m1"), first("m2"), first("m3")]), ModelNotFound),
            (Format, first("m1"), Format),
            (Refusal, all(&[first("m1"), first("m2"), first("m3")]), Refusal),
            (Aborted, first("m1"), Aborted),
            (Storage, first("m1"), Storage),
            (Unknown, all(&[first("m1"), first("m2"), first("m3")]), Unknown),
        ] {
            let mut world = World::new();
            let mut plan = Plan::new(candidates(n), None);
            let ended = world.call(&mut plan, |_, _| Some(failure(kind)));
            assert_eq!(world.log, expected, "{kind:?} with {n} profiles");
            assert_eq!(ended.unwrap_err().kind, end, "{kind:?} with {n} profiles");
            // The first answer ends the call; the attempts before it are the same.
            for answered in 1..=expected.iter().filter(|line| line.starts_with('m')).count() {
                let mut world = World::new();
                let mut left = answered;
                let ended = world.call(&mut Plan::new(candidates(n), None), |_, _| {
                    left -= 1;
                    (left > 0).then(|| failure(kind))
                });
                assert_eq!(ended, Ok(()), "{kind:?}, answered at {answered}");
                assert_eq!(world.log, expected[..world.log.len()]);
                assert_eq!(left, 0, "{kind:?}, answered at {answered}");
            }
        }
    }
}

#[test]
fn a_failing_profile_is_skipped_and_the_session_stays_with_the_next() {
    for kind in [FailureKind::RateLimit, FailureKind::Auth, FailureKind::Billing] {
        let mut world = World::new();
        let mut plan = Plan::new(candidates(2), None);
        let only = |_: &str, profile: &str| (profile == "p1").then(|| failure(kind));
        world.call(&mut plan, only).unwrap();
        world.call(&mut plan, only).unwrap();
        assert_eq!(world.log, ["m1/p1", "m1/p2", "m1/p2"]);
        // Another session finds the window.
        let mut other = Plan::new(candidates(2), None);
        world.log.clear();
        world.call(&mut other, only).unwrap();
        assert_eq!(world.log, ["m1/p2"]);
    }
}

#[test]
fn a_single_limited_key_is_waited_for_twice_at_most_and_within_the_run() {
    let one = || candidates(1).into_iter().take(1).collect::<Vec<_>>();
    let limited = |_: &str, _: &str| Some(failure(FailureKind::RateLimit));
    let mut world = World::new();
    let error = world.call(&mut Plan::new(one(), None), limited).unwrap_err();
    assert_eq!(world.log, ["m1/p1", "wait 30000", "m1/p1", "wait 30000", "m1/p1"]);
    assert_eq!((error.retry_after, error.cooldown), (None, Some(Duration::from_secs(30))));
    let mut world = World { remaining: Duration::from_secs(30), ..World::new() };
    let error = world.call(&mut Plan::new(one(), None), limited).unwrap_err();
    assert_eq!(world.log, ["m1/p1"]);
    assert_eq!((error.retry_after, error.cooldown), (None, Some(Duration::from_secs(30))));
    // Already in cooldown: no request at all.
    world.log.clear();
    let error = world.call(&mut Plan::new(one(), None), limited).unwrap_err();
    assert_eq!((world.log.len(), error.kind), (0, FailureKind::RateLimit));
    assert_eq!(error.code.as_deref(), Some("profiles_cooling"));
}

#[test]
fn the_host_says_how_often_a_call_is_sent_again_with_a_profile() {
    use FailureKind::{RateLimit, ServerError};
    let waits = |name: &str, times: usize| {
        let mut log = vec![name.to_owned()];
        for _ in 0..times {
            log.extend(["wait 30000".to_owned(), name.to_owned()]);
        }
        log
    };
    for (profiles, name) in [(0, "m1/"), (1, "m1/p1")] {
        for (retries, kind, expected) in [
            (0, ServerError, vec![name.to_owned()]),
            (0, RateLimit, vec![name.to_owned()]),
            (1, ServerError, vec![name.to_owned(); 2]),
            (1, RateLimit, waits(name, 1)),
            (4, ServerError, vec![name.to_owned(); 5]),
        ] {
            let one: Vec<Candidate> = candidates(profiles).into_iter().take(1).collect();
            let mut world = World::new();
            let mut plan = Plan::new(one, None).retrying(Some(retries));
            let error = world.call(&mut plan, |_, _| Some(failure(kind))).unwrap_err();
            assert_eq!((world.log, error.kind), (expected, kind));
        }
    }
    // The next profile and the next model are used all the same.
    let mut world = World::new();
    let mut plan = Plan::new(candidates(2), None).retrying(Some(0));
    world.call(&mut plan, |_, _| Some(failure(ServerError))).unwrap_err();
    assert_eq!(world.log, ["m1", "m2", "m3"].map(|model| attempts(model, 2, 1)).concat());
}

#[test]
fn a_limit_that_ended_in_the_meantime_does_not_end_the_call() {
    let now = Failure { retry_after: Some(Duration::ZERO), ..failure(FailureKind::RateLimit) };
    for profiles in [0, 1] {
        let one: Vec<Candidate> = candidates(profiles).into_iter().take(1).collect();
        let mut world = World::new();
        let mut limits = 2;
        world
            .call(&mut Plan::new(one, None), |_, _| {
                limits -= 1;
                (limits >= 0).then(|| now.clone())
            })
            .unwrap();
        assert_eq!(world.log.len(), 5, "{:?}", world.log);
        assert_eq!(world.log[1], "wait 0");
    }
}

#[test]
fn refused_keys_are_never_waited_for_and_end_as_auth_failures() {
    let mut world = World::new();
    let one: Vec<Candidate> = candidates(2).into_iter().take(1).collect();
    let refused = |_: &str, _: &str| Some(failure(FailureKind::Auth));
    let error = world.call(&mut Plan::new(one.clone(), None), refused).unwrap_err();
    assert_eq!((world.log.clone(), error.kind), (attempts("m1", 2, 1), FailureKind::Auth));
    let error = world.call(&mut Plan::new(one.clone(), None), refused).unwrap_err();
    assert_eq!((error.kind, error.cooldown), (FailureKind::Auth, Some(Duration::from_secs(30))));
    // One of them is rate limited: its limit ends by itself.
    let mut world = World { remaining: Duration::from_secs(20), ..World::new() };
    let mixed = |_: &str, profile: &str| {
        let kind = if profile == "p1" { FailureKind::RateLimit } else { FailureKind::Billing };
        Some(failure(kind))
    };
    let error = world.call(&mut Plan::new(one, None), mixed).unwrap_err();
    assert_eq!(error.kind, FailureKind::RateLimit);
    assert_eq!((error.retry_after, error.cooldown), (None, Some(Duration::from_secs(30))));
}

#[test]
fn a_failure_that_the_provider_calls_final_is_neither_waited_for_nor_retried() {
    let final_word = |kind| Failure { should_retry: Some(false), ..failure(kind) };
    let mut world = World::new();
    let one: Vec<Candidate> = candidates(1).into_iter().take(1).collect();
    let error = world
        .call(&mut Plan::new(one, None), |_, _| Some(final_word(FailureKind::RateLimit)))
        .unwrap_err();
    assert_eq!((world.log, error.kind), (vec!["m1/p1".to_owned()], FailureKind::RateLimit));
    let mut world = World::new();
    let ended = world
        .call(&mut Plan::new(candidates(2), None), |_, _| Some(final_word(FailureKind::Network)));
    assert!(ended.is_err());
    assert_eq!(world.log, ["m1/p1", "m2/p1", "m3/p1"]);
}

#[test]
fn a_pinned_profile_is_never_rotated() {
    let mut candidates = candidates(3);
    for candidate in &mut candidates {
        candidate.profiles.retain(|profile| profile.id == "p2");
    }
    let mut world = World::new();
    let refused = |model: &str, _: &str| (model == "m1").then(|| failure(FailureKind::ServerError));
    world.call(&mut Plan::new(candidates, None), refused).unwrap();
    assert_eq!(world.log, ["m1/p2", "m1/p2", "m1/p2", "m2/p2"]);
}

#[test]
fn a_server_without_keys_is_retried_waited_for_and_left() {
    let mut keyless = candidates(0);
    let mut world = World::new();
    let refusal =
        Failure { retry_after: Some(Duration::from_millis(20)), ..failure(FailureKind::RateLimit) };
    let ended = world.call(&mut Plan::new(keyless.clone(), None), |_, _| Some(refusal.clone()));
    assert!(ended.is_err());
    let last = ["m3/", "wait 20", "m3/", "wait 20", "m3/"];
    let expected = ["m1/", "wait 20", "m1/", "m2/", "wait 20", "m2/"]
        .into_iter()
        .chain(last)
        .collect::<Vec<_>>();
    assert_eq!(world.log, expected);
    keyless[0].missing = Some(failure(FailureKind::Auth));
    let mut world = World::new();
    world.call(&mut Plan::new(keyless, None), |_, _| None).unwrap();
    assert_eq!(world.log, ["m2/"]);
}

#[test]
fn nothing_is_retried_once_a_token_was_emitted() {
    let mut plan = Plan::new(candidates(3), None);
    plan.using(Some("p1"));
    let failure = failure(FailureKind::Network);
    let remaining = Duration::from_secs(60);
    assert_eq!(plan.retry(&failure, true, &ProfileUsages::new(), 0, remaining, 0.5), None);
    assert_eq!(plan.spent(&failure, true, &ProfileUsages::new(), 0, remaining), Err(failure));
}

#[test]
fn failed_calls_of_a_run_have_a_ceiling() {
    for (profiles, most) in [(0, 32), (1, 32), (2, 40), (5, 64), (40, 160)] {
        let mut plan = Plan::new(candidates(profiles), None);
        let failure = failure(FailureKind::ServerError);
        let mut failed = 0;
        loop {
            plan.using(None);
            failed += 1;
            let remaining = Duration::from_secs(600);
            if plan.retry(&failure, false, &ProfileUsages::new(), 0, remaining, 0.5).is_none() {
                assert!(plan.spent(&failure, false, &ProfileUsages::new(), 0, remaining).is_err());
                break;
            }
            // As if the call had been answered in between: only the run's own ceiling remains.
            plan.answered();
        }
        assert_eq!(failed, most, "{profiles} profiles");
    }
}

fn kinds() -> impl Strategy<Value = Option<FailureKind>> {
    use FailureKind::*;
    prop_oneof![
        Just(None),
        Just(Some(RateLimit)),
        Just(Some(Overloaded)),
        Just(Some(Timeout)),
        Just(Some(ServerError)),
        Just(Some(Network)),
        Just(Some(Auth)),
        Just(Some(Billing)),
        Just(Some(ModelNotFound)),
        Just(Some(ContextOverflow)),
        Just(Some(Format)),
    ]
}

/// One profile, no other model: the whole record of a call, on a clock that moves only by the waits.
#[test]
fn a_profile_is_used_three_times_at_most_and_the_waits_are_the_providers() {
    let attempted = |retry_after: Option<u64>, kind| {
        let one: Vec<Candidate> = candidates(1).into_iter().take(1).collect();
        let refusal =
            Failure { retry_after: retry_after.map(Duration::from_secs), ..failure(kind) };
        let mut world = World::new();
        let mut plan = Plan::new(one, None);
        let error = world.call(&mut plan, |_, _| Some(refusal.clone())).unwrap_err();
        (world.log.join(" "), error.kind)
    };
    let thrice = "m1/p1 m1/p1 m1/p1".to_owned();
    for kind in [FailureKind::Overloaded, FailureKind::ServerError, FailureKind::Timeout] {
        for wait in [None, Some(1), Some(19), Some(60)] {
            assert_eq!(attempted(wait, kind), (thrice.clone(), kind), "{kind:?} {wait:?}");
        }
        // More than a minute counts as a limit, and is longer than any wait.
        assert_eq!(attempted(Some(61), kind), ("m1/p1".to_owned(), FailureKind::RateLimit));
    }
    let limited = FailureKind::RateLimit;
    let waits = "m1/p1 wait 19000 m1/p1 wait 19000 m1/p1".to_owned();
    assert_eq!(attempted(Some(19), limited), (waits, limited));
    assert_eq!(attempted(Some(31), limited), ("m1/p1".to_owned(), limited));
}

/// With another usable model, a call waits `maxWaitMs` at most, whatever a provider requests.
#[test]
fn with_another_model_no_call_waits_long() {
    let log = |max_wait: Option<i64>, wait: Option<u64>, kind| {
        let refusal = Failure { retry_after: wait.map(Duration::from_millis), ..failure(kind) };
        let mut world = World::new();
        let plan = Plan::new(candidates(1), None);
        let mut plan = match max_wait {
            Some(max_wait) => plan.waiting_at_most(max_wait),
            None => plan,
        };
        world.call(&mut plan, |model, _| (model == "m1").then(|| refusal.clone())).unwrap();
        world.log.join(" ")
    };
    let limited = FailureKind::RateLimit;
    assert_eq!(log(None, None, limited), "m1/p1 m2/p1");
    assert_eq!(log(None, Some(2_001), limited), "m1/p1 m2/p1");
    assert_eq!(log(None, Some(2_000), limited), "m1/p1 wait 2000 m1/p1 m2/p1");
    assert_eq!(log(Some(0), Some(1), limited), "m1/p1 m2/p1");
    assert_eq!(log(Some(30_000), None, limited), "m1/p1 wait 30000 m1/p1 m2/p1");
    // The pause of an overloaded server: a retry only where the pause is short.
    let overloaded = FailureKind::Overloaded;
    assert_eq!(log(None, Some(2_001), overloaded), "m1/p1 m2/p1");
    assert_eq!(log(None, Some(2_000), overloaded), "m1/p1 m1/p1 m1/p1 m2/p1");
    assert_eq!(log(Some(0), None, overloaded), "m1/p1 m1/p1 m1/p1 m2/p1");
}

/// A fallback that is not usable either does not shorten the wait: its profile cools down as well.
#[test]
fn a_fallback_that_cools_down_is_not_chosen_before_the_wait() {
    let mut world = World::new();
    let window = model::ProfileWindow {
        model: Some("m2".to_owned()),
        reason: FailureKind::RateLimit,
        from: 0,
        until: world.now + 600_000,
    };
    world.usages.entry("p1".to_owned()).or_default().windows.push(window);
    let mut plan = Plan::new(candidates(1).into_iter().take(2).collect(), None);
    let mut limits = 1;
    let refusal =
        Failure { retry_after: Some(Duration::from_secs(5)), ..failure(FailureKind::Overloaded) };
    world
        .call(&mut plan, |_, _| {
            limits -= 1;
            (limits >= 0).then(|| refusal.clone())
        })
        .unwrap();
    assert_eq!(world.log, ["m1/p1", "m1/p1"]);
}

proptest! {
    /// Whatever fails: the run ends within the ceiling, never uses a profile in cooldown (the world asserts that), and never
    /// returns to a model it has left.
    #[test]
    fn every_run_ends_and_never_returns_to_a_model(
        answers in proptest::collection::vec(kinds(), 1..80),
        profiles in 0..4_usize,
        calls in 1..4_usize,
    ) {
        let mut world = World::new();
        let mut plan = Plan::new(candidates(profiles), None);
        let mut next = answers.iter().cycle();
        for _ in 0..calls {
            if world.call(&mut plan, |_, _| next.next().copied().flatten().map(failure)).is_err() {
                break;
            }
        }
        let attempted: Vec<&String> = world.log.iter().filter(|line| line.starts_with('m')).collect();
        let models: Vec<&str> = attempted.iter().map(|line| &line[..2]).collect();
        prop_assert!(models.is_sorted());
        prop_assert!(attempted.len() <= 160);
        prop_assert!(attempted.len() <= calls * 3 * 3 * profiles.max(1));
    }
}

#[test]
fn a_busy_profile_is_chosen_last_unless_it_is_the_sessions() {
    let (usages, time) = (ProfileUsages::new(), Duration::from_secs(60));
    let busy = |id: &str| id == "p1";
    let chosen = |plan: &Plan, busy: &dyn Fn(&str) -> bool| plan.choose(&usages, 0, time, busy);
    let used = |id: &str| Choice::Use(Some(id.to_owned()));
    assert_eq!(chosen(&Plan::new(candidates(2), None), &busy), used("p2"));
    assert_eq!(chosen(&Plan::new(candidates(2), Some("p1".to_owned())), &busy), used("p1"));
    assert_eq!(chosen(&Plan::new(candidates(2), None), &|_| true), used("p1"));
    assert_eq!(chosen(&Plan::new(candidates(2), None), &|_| false), used("p1"));
}
