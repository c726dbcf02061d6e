//! Retry hints of a provider: `Retry-After` in all its spellings, reset headers, and times in the text.
//!
//! An invalid value (negative, past, zero, not a number, beyond 24 days) counts as absent. It must never read a clock.

use std::time::Duration;

use super::times::{duration_in_words, millis, reset_time, retry_after, server_now};

/// The unit of a header.
enum Unit {
    Milliseconds,
    SecondsOrDate,
}

/// Headers with a wait; the first valid one counts. The server's own headers are first, the more precise one before the
/// other; a gateway without its own forwards its upstream's (LiteLLM).
const WAITS: &[(&str, Unit)] = &[
    ("retry-after-ms", Unit::Milliseconds),
    ("retry-after", Unit::SecondsOrDate),
    ("llm_provider-retry-after-ms", Unit::Milliseconds),
    ("llm_provider-retry-after", Unit::SecondsOrDate),
];

/// Header pairs: the remainder of a limit, and its reset.
const RESETS: &[(&str, &str)] = &[
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining-requests-day", "x-ratelimit-reset-requests-day"),
    ("x-ratelimit-remaining-tokens-minute", "x-ratelimit-reset-tokens-minute"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

/// The wait in the headers. Reset headers count only if their limit is used up.
pub(super) fn from_headers(
    header: &dyn Fn(&str) -> Option<String>,
    rate_limited: bool,
    now_ms: i64,
) -> Option<Duration> {
    // A date is in the server's time: compared with a local clock that was set back it could be weeks away.
    let now_ms = server_now(header("date").as_deref(), now_ms);
    let named = WAITS.iter().find_map(|(name, unit)| {
        let value = header(name)?;
        match unit {
            Unit::Milliseconds => millis(value.trim().parse().ok()?),
            Unit::SecondsOrDate => retry_after(value.trim(), now_ms),
        }
    });
    if named.is_some() {
        return named;
    }
    if !rate_limited {
        return None;
    }
    RESETS
        .iter()
        .filter(|(remaining, _)| {
            header(remaining).and_then(|left| left.trim().parse::<f64>().ok()) == Some(0.0)
        })
        .filter_map(|(_, reset)| reset_time(header(reset)?.trim(), now_ms))
        .max()
}

/// The wait in a text: "try again in 1.574s", "retry after 30 seconds", "in 5 minutes".
pub(super) fn from_text(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    for lead in ["try again in ", "retry in ", "retry after ", "try again after ", "wait "] {
        let mut rest = lower.as_str();
        while let Some(at) = rest.find(lead) {
            rest = rest.get(at + lead.len()..).unwrap_or("");
            if let Some(wait) = duration_in_words(rest) {
                return Some(wait);
            }
        }
    }
    None
}
