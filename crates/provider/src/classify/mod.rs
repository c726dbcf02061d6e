//! Error classification: the failure kind of a status, a code and an error payload (docs/rules/failover.md#classification).
//!
//! It must never read assistant prose or tool output, and never show a key: every message here is redacted and cut.

mod hints;
mod limits;
mod pattern;
mod payload;
mod rules;
mod times;

#[cfg(test)]
mod tests;

pub(crate) use limits::rate_limits;
pub(crate) use payload::{ErrorPayload, parse_error};

use super::redact::{clip, redact};
use super::{Api, Failure};
use model::FailureKind;

/// The maximum length of a failure's message, in characters.
const MESSAGE_LIMIT: usize = 300;

/// The part of an error's text that is read: no provider writes the cause after 8 KiB.
const TEXT_LIMIT: usize = 8 * 1024;

/// The kind of an error. One table for all APIs, because gateways forward the texts of other providers. `status` is that
/// of the response or of the payload; `None` inside a stream.
fn kind_of(
    status: Option<u16>,
    error_type: Option<&str>,
    code: Option<&str>,
    message: &str,
) -> FailureKind {
    let text = pattern::normalize(head(message));
    let has = |patterns: &[&str]| pattern::contains_any(&text, patterns);
    let codes: Vec<String> =
        [code, error_type].into_iter().flatten().map(pattern::normalize).collect();
    let by_code = |table: &[(&str, FailureKind)]| {
        table
            .iter()
            .find(|(pattern, _)| codes.iter().any(|code| pattern::is_code(code, pattern)))
            .map(|(_, kind)| *kind)
    };

    if has(rules::LONG_CONTEXT_SURCHARGE) {
        return FailureKind::ContextOverflow;
    }
    if let Some(kind) = by_code(rules::CODES) {
        // Groq calls a prompt over the limit per minute "too large": a wait helps, a shorter prompt is not needed.
        let is_rate = kind == FailureKind::ContextOverflow && has(rules::TOKENS_PER_MINUTE);
        return if is_rate { FailureKind::RateLimit } else { kind };
    }
    // docs/rules/failover.md#order-of-text-tests: tokens per minute → billing → rate limit → overflow.
    let by_text = || {
        if has(rules::TOKENS_PER_MINUTE) {
            Some(FailureKind::RateLimit)
        } else if has(rules::BILLING) {
            Some(FailureKind::Billing)
        } else if has(rules::RATE_LIMIT) {
            Some(FailureKind::RateLimit)
        } else if has(rules::OVERFLOW) {
            Some(FailureKind::ContextOverflow)
        } else {
            None
        }
    };
    let refused_key = || {
        if has(rules::AUTH_PERMANENT) {
            FailureKind::AuthPermanent
        } else if has(rules::BILLING) {
            FailureKind::Billing
        } else if has(rules::REFUSAL) {
            FailureKind::Refusal
        } else {
            FailureKind::Auth
        }
    };
    match status {
        Some(401 | 403) => refused_key(),
        Some(402) if has(rules::PERIODIC) => FailureKind::RateLimit,
        Some(402) => FailureKind::Billing,
        Some(404) => by_text()
            .or_else(|| has(rules::AUTH).then_some(FailureKind::Auth))
            .unwrap_or(FailureKind::ModelNotFound),
        Some(408 | 410 | 499) => FailureKind::Timeout,
        Some(413) if has(rules::TOKENS_PER_MINUTE) => FailureKind::RateLimit,
        Some(413) => FailureKind::ContextOverflow,
        Some(429) => FailureKind::RateLimit,
        Some(529) => FailureKind::Overloaded,
        Some(503) if has(rules::OVERLOADED) => FailureKind::Overloaded,
        // Transient by the provider's own text (docs/rules/failover.md#classification).
        Some(409 | 424 | 425) | Some(500..) => FailureKind::ServerError,
        Some(_) | None => {
            let other_text = || {
                if has(rules::OVERLOADED) {
                    Some(FailureKind::Overloaded)
                } else if has(rules::AUTH) {
                    Some(refused_key())
                } else if has(rules::MODEL_NOT_FOUND) {
                    Some(FailureKind::ModelNotFound)
                } else if has(rules::REFUSAL) {
                    Some(FailureKind::Refusal)
                } else {
                    None
                }
            };
            let no_reason = codes.is_empty() && text.trim().is_empty();
            by_text().or_else(other_text).unwrap_or_else(|| match status {
                Some(400..=499) if no_reason => FailureKind::Unknown,
                // The status decides: a 400 concerns the request, whatever type the body names.
                Some(400..=499) => FailureKind::Format,
                Some(_) | None => by_code(rules::WEAK_CODES).unwrap_or(FailureKind::Unknown),
            })
        }
    }
}

/// The failure of an error inside a 200: an error event of a stream, or an error body.
pub(crate) fn payload_failure(payload: &ErrorPayload) -> Failure {
    let kind = kind_of(
        payload.status,
        payload.error_type.as_deref(),
        payload.code.as_deref(),
        &payload.message,
    );
    let message = if payload.message.trim().is_empty() {
        "the provider reported an error inside its response and did not say which".to_owned()
    } else {
        clean(&payload.message)
    };
    Failure {
        kind,
        status: None,
        code: stable_code(payload).or_else(|| Some("provider_error".to_owned())),
        message,
        retry_after: payload_wait(payload),
        cooldown: None,
        should_retry: payload.daily_quota.then_some(false),
    }
}

/// The failure of an HTTP error response. `body` is at most its first 64 KiB; `now_ms` is Unix time.
pub fn http_failure(
    _api: Api,
    status: u16,
    header: &dyn Fn(&str) -> Option<String>,
    content_type: Option<&str>,
    body: &[u8],
    now_ms: i64,
) -> Failure {
    let text = String::from_utf8_lossy(body);
    let title = html_title(content_type, &text);
    let mut payload = match &title {
        Some(_) => ErrorPayload::default(),
        None => parse_error(body)
            .unwrap_or_else(|| ErrorPayload { message: text.into_owned(), ..Default::default() }),
    };
    if payload.error_type.is_none() {
        // `ValidationException:http://…` (Bedrock).
        payload.error_type = header("x-amzn-errortype")
            .and_then(|name| name.split(':').next().map(str::to_owned))
            .filter(|name| !name.is_empty());
    }
    let mut kind = kind_of(
        Some(status),
        payload.error_type.as_deref(),
        payload.code.as_deref(),
        &payload.message,
    );
    let mut code = stable_code(&payload);
    let message = match title {
        Some(title) => {
            // A web page is from the gateway, not from the API: a 403 challenge does not concern the key.
            if matches!(status, 403 | 408) {
                kind = FailureKind::ServerError;
            }
            code =
                Some(if status == 403 { "blocked_upstream" } else { "html_error_page" }.to_owned());
            web_page(status, &title)
        }
        None if payload.message.trim().is_empty() => {
            format!("the provider answered `{status}` and did not say why")
        }
        None => clean(&payload.message),
    };
    let rate_limited = matches!(kind, FailureKind::RateLimit | FailureKind::Overloaded);
    Failure {
        kind,
        status: Some(status),
        code,
        message,
        retry_after: hints::from_headers(header, rate_limited, now_ms)
            .or_else(|| payload_wait(&payload))
            .or_else(|| times::reset_time(payload.reset.as_deref()?, now_ms)),
        cooldown: None,
        should_retry: header("x-should-retry")
            .and_then(|value| match value.trim() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            })
            .or(payload.daily_quota.then_some(false)),
    }
}

/// The failure of a success status without a stream or a response: an error, a page, an empty body, other text.
pub(crate) fn ok_but_not_stream(status: u16, content_type: Option<&str>, body: &[u8]) -> Failure {
    if let Some(payload) = parse_error(body) {
        return Failure { status: Some(status), ..payload_failure(&payload) };
    }
    let text = String::from_utf8_lossy(body);
    let (code, message) = if text.trim().is_empty() {
        ("empty_response", format!("the server answered `{status}` with an empty body"))
    } else if let Some(title) = html_title(content_type, &text) {
        ("not_a_stream", web_page(status, &title))
    } else {
        let kind = clip(content_type.unwrap_or("no content type"), 60);
        let excerpt = clip(&redact(&text, &[]), 200);
        (
            "not_a_stream",
            format!("the server answered `{status}` with `{kind}` that is no response: {excerpt}"),
        )
    };
    Failure { status: Some(status), ..Failure::new(FailureKind::ServerError, code, message) }
}

fn web_page(status: u16, title: &str) -> String {
    let title = if title.is_empty() { String::new() } else { format!(" (`{title}`)") };
    format!("the server answered `{status}` with a web page{title}; check the base URL")
}

/// The part of a text that is read.
fn head(text: &str) -> &str {
    let mut end = text.len().min(TEXT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

fn clean(message: &str) -> String {
    clip(&redact(head(message), &[]), MESSAGE_LIMIT)
}

/// The most precise code that is not only a number.
fn stable_code(payload: &ErrorPayload) -> Option<String> {
    [&payload.code, &payload.error_type]
        .into_iter()
        .flatten()
        .find(|code| code.parse::<f64>().is_err())
        .or(payload.code.as_ref())
        .map(|code| clean(code))
}

fn payload_wait(payload: &ErrorPayload) -> Option<std::time::Duration> {
    // Google names seconds even if a quota of the day is used up.
    if payload.daily_quota {
        return None;
    }
    payload
        .retry_delay
        .as_deref()
        .and_then(times::delay)
        .or_else(|| hints::from_text(&payload.message))
}

/// The title of a web page (empty where it has none); `None` where the body is no web page.
fn html_title(content_type: Option<&str>, text: &str) -> Option<String> {
    let head = head(text).trim_start();
    let lower = head.to_ascii_lowercase();
    let declared = content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("text/html"));
    let is_page = lower.starts_with("<!doctype html")
        || lower.starts_with("<html")
        || (declared && lower.starts_with('<'));
    if !is_page {
        return None;
    }
    let title = lower
        .find("<title")
        .and_then(|at| Some(at + lower.get(at..)?.find('>')? + 1))
        .and_then(|from| head.get(from..from + lower.get(from..)?.find("</title")?))
        .unwrap_or("");
    Some(clip(&redact(title, &[]), 80))
}
