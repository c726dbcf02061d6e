//! The rules of docs/rules/failover.md#classification over real error strings, bodies, headers, and the recorded error responses of five APIs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    http_failure, kind_of, ok_but_not_stream, parse_error, pattern, payload_failure, rules,
};
use crate::{Api, recorded};
use model::FailureKind;

const CHAT: Api = Api::OpenaiChat;
/// 2026-11-20T00:00:00Z.
const NOW_MS: i64 = 1_795_132_800_000;

fn failure(status: u16, headers: &[(&str, &str)], body: &str) -> super::Failure {
    let header = |name: &str| {
        headers.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    let content_type = header("content-type");
    http_failure(CHAT, status, &header, content_type.as_deref(), body.as_bytes(), NOW_MS)
}

#[test]
fn every_real_string_of_the_corpus_has_its_kind() {
    let corpus: Vec<Value> = serde_json::from_str(include_str!("corpus.json")).unwrap();
    let wrong: Vec<String> = corpus
        .iter()
        .filter_map(|case| {
            let status = case["status"].as_u64().map(|status| u16::try_from(status).unwrap());
            let kind = kind_of(
                status,
                case["type"].as_str(),
                case["code"].as_str(),
                case["message"].as_str().unwrap(),
            );
            (kind.as_str() != case["kind"]).then(|| format!("{} for {case}", kind.as_str()))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert!(corpus.len() > 100, "the corpus has only {} strings", corpus.len());
}

#[test]
fn every_line_of_the_table_has_a_real_string() {
    let corpus: Vec<Value> = serde_json::from_str(include_str!("corpus.json")).unwrap();
    let words = |keys: [&str; 2]| {
        let word = |case: &Value, key: &str| case[key].as_str().map(pattern::normalize);
        let words =
            |case| keys.map(|key| word(case, key)).into_iter().flatten().collect::<Vec<_>>();
        corpus.iter().flat_map(words).collect::<Vec<String>>()
    };
    let (codes, texts) = (words(["code", "type"]), words(["message", "message"]));
    let mut bare: Vec<String> = [rules::CODES, rules::WEAK_CODES]
        .into_iter()
        .flatten()
        .filter(|(line, _)| !codes.iter().any(|code| pattern::is_code(code, line)))
        .map(|(line, kind)| format!("code {line}: {}", kind.as_str()))
        .collect();
    let tables = [
        rules::TOKENS_PER_MINUTE,
        rules::BILLING,
        rules::PERIODIC,
        rules::RATE_LIMIT,
        rules::LONG_CONTEXT_SURCHARGE,
        rules::OVERFLOW,
        rules::OVERLOADED,
        rules::AUTH_PERMANENT,
        rules::AUTH,
        rules::MODEL_NOT_FOUND,
        rules::REFUSAL,
    ];
    for line in tables.into_iter().flatten() {
        if !texts.iter().any(|text| pattern::contains_any(text, &[line])) {
            bare.push(format!("text {line}"));
        }
    }
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn payloads_of_all_shapes_are_read() {
    let read = |body: Value| {
        let payload = parse_error(body.to_string().as_bytes())?;
        Some((payload.error_type, payload.code, payload.message, payload.status))
    };
    let own = |text: &str| Some(text.to_owned());
    let cases = [
        (
            json!({"error": {"type": "a", "code": "b", "message": "c", "param": null}}),
            Some((own("a"), own("b"), "c".to_owned(), None)),
        ),
        (
            json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "c"}}]),
            Some((own("RESOURCE_EXHAUSTED"), own("429"), "c".to_owned(), Some(429))),
        ),
        (
            json!({"type": "error", "error": {"type": "a", "message": "c", "details": {"error_code": "d"}}}),
            Some((own("a"), own("d"), "c".to_owned(), None)),
        ),
        (
            json!({"object": "error", "message": "c", "type": "a", "code": "3230"}),
            Some((own("a"), own("3230"), "c".to_owned(), None)),
        ),
        (
            json!({"object": "error", "message": {"detail": [{"msg": "c"}]}}),
            Some((None, None, "c".to_owned(), None)),
        ),
        (json!({"code": "b", "error": "c"}), Some((None, own("b"), "c".to_owned(), None))),
        (json!({"message": "c"}), Some((None, None, "c".to_owned(), None))),
        (json!({"detail": "c"}), Some((None, None, "c".to_owned(), None))),
        (
            json!({"type": "error", "code": "b", "message": "c"}),
            Some((None, own("b"), "c".to_owned(), None)),
        ),
        (
            json!({"type": "response.failed", "response": {"error": {"code": "b", "message": "c"}}}),
            Some((None, own("b"), "c".to_owned(), None)),
        ),
        (
            json!({"error": {"code": 502, "message": "Provider returned error", "metadata": {"errorType": "provider_overloaded", "raw": "busy"}}}),
            Some((
                own("provider_overloaded"),
                own("502"),
                "Provider returned error: busy".to_owned(),
                Some(502),
            )),
        ),
        (json!({"choices": [], "message": "not an error"}), None),
        (json!({"model": "m", "message": {"role": "assistant", "content": "An error."}}), None),
        (json!({"statusCode": 429, "message": "c"}), Some((None, None, "c".to_owned(), Some(429)))),
        (json!({"id": 1}), None),
        (json!("text"), None),
    ];
    for (body, expected) in cases {
        let shown = body.to_string();
        assert_eq!(read(body), expected, "{shown}");
    }
    assert_eq!(parse_error(b"<html>"), None);
}

#[test]
fn only_valid_waits_are_accepted() {
    let wait = |headers: &[(&str, &str)]| failure(429, headers, "{}").retry_after;
    let ms = |ms: u64| Some(Duration::from_millis(ms));
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Headers<'_>, Option<Duration>)] = &[
        (&[("retry-after", "7")], ms(7_000)),
        (&[("retry-after", "1.5")], ms(1_500)),
        (&[("retry-after", "Fri, 20 Nov 2026 00:00:30 GMT")], ms(30_000)),
        (&[("retry-after", "Thu, 19 Nov 2026 23:00:00 GMT")], None),
        (&[("retry-after", "-5")], None),
        (&[("retry-after", "0")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "99999999999")], None),
        (&[("retry-after", "soon")], None),
        (&[("retry-after-ms", "250"), ("retry-after", "7")], ms(250)),
        (&[("retry-after-ms", "x"), ("retry-after", "7")], ms(7_000)),
        (
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-20T00:01:00Z"),
            ],
            ms(60_000),
        ),
        (
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-20T01:00:00.500+01:00"),
            ],
            ms(500),
        ),
        (
            &[
                ("anthropic-ratelimit-tokens-remaining", "10"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-20T00:01:00Z"),
            ],
            None,
        ),
        (
            &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m12s")],
            ms(72_000),
        ),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6ms")], ms(6)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795132805000")], ms(5_000)),
        (
            &[
                ("x-ratelimit-remaining-requests-day", "0"),
                ("x-ratelimit-reset-requests-day", "33011.5"),
                ("x-ratelimit-remaining-tokens-minute", "3"),
                ("x-ratelimit-reset-tokens-minute", "11.3"),
            ],
            ms(33_011_500),
        ),
        (&[("ratelimit-remaining", "0"), ("ratelimit-reset", "9")], ms(9_000)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "NaN")], None),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-11-19T00:00:00Z"),
            ],
            None,
        ),
        (
            &[
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-11-20T00:00:07Z"),
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-11-20T00:00:09Z"),
            ],
            ms(9_000),
        ),
        (&[], None),
    ];
    for (headers, expected) in cases {
        assert_eq!(wait(headers), *expected, "{headers:?}");
    }
    let wait_in = |text: &str| {
        failure(429, &[], &json!({"error": {"message": text}}).to_string()).retry_after
    };
    assert_eq!(wait_in("Please try again in 1.3s."), ms(1_300));
    assert_eq!(wait_in("Please try again in 11.054s. Visit the console."), ms(11_054));
    assert_eq!(wait_in("Please try again in 20ms."), ms(20));
    assert_eq!(wait_in("try again in 1m30s"), ms(90_000));
    assert_eq!(wait_in("Please retry after 30 seconds."), ms(30_000));
    assert_eq!(wait_in("try again in 5 minutes"), ms(300_000));
    assert_eq!(wait_in("try again in a while"), None);
    let google = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [
        {"@type": "QuotaFailure"}, {"@type": "RetryInfo", "retryDelay": "34.5s"}]}});
    assert_eq!(failure(429, &[], &google.to_string()).retry_after, ms(34_500));
    let body = |error: Value| failure(429, &[], &json!({"error": error}).to_string()).retry_after;
    let headers = json!({"X-RateLimit-Limit": "50", "X-RateLimit-Reset": "1795132830000"});
    let openrouter = json!({"code": 429, "message": "m", "metadata": {"headers": headers}});
    assert_eq!(body(openrouter), ms(30_000));
    assert_eq!(body(json!({"message": "m", "metadata": {"retry_after_seconds": 4}})), ms(4_000));
    assert_eq!(body(json!({"type": "usage_limit_reached", "resets_in_seconds": 90})), ms(90_000));
    assert_eq!(body(json!({"message": "m", "retry_after": -1})), None);
}

#[test]
fn the_providers_own_retry_decision_is_respected() {
    let word = |value: &str| failure(500, &[("x-should-retry", value)], "").should_retry;
    assert_eq!([word("true"), word("false"), word("maybe")], [Some(true), Some(false), None]);
}

#[test]
fn a_quota_of_the_day_is_not_retried_whatever_wait_is_reported() {
    let quota = |id: &str| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                {"quotaMetric": "generate_content_requests", "quotaId": id}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}})
        .to_string()
    };
    let daily = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let minute = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let word = |body: &str| {
        let whole = failure(429, &[], body);
        let streamed = payload_failure(&parse_error(body.as_bytes()).unwrap());
        (whole.kind, whole.should_retry, streamed.kind, streamed.should_retry)
    };
    let limit = FailureKind::RateLimit;
    assert_eq!(word(&daily), (limit, Some(false), limit, Some(false)));
    assert_eq!(word(&minute), (limit, None, limit, None));
}

#[test]
fn a_web_page_is_an_answer_of_the_gateway() {
    let page = "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>";
    let kinds: Vec<FailureKind> = [403, 408, 500, 502, 429, 401]
        .iter()
        .map(|status| failure(*status, &[], page).kind)
        .collect();
    assert_eq!(
        kinds,
        [
            FailureKind::ServerError,
            FailureKind::ServerError,
            FailureKind::ServerError,
            FailureKind::ServerError,
            FailureKind::RateLimit,
            FailureKind::Auth
        ]
    );
    let blocked = failure(403, &[("content-type", "text/html")], page);
    assert_eq!(blocked.code.as_deref(), Some("blocked_upstream"));
    assert_eq!(
        blocked.message,
        "the server answered `403` with a web page (`Just a moment...`); check the base URL"
    );
}

#[test]
fn a_message_is_one_short_line_without_a_key() {
    let long = format!(
        "Incorrect API key provided: sk-proj-{}. \n{}",
        "a1".repeat(30),
        "word ".repeat(200)
    );
    let failure = failure(
        401,
        &[],
        &json!({"error": {"message": long, "code": "invalid_api_key"}}).to_string(),
    );
    assert!(
        failure.message.starts_with("Incorrect API key provided: [***] word word"),
        "{}",
        failure.message
    );
    assert!(failure.message.chars().count() <= 301);
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::Auth, Some("invalid_api_key"))
    );
}

#[test]
fn an_empty_error_names_its_status() {
    let failure = failure(502, &[], "");
    assert_eq!(
        (failure.kind, failure.status, failure.code, failure.message.as_str()),
        (
            FailureKind::ServerError,
            Some(502),
            None,
            "the provider answered `502` and did not say why"
        )
    );
}

#[test]
fn an_error_in_a_success_is_classified() {
    let body = br#"{"object":"error","message":"Rate limit reached, try again in 2s"}"#;
    let failure = ok_but_not_stream(200, Some("text/plain"), body);
    assert_eq!(
        (failure.kind, failure.status, failure.retry_after),
        (FailureKind::RateLimit, Some(200), Some(Duration::from_secs(2)))
    );
}

#[test]
fn a_success_that_is_no_stream_is_a_server_error() {
    let cases = [
        (
            Some("text/html"),
            "<html><title>Login</title>",
            "not_a_stream",
            "the server answered `200` with a web page (`Login`); check the base URL",
        ),
        (
            Some("text/html"),
            "<html><head></head></html>",
            "not_a_stream",
            "the server answered `200` with a web page; check the base URL",
        ),
        (
            Some("text/plain"),
            "hello sk-abcdefghij",
            "not_a_stream",
            "the server answered `200` with `text/plain` that is no response: hello [***]",
        ),
        (None, " \n", "empty_response", "the server answered `200` with an empty body"),
    ];
    for (content_type, body, code, message) in cases {
        let failure = ok_but_not_stream(200, content_type, body.as_bytes());
        assert_eq!(
            (failure.kind, failure.code.as_deref(), failure.message.as_str()),
            (FailureKind::ServerError, Some(code), message)
        );
    }
}

/// The failure kind of a recorded class. `permission` has no kind of its own; `other` is what the recorder did not know.
fn agrees(class: &str, kind: FailureKind) -> bool {
    use FailureKind as K;
    let ours: &[K] = match class {
        "context_overflow" | "too_large" => &[K::ContextOverflow],
        "rate_limit" => &[K::RateLimit],
        "overloaded" => &[K::Overloaded],
        "auth" | "permission" => &[K::Auth, K::AuthPermanent],
        "billing" => &[K::Billing],
        "not_found" => &[K::ModelNotFound],
        "invalid_request" => &[K::Format],
        "tool_use_failed" | "server" => &[K::ServerError],
        "other" => &[K::Unknown, K::ServerError, K::Refusal],
        _ => &[],
    };
    ours.contains(&kind)
}

/// Intended differences from a recorded class: the error's text, the kind, and the reason.
const DIFFERENT: &[(&str, FailureKind, &str)] = &[
    ("too_many_prompt_tokens", FailureKind::ContextOverflow, "it is one, whatever its status"),
    ("model_decommissioned", FailureKind::ModelNotFound, "a 400 for a model that is gone"),
    ("model_not_found", FailureKind::ModelNotFound, "a 400 for a model that is not there"),
    ("\"invalid_model\"", FailureKind::ModelNotFound, "a 400 for a model that is not there"),
    ("The supported API model names", FailureKind::ModelNotFound, "as above, in words alone"),
    ("Model not found", FailureKind::ModelNotFound, "as above, in words alone"),
    ("model identifier is invalid", FailureKind::ModelNotFound, "as above, in words alone"),
];

/// The wait that a recording expects, in milliseconds.
fn expected_wait(error: &Value) -> Option<f64> {
    let number = |key: &str| error[key].as_f64().or_else(|| error[key].as_str()?.parse().ok());
    let seconds = number("retry_after").or_else(|| number("retry_delay_s"));
    number("retry_after_ms").or(seconds.map(|seconds| seconds * 1_000.0))
}

#[test]
fn recorded_errors_of_all_apis_have_their_class_and_their_wait() {
    let (mut ran, mut waits) = (0, 0);
    let mut wrong = Vec::new();
    for api in ["anthropic", "chat", "responses", "google", "bedrock"] {
        for case in recorded::cases(api).unwrap_or_default() {
            let error = &case.expected["error"];
            if error.is_null() {
                continue;
            }
            let failure = if case.status() == 200 {
                // The error of a stream is its last event's data; a whole body is the error itself.
                let payload = recorded::events(&case.body)
                    .iter()
                    .filter_map(|(_, data)| parse_error(data))
                    .next_back()
                    .or_else(|| parse_error(&case.body))
                    .unwrap_or_default();
                payload_failure(&payload)
            } else {
                let content_type = case.header("content-type");
                let header = |name: &str| case.header(name);
                let kind = content_type.as_deref();
                http_failure(CHAT, case.status(), &header, kind, &case.body, NOW_MS)
            };
            ran += 1;
            let class = error["class"].as_str().unwrap();
            let shown = error.to_string();
            let meant = |(words, kind, _): &&(&str, FailureKind, &str)| {
                *kind == failure.kind && shown.contains(words)
            };
            if !agrees(class, failure.kind) && !DIFFERENT.iter().any(|line| meant(&line)) {
                wrong.push(format!("{}: {} for {error}", case.name, failure.kind.as_str()));
            }
            if let Some(expected) = expected_wait(error) {
                waits += 1;
                let wait = failure.retry_after.map(|wait| wait.as_secs_f64() * 1_000.0);
                if !wait.is_some_and(|wait| (wait - expected).abs() < 1.0) {
                    wrong.push(format!("{}: waits {wait:?} for {error}", case.name));
                }
            }
        }
    }
    println!("{ran} recorded errors classified, {waits} waits");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_quota_of_the_day_is_a_rate_limit_without_a_useful_wait() {
    let body = |quota: &str| {
        format!(
            r#"{{"error":{{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"{quota}"}}]}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}}]}}}}"#
        )
    };
    let read = |quota: &str| {
        let payload = parse_error(body(quota).as_bytes()).unwrap();
        let inside = payload_failure(&payload);
        let no_header = |_: &str| None;
        let body = body(quota);
        let outside = http_failure(CHAT, 429, &no_header, None, body.as_bytes(), NOW_MS);
        assert_eq!(
            (outside.kind, outside.retry_after, outside.should_retry),
            (inside.kind, inside.retry_after, inside.should_retry)
        );
        (inside.kind, inside.retry_after, inside.should_retry)
    };
    assert_eq!(
        read("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        (FailureKind::RateLimit, None, Some(false))
    );
    assert_eq!(
        read("GenerateRequestsPerMinutePerProjectPerModel"),
        (FailureKind::RateLimit, Some(std::time::Duration::from_millis(34_400)), None)
    );
}
