//! Waits and windows of whole runs, on a clock that moves only by the waits.

use serde_json::json;

use super::*;
use model::AuthType;
use provider::{Credential, KeyProfile};

const START: i64 = 1_700_000_000_000;

fn keys(names: &[&str]) -> ProviderKeys {
    let profile = |id: &&str| {
        let credential = Credential {
            profile_id: (*id).to_owned(),
            secret: "sk-0123456789".into(),
            bearer: false,
            aws: None,
        };
        Arc::new(KeyProfile::fixed(credential, AuthType::ApiKey))
    };
    ProviderKeys { profiles: names.iter().map(profile).collect(), missing: None }
}

fn limited() -> Value {
    json!({ "error": { "kind": "rate_limit", "message": "slow down" } })
}

/// The profiles in use, and when: seconds since the start.
fn attempts(result: &Value) -> Vec<String> {
    let all = result["attempts"].as_array().unwrap();
    all.iter().map(|it| format!("{} {}", it["model"].as_str().unwrap(), it["profileId"])).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_all_limited_are_waited_for_on_the_injected_clock() {
    for (names, replies) in [(&[][..], 1), (&["a"][..], 1), (&["a", "b"][..], 2)] {
        let clock = Clock::following(START);
        let script: Vec<Value> =
            std::iter::repeat_n(limited(), replies).chain([json!("ok")]).collect();
        let rig = Rig::with(&json!(script), clock.clone(), keys(names));
        let (result, events) = rig.start(&json!({ "timeoutMs": 120_000 })).end().await;
        assert_eq!(result["stopReason"], "end_turn", "{names:?}");
        assert_eq!(attempts(&result).len(), replies + 1);
        assert_eq!(clock.now_ms() - START, 30_001, "one window of the ladder");
        assert_eq!(events.first().map(String::as_str), Some("stream_start"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_requests_a_pause_gets_three_requests_and_no_more() {
    for (seconds, waited) in [(19, 38_000), (60, 120_000)] {
        let clock = Clock::following(START);
        let busy = json!({ "error": {
            "status": 529, "message": "Overloaded", "retryAfterMs": seconds * 1_000,
        } });
        let rig = Rig::with(&json!([busy, busy, busy, "late"]), clock.clone(), keys(&["a"]));
        let (result, events) = rig.start(&json!({ "timeoutMs": 600_000 })).end().await;
        assert_eq!(result["error"]["detail"]["kind"], "overloaded");
        assert_eq!(attempts(&result).len(), 3, "{seconds} s");
        assert_eq!(clock.now_ms() - START, waited, "{seconds} s");
        assert_eq!(events.iter().filter(|event| event.contains("waiting")).count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_leaves_no_time_is_not_begun() {
    let clock = Clock::following(START);
    let rig = Rig::with(&json!([limited()]), clock.clone(), keys(&["a"]));
    let (result, _) = rig.start(&json!({ "timeoutMs": 31_000 })).end().await;
    assert_eq!(result["error"]["kind"], "rate_limit");
    assert_eq!(result["error"]["detail"]["retryAfterMs"], 30_000);
    assert_eq!(result["error"]["detail"]["retryAfterSource"], "cooldown");
    assert_eq!(clock.now_ms(), START);
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_wait_for_a_key_immediately() {
    let clock = Clock::following(START);
    let rig = Rig::with(&json!([limited(), "late"]), clock.clone(), keys(&["a"]));
    let mut started = rig.start(&json!({ "timeoutMs": 120_000 }));
    rig.requests(1).await;
    started.control.abort();
    let (result, _) = started.end().await;
    assert_eq!((result["stopReason"].as_str(), clock.now_ms()), (Some("aborted"), START));
    assert_eq!(attempts(&result), [r#"m "a""#]);
}

#[tokio::test(start_paused = true)]
async fn the_windows_of_a_profile_end_on_the_injected_clock() {
    let clock = Clock::following(START);
    let refused = json!({ "error": { "kind": "billing", "message": "pay first" } });
    let rig = Rig::with(&json!([refused, "ok"]), clock.clone(), keys(&["a"]));
    let (first, _) = rig.start(&json!({})).end().await;
    assert_eq!(first["error"]["detail"]["kind"], "billing");
    let (second, _) = rig.start(&json!({})).end().await;
    assert_eq!(second["error"]["detail"]["code"], "profiles_cooling");
    assert_eq!(second["error"]["kind"], "auth_failure");
    tokio::time::advance(Duration::from_secs(600)).await;
    let (third, _) = rig.start(&json!({})).end().await;
    assert_eq!(third["stopReason"], "end_turn");
}
