//! What a provider says about retrying: `Retry-After` in all its spellings, reset headers, and times in the text.
//!
//! Nonsense (negative, past, zero, not a number, beyond 24 days) counts as not said. It must never read a clock.

use std::time::{Duration, UNIX_EPOCH};

use super::limits;

/// As the providers' own SDKs do: a wait is believed up to 2³¹−1 milliseconds.
const LONGEST_MS: f64 = 2_147_483_647.0;

/// What a header counts a wait in.
enum Unit {
    Milliseconds,
    SecondsOrDate,
}

/// Headers that name a wait; the first one that makes sense counts. The server's own word comes first, and the more precise
/// one of it; a gateway that has none hands on its upstream's (LiteLLM).
const WAITS: &[(&str, Unit)] = &[
    ("retry-after-ms", Unit::Milliseconds),
    ("retry-after", Unit::SecondsOrDate),
    ("llm_provider-retry-after-ms", Unit::Milliseconds),
    ("llm_provider-retry-after", Unit::SecondsOrDate),
];

/// Header pairs: what is left, and when it comes back.
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

/// The wait the headers ask for. Reset headers count only where their budget is used up.
pub(super) fn from_headers(
    header: &dyn Fn(&str) -> Option<String>,
    rate_limited: bool,
    now_ms: i64,
) -> Option<Duration> {
    // A date is the server's: by a clock of ours that was set back it would be weeks away.
    let now_ms = limits::server_now(header("date").as_deref(), now_ms);
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

/// The wait a text asks for: "try again in 1.574s", "retry after 30 seconds", "in 5 minutes".
pub(super) fn from_text(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    for lead in ["try again in ", "retry in ", "retry after ", "try again after ", "wait "] {
        let mut rest = lower.as_str();
        while let Some(at) = rest.find(lead) {
            rest = rest.get(at + lead.len()..).unwrap_or("");
            if let Some(wait) = spoken_duration(rest) {
                return Some(wait);
            }
        }
    }
    None
}

/// A wait that a body names: `"34.4s"`, or seconds without a unit.
pub(super) fn delay(value: &str) -> Option<Duration> {
    match value.trim().parse::<f64>() {
        Ok(seconds) => millis(seconds * 1_000.0),
        Err(_) => compact_duration(value),
    }
}

/// `"34.4s"`, `"6ms"`, `"1m12s"`, `"1h"`.
fn compact_duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let (unit, after) = unit(after)?;
        total += number * unit;
        rest = after;
    }
    millis(total)
}

fn retry_after(value: &str, now_ms: i64) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return millis(seconds * 1_000.0);
    }
    let at = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    until(i64::try_from(at.as_millis()).ok()?, now_ms)
}

/// A reset as RFC 3339, as a duration, as Unix time in seconds or milliseconds, or as seconds from now.
pub(super) fn reset_time(value: &str, now_ms: i64) -> Option<Duration> {
    if let Ok(number) = value.parse::<i64>() {
        return match number {
            1_000_000_000_000.. => until(number, now_ms),
            1_000_000_000.. => until(number.checked_mul(1_000)?, now_ms),
            _ => until(number.checked_mul(1_000)?, 0),
        };
    }
    if let Ok(seconds) = value.parse::<f64>() {
        // Unix time with a fraction is beyond any wait that is believed.
        return millis(seconds * 1_000.0);
    }
    match rfc3339_ms(value) {
        Some(at) => until(at, now_ms),
        None => compact_duration(value),
    }
}

fn until(at_ms: i64, now_ms: i64) -> Option<Duration> {
    let wait = u64::try_from(at_ms.checked_sub(now_ms)?).ok()?;
    let wait = Duration::from_millis(wait);
    millis(wait.as_secs_f64() * 1_000.0).map(|_| wait)
}

fn millis(value: f64) -> Option<Duration> {
    (value > 0.0 && value <= LONGEST_MS).then(|| Duration::from_secs_f64(value / 1_000.0))
}

fn spoken_duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    // "1m30s", "1 minute 30 seconds"; a bare number is seconds.
    let mut found = false;
    while let Some((number, after)) = number(rest.trim_start()) {
        match unit(after.trim_start()) {
            Some((unit, after)) => {
                total += number * unit;
                rest = after;
                found = true;
            }
            None => {
                if !found {
                    total = number * 1_000.0;
                    found = true;
                }
                break;
            }
        }
    }
    if found { millis(total) } else { None }
}

fn number(text: &str) -> Option<(f64, &str)> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, rest) = text.split_at_checked(digits)?;
    // "in 20 seconds." must not take a full stop for a decimal point.
    let number = number.trim_end_matches('.');
    number.parse().ok().map(|value| (value, rest))
}

/// One unit's length in milliseconds, and what follows its word.
fn unit(text: &str) -> Option<(f64, &str)> {
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, rest) = text.split_at_checked(letters)?;
    let length = match word {
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        _ => return None,
    };
    Some((length, rest))
}

/// `2025-07-03T18:42:45Z`, with a fraction or an offset. Milliseconds since 1970.
fn rfc3339_ms(text: &str) -> Option<i64> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    if text.get(4..5)? != "-" || !matches!(text.get(10..11)?, "T" | "t" | " ") {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut fraction = 0;
    if let Some(digits) = rest.strip_prefix('.') {
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<3}", digits.get(..count)?);
        fraction = padded.get(..3)?.parse::<i64>().ok()?;
        rest = digits.get(count..)?;
    }
    let offset = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            sign * (rest.get(1..3)?.parse::<i64>().ok()? * 60
                + rest.get(4..6)?.parse::<i64>().ok()?)
        }
    };
    // Days since 1970 by the civil calendar, with years that begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000 + fraction)
}
