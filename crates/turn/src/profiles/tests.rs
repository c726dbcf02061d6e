//! The rules of the profiles' usages, on a clock that the tests set: scopes, ladders, windows, order.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const KINDS: [FailureKind; 7] = [
    FailureKind::RateLimit,
    FailureKind::Timeout,
    FailureKind::Overloaded,
    FailureKind::Auth,
    FailureKind::Billing,
    FailureKind::AuthPermanent,
    FailureKind::Network,
];

fn fail(usage: &mut ProfileUsage, model: &str, kind: FailureKind, now: i64) {
    failed(usage, CooldownPolicy::default(), model, &Failure::new(kind, "", "x"), now);
}

fn until(usage: &ProfileUsage, model: &str, now: i64) -> Option<i64> {
    cooled(usage, model, now).map(|window| window.until)
}

#[test]
fn a_rate_limit_cools_one_model_and_a_second_one_widens_it_up_the_ladder() {
    let mut usage = ProfileUsage::default();
    fail(&mut usage, "a", FailureKind::RateLimit, 0);
    assert_eq!((until(&usage, "a", 1), until(&usage, "b", 1)), (Some(30_000), None));
    fail(&mut usage, "b", FailureKind::Overloaded, 1_000);
    assert_eq!(until(&usage, "b", 1_001), Some(61_000));
    assert_eq!(until(&usage, "c", 1_001), Some(61_000));
    // The first window is unchanged.
    assert_eq!(usage.windows[0].until, 30_000);
}

#[test]
fn failures_in_a_window_count_without_extending_it_and_its_end_resets_them() {
    let mut usage = ProfileUsage::default();
    for now in [0, 10, 29_999] {
        fail(&mut usage, "a", FailureKind::Timeout, now);
        assert_eq!(until(&usage, "a", now), Some(30_000));
    }
    assert_eq!(usage.failures, 3);
    // A second model gets the third step.
    let mut other = usage.clone();
    fail(&mut other, "b", FailureKind::Timeout, 29_999);
    assert_eq!(until(&other, "b", 29_999), Some(29_999 + 300_000));
    // The window has ended: the ladder begins again.
    fail(&mut usage, "a", FailureKind::Timeout, 30_000);
    assert_eq!(until(&usage, "a", 30_000), Some(60_000));
}

#[test]
fn the_legacy_ladder_has_four_steps() {
    let policy = CooldownPolicy { legacy_ladder: true, ..CooldownPolicy::default() };
    let rungs: Vec<i64> = (1..=5).map(|failures| rung(policy, failures) / 60_000).collect();
    assert_eq!(rungs, [1, 5, 25, 60, 60]);
    let usual: Vec<i64> =
        (1..=4).map(|failures| rung(CooldownPolicy::default(), failures) / 1_000).collect();
    assert_eq!(usual, [30, 60, 300, 300]);
}

#[test]
fn a_reset_time_of_the_server_overrides_the_ladder() {
    let mut usage = ProfileUsage::default();
    let limited = Failure {
        retry_after: Some(Duration::from_secs(7)),
        ..Failure::new(FailureKind::RateLimit, "", "x")
    };
    failed(&mut usage, CooldownPolicy::default(), "a", &limited, 0);
    assert_eq!(until(&usage, "a", 0), Some(7_000));
    let mut usage = ProfileUsage::default();
    let pause = Failure { kind: FailureKind::Overloaded, ..limited };
    failed(&mut usage, CooldownPolicy::default(), "a", &pause, 0);
    assert_eq!(until(&usage, "a", 0), Some(30_000));
}

#[test]
fn refused_keys_cool_the_profile_and_unpaid_ones_twice_as_long_each_time() {
    let mut usage = ProfileUsage::default();
    fail(&mut usage, "a", FailureKind::Auth, 0);
    assert_eq!(until(&usage, "b", 0), Some(30_000));

    let windows = |kind: FailureKind, steps: usize| {
        let (mut usage, mut now, mut minutes) = (ProfileUsage::default(), 0, Vec::new());
        for _ in 0..steps {
            fail(&mut usage, "a", kind, now);
            // Within the window it does not count.
            fail(&mut usage, "b", kind, now + 1);
            let end = until(&usage, "b", now).unwrap();
            minutes.push((end - now) / 60_000);
            now = end;
        }
        minutes
    };
    assert_eq!(windows(FailureKind::Billing, 9), [10, 20, 40, 80, 160, 320, 640, 1_280, 1_440]);
    assert_eq!(windows(FailureKind::AuthPermanent, 5), [10, 20, 40, 60, 60]);
}

#[test]
fn an_answer_or_a_quiet_day_ends_the_doubling() {
    let mut usage = ProfileUsage::default();
    fail(&mut usage, "a", FailureKind::Billing, 0);
    let mut paid = usage.clone();
    answered(&mut paid, 600_000);
    fail(&mut paid, "a", FailureKind::Billing, 600_001);
    assert_eq!(until(&paid, "a", 600_001), Some(1_200_001));
    fail(&mut usage, "a", FailureKind::Billing, DAY);
    assert_eq!(until(&usage, "a", DAY), Some(DAY + 600_000));
}

#[test]
fn an_answer_does_not_shorten_an_active_window() {
    let mut usage = ProfileUsage::default();
    fail(&mut usage, "a", FailureKind::RateLimit, 0);
    answered(&mut usage, 10);
    assert_eq!((until(&usage, "a", 11), usage.last_used_at), (Some(30_000), Some(10)));
}

#[test]
fn a_failure_that_concerns_no_profile_cools_none() {
    for kind in [
        FailureKind::ServerError,
        FailureKind::Network,
        FailureKind::ContextOverflow,
        FailureKind::ModelNotFound,
        FailureKind::Format,
        FailureKind::Refusal,
        FailureKind::Aborted,
        FailureKind::Storage,
        FailureKind::Unknown,
    ] {
        let mut usage = ProfileUsage::default();
        fail(&mut usage, "a", kind, 5);
        assert_eq!(usage, ProfileUsage::default(), "{kind:?}");
    }
}

#[test]
fn the_order_is_the_hosts_or_by_type_and_age_with_cooled_profiles_last() {
    let of = |id: &str, kind| ProfileCandidate { id: id.to_owned(), kind };
    let all = [
        of("key-1", AuthType::ApiKey),
        of("token", AuthType::Token),
        of("key-2", AuthType::ApiKey),
        of("oauth", AuthType::Oauth),
        of("key-3", AuthType::ApiKey),
    ];
    let mut usages = ProfileUsages::new();
    let ids = |explicit: bool, usages: &ProfileUsages| -> Vec<String> {
        order(&all, explicit, usages, "m", 100).into_iter().map(|it| it.id.clone()).collect()
    };
    assert_eq!(ids(false, &usages), ["oauth", "token", "key-1", "key-2", "key-3"]);
    answered(usages.entry("key-1".to_owned()).or_default(), 20);
    answered(usages.entry("key-2".to_owned()).or_default(), 10);
    assert_eq!(ids(false, &usages), ["oauth", "token", "key-3", "key-2", "key-1"]);
    assert_eq!(ids(true, &usages), ["key-1", "token", "key-2", "oauth", "key-3"]);
    fail(usages.entry("oauth".to_owned()).or_default(), "m", FailureKind::RateLimit, 50);
    fail(usages.entry("key-1".to_owned()).or_default(), "m", FailureKind::RateLimit, 40);
    assert_eq!(ids(false, &usages), ["token", "key-3", "key-2", "key-1", "oauth"]);
    assert_eq!(ids(true, &usages), ["token", "key-2", "key-3", "key-1", "oauth"]);
}

proptest! {
    /// For any events in any order: the end of an active window never moves, and no window is lost.
    #[test]
    fn an_active_window_is_immutable(
        events in proptest::collection::vec((0..KINDS.len(), 0..3_usize, 0..40_000_i64, any::<bool>()), 1..60)
    ) {
        let mut usage = ProfileUsage::default();
        let mut now = 0;
        for (kind, model, step, succeeds) in events {
            now += step;
            let before: Vec<ProfileWindow> =
                usage.windows.iter().filter(|window| window.until > now).cloned().collect();
            if succeeds {
                answered(&mut usage, now);
            } else {
                fail(&mut usage, ["a", "b", "c"][model], KINDS[kind], now);
            }
            for window in before {
                prop_assert!(usage.windows.contains(&window));
            }
            prop_assert!(usage.windows.iter().all(|window| window.from <= now && window.until > window.from));
            prop_assert!(usage.windows.len() <= 6);
        }
    }
}

const MONTH: i64 = 30 * DAY;

#[test]
fn a_window_in_the_future_is_dropped_and_a_small_clock_difference_lengthens_none() {
    let mut usage = ProfileUsage { last_used_at: Some(MONTH), ..ProfileUsage::default() };
    for kind in [FailureKind::RateLimit, FailureKind::Billing] {
        fail(&mut usage, "a", kind, MONTH);
    }
    assert_eq!((usage.windows.len(), usage.failures, usage.refusals), (2, 1, 1));
    // The clock of another process is a little behind: the windows have their former length.
    assert_eq!(until(&usage, "a", MONTH - SKEW), Some(MONTH + 10 * MINUTE));
    let mut behind = usage.clone();
    settle(&mut behind, MONTH - SKEW);
    let lengths: Vec<_> = behind.windows.iter().map(|it| (it.from, it.until - it.from)).collect();
    assert_eq!(lengths, [(MONTH - SKEW, 30 * SECOND), (MONTH - SKEW, 10 * MINUTE)]);
    // The clock was set back by a month: no call waits that long.
    assert_eq!(until(&usage, "a", 0), None);
    settle(&mut usage, 0);
    assert_eq!(usage, ProfileUsage { last_used_at: Some(0), ..ProfileUsage::default() });
}

proptest! {
    /// Whatever the clock is set to between failures, no call waits longer than the length of a window.
    #[test]
    fn no_wait_is_longer_than_its_window(
        steps in prop::collection::vec((-MONTH..MONTH, 0..KINDS.len()), 1..20),
    ) {
        let mut usage = ProfileUsage::default();
        let mut now = 12 * MONTH;
        for (step, kind) in steps {
            now += step;
            settle(&mut usage, now);
            if let Some(window) = cooled(&usage, "a", now) {
                prop_assert!(window.until - now <= window.until - window.from);
                prop_assert!(window.until - window.from <= DAY);
            }
            fail(&mut usage, "a", KINDS[kind], now);
        }
    }
}
