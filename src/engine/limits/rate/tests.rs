//! Calls that wait for their provider's limits, on a clock that moves only by the waits.

use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::*;
use model::RateLimit;

fn key() -> RateKey {
    RateKey::new("test", Some("a"), "m")
}

fn governor() -> Arc<Governor> {
    let options = GovernorOptions::parse(None).unwrap();
    Arc::new(Governor::new(options, Clock::default(), None))
}

fn reported(remaining: u64, limit: u64, reset_ms: u64) -> RateLimits {
    let limit_of =
        RateLimit { limit: Some(limit), remaining, reset_ms: Some(reset_ms), slack_ms: 1 };
    RateLimits { requests: Some(limit_of), ..RateLimits::default() }
}

/// A governor with a limit of ten requests that is used up and full again in ten seconds.
async fn spent() -> Arc<Governor> {
    let governor = governor();
    let permit = governor.permit(key(), Priority::Interactive, 1, || ()).await.unwrap();
    assert_eq!(permit.held, Duration::ZERO);
    permit.answered(200, &reported(0, 10, 10_000));
    permit.settle(Some((1, 1)));
    governor
}

#[tokio::test(start_paused = true)]
async fn calls_are_sent_as_their_limits_fill_and_by_their_priority() {
    let governor = spent().await;
    let began = governor.clock.instant();
    let mut calls = JoinSet::new();
    let order = [
        ("summary", Priority::Compaction),
        ("worker", Priority::Worker),
        ("first", Priority::Interactive),
        ("second", Priority::Interactive),
    ];
    for (name, priority) in order {
        let governor = Arc::clone(&governor);
        calls.spawn(async move {
            let mut permit = governor.permit(key(), priority, 1, || ()).await.unwrap();
            permit.sent();
            let at = began.elapsed();
            assert_eq!(permit.held, at);
            permit.answered(200, &RateLimits::default());
            permit.settle(Some((1, 1)));
            (name, at.as_secs())
        });
    }
    let mut sent = Vec::new();
    while let Some(call) = calls.join_next().await {
        sent.push(call.unwrap());
    }
    assert_eq!(sent, [("first", 1), ("second", 2), ("worker", 3), ("summary", 4)]);
    let states = governor.states();
    assert_eq!((states.len(), states[0].waiting, states[0].in_flight), (1, 0, 0));
    assert_eq!(states[0].requests.map(|it| it.limit), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_frees_its_position_and_wakes_the_next() {
    let governor = spent().await;
    let mut first = Box::pin(governor.permit(key(), Priority::Interactive, 1, || ()));
    let mut second = Box::pin(governor.permit(key(), Priority::Interactive, 1, || ()));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(governor.states()[0].waiting, 2);
    drop(first);
    let began = governor.clock.instant();
    let permit = second.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 1);
    // It is not sent after all: the next one gets its position.
    drop(permit);
    let third = governor.permit(key(), Priority::Interactive, 1, || ()).await.unwrap();
    assert_eq!(third.held, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_refused_profile_releases_the_calls_that_wait_for_it() {
    let governor = spent().await;
    let mut waiting = Box::pin(governor.permit(key(), Priority::Interactive, 1, || ()));
    assert!(waiting.as_mut().now_or_never().is_none());
    governor.dismiss("a", "another model", FailureKind::RateLimit);
    assert!(waiting.as_mut().now_or_never().is_none());
    governor.dismiss("a", "m", FailureKind::ServerError);
    assert!(waiting.as_mut().now_or_never().is_none());
    governor.dismiss("a", "m", FailureKind::RateLimit);
    assert!(waiting.await.is_none());
    let mut other = Box::pin(governor.permit(key(), Priority::Interactive, 1, || ()));
    assert!(other.as_mut().now_or_never().is_none());
    // A refused key is refused for every model.
    governor.dismiss("a", "another model", FailureKind::Auth);
    assert!(other.await.is_none());
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_one_call_is_sent_and_the_others_with_its_answer() {
    let governor = governor();
    let mut permit = governor.permit(key(), Priority::Interactive, 1, || ()).await.unwrap();
    permit.sent();
    let mut refusal = Failure::new(FailureKind::RateLimit, "", "slow down");
    refusal.retry_after = Some(Duration::from_secs(5));
    permit.answered(429, &RateLimits::default());
    permit.failed(&refusal, true);
    permit.settle(None);
    let began = governor.clock.instant();
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let governor = Arc::clone(&governor);
        calls.spawn(async move {
            let mut permit = governor.permit(key(), Priority::Interactive, 1, || ()).await.unwrap();
            permit.sent();
            let at = began.elapsed().as_millis();
            tokio::time::sleep(Duration::from_millis(100)).await;
            permit.answered(200, &RateLimits::default());
            permit.settle(Some((1, 1)));
            at
        });
    }
    let mut sent = Vec::new();
    while let Some(call) = calls.join_next().await {
        sent.push(call.unwrap());
    }
    sent.sort_unstable();
    let expected = [5_000, 5_100, 5_100, 5_200, 5_200, 5_200, 5_200, 5_300, 5_300, 5_300];
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn a_reset_profile_admits_calls_immediately() {
    let governor = spent().await;
    let mut waiting = Box::pin(governor.permit(key(), Priority::Interactive, 1, || ()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(governor.is_busy(&key(), 1));
    governor.forget("a");
    assert!(waiting.as_mut().now_or_never().is_some_and(|permit| permit.is_some()));
    assert!(!governor.is_busy(&key(), 1));
}

#[tokio::test(start_paused = true)]
async fn unused_queues_are_dropped_when_there_are_many() {
    let governor = governor();
    for at in 0..MOST_QUEUES * 2 {
        let model = format!("m{at}");
        drop(governor.permit(RateKey::new("test", None, &model), Priority::Worker, 1, || ()).await);
    }
    assert!(governor.states().len() <= MOST_QUEUES);
}

#[test]
fn wrong_options_are_refused_by_name() {
    let parse = |json: &str| {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        GovernorOptions::parse(Some(&raw)).map_err(|error| error.path)
    };
    let of = |ms| Ok(Some(GovernorOptions { max_wait: Duration::from_millis(ms) }));
    assert_eq!(parse("null"), of(60_000));
    assert_eq!(parse("true"), of(60_000));
    assert_eq!(parse("{}"), of(60_000));
    assert_eq!(parse(r#"{"maxWaitMs":5}"#), of(5));
    assert_eq!(parse("false"), Ok(None));
    assert_eq!(parse("7"), Err("rateGovernor".to_owned()));
    assert_eq!(parse(r#"{"maxWaitMs":60001}"#), Err("rateGovernor.maxWaitMs".to_owned()));
    assert_eq!(parse(r#"{"maxWaitMs":-1}"#), Err("rateGovernor.maxWaitMs".to_owned()));
    assert_eq!(parse(r#"{"wait":1}"#), Err("rateGovernor.wait".to_owned()));
}
