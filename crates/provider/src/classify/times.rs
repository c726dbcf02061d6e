//! Parses times and waits in the forms of the providers: durations, dates, Unix times, and words.
//!
//! An invalid value (negative, past, zero, not a number, beyond 24 days) is no wait. It must never read a clock.

use std::time::{Duration, UNIX_EPOCH};

/// The maximum wait, as in the providers' own SDKs: 2³¹−1 milliseconds.
const LONGEST_MS: f64 = 2_147_483_647.0;

/// Clocks that differ by less count as equal.
const SAME_MS: u64 = 2_000;
/// The server's time, by its `date` if that differs from the local time.
pub(super) fn server_now(date: Option<&str>, now_ms: i64) -> i64 {
    let date = date
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .and_then(|date| i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok());
    date.filter(|date| date.abs_diff(now_ms) > SAME_MS).unwrap_or(now_ms)
}

/// A wait in a body: `"34.4s"`, or seconds without a unit.
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

pub(super) fn retry_after(value: &str, now_ms: i64) -> Option<Duration> {
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
        // A Unix time with a fraction is beyond any accepted wait.
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

pub(super) fn millis(value: f64) -> Option<Duration> {
    (value > 0.0 && value <= LONGEST_MS).then(|| Duration::from_secs_f64(value / 1_000.0))
}

pub(super) fn duration_in_words(text: &str) -> Option<Duration> {
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
    // In "in 20 seconds." the full stop is no decimal point.
    let number = number.trim_end_matches('.');
    number.parse().ok().map(|value| (value, rest))
}

/// One unit's length in milliseconds, and the text after it.
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
