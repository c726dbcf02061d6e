//! Reads the rate limits in the headers of an answer with any status: in a neutral form, relative to now.
//!
//! It must never read a clock; a difference between the local clock and the server's is corrected by its `date`.

use super::times::{reset_time, server_now};
use model::{RateLimit, RateLimits};

/// The precision of a reset in whole seconds, and in fractions.
const COARSE_MS: u64 = 1_000;
const FINE_MS: u64 = 10;

/// The headers of one limit: its size, its remainder, its reset.
type Names = [&'static str; 3];

const REQUESTS: &[Names] = &[
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
];
const TOKENS: &[Names] = &[
    [
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ],
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
];
const INPUT: &[Names] = &[[
    "anthropic-ratelimit-input-tokens-limit",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
]];
const OUTPUT: &[Names] = &[[
    "anthropic-ratelimit-output-tokens-limit",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
]];

/// The limits in the headers. A value that is no number counts as absent.
pub(crate) fn rate_limits<'h>(header: &dyn Fn(&str) -> Option<&'h str>, now_ms: i64) -> RateLimits {
    let of = |families: &[Names]| families.iter().find_map(|names| one(header, *names, now_ms));
    RateLimits { requests: of(REQUESTS), tokens: of(TOKENS), input: of(INPUT), output: of(OUTPUT) }
}

fn one<'h>(
    header: &dyn Fn(&str) -> Option<&'h str>,
    [limit, remaining, reset]: Names,
    now_ms: i64,
) -> Option<RateLimit> {
    let number = |name: &str| header(name)?.trim().parse::<u64>().ok();
    let remaining = number(remaining)?;
    let limit = header(limit).map(|_| number(limit));
    // A size that is not a positive number is no limit: `-1`, `0`, `unlimited`.
    if matches!(limit, Some(None | Some(0))) {
        return None;
    }
    let reset = header(reset).map(str::trim).filter(|value| !value.is_empty());
    let fine = reset.is_some_and(|value| value.ends_with("ms") || value.contains('.'));
    let wait = reset.and_then(|value| reset_time(value, server_now(header("date"), now_ms)));
    Some(RateLimit {
        limit: limit.flatten(),
        remaining,
        reset_ms: wait.and_then(|wait| u64::try_from(wait.as_millis()).ok()),
        slack_ms: if fine { FINE_MS } else { COARSE_MS },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-06T07:11:55Z
    const NOW: i64 = 1_767_683_515_000;

    fn read(headers: &[(&str, &str)], now: i64) -> RateLimits {
        let found =
            |name: &str| headers.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
        rate_limits(&found, now)
    }

    #[test]
    fn limits_of_anthropic_are_absolute_times() {
        let reported = read(
            &[
                ("anthropic-ratelimit-requests-limit", "4000"),
                ("anthropic-ratelimit-requests-remaining", "3999"),
                ("anthropic-ratelimit-requests-reset", "2026-01-06T07:11:56Z"),
                ("anthropic-ratelimit-input-tokens-limit", "4000000"),
                ("anthropic-ratelimit-input-tokens-remaining", "3000000"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-01-06T07:12:10Z"),
                ("anthropic-ratelimit-output-tokens-limit", "800000"),
                ("anthropic-ratelimit-output-tokens-remaining", "800000"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-01-06T07:11:55Z"),
            ],
            NOW,
        );
        let limit = |limit, remaining, reset_ms| {
            Some(RateLimit { limit: Some(limit), remaining, reset_ms, slack_ms: 1_000 })
        };
        assert_eq!(
            reported,
            RateLimits {
                requests: limit(4_000, 3_999, Some(1_000)),
                tokens: None,
                input: limit(4_000_000, 3_000_000, Some(15_000)),
                // The reset time has passed.
                output: limit(800_000, 800_000, None),
            }
        );
    }

    #[test]
    fn limits_of_openai_are_durations() {
        let reported = read(
            &[
                ("x-ratelimit-limit-requests", "5000"),
                ("x-ratelimit-remaining-requests", "4999"),
                ("x-ratelimit-reset-requests", "12ms"),
                ("x-ratelimit-limit-tokens", "200000"),
                ("x-ratelimit-remaining-tokens", "100"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ],
            NOW,
        );
        let requests =
            RateLimit { limit: Some(5_000), remaining: 4_999, reset_ms: Some(12), slack_ms: 10 };
        let tokens = RateLimit {
            limit: Some(200_000),
            remaining: 100,
            reset_ms: Some(360_000),
            slack_ms: 1_000,
        };
        let all =
            RateLimits { requests: Some(requests), tokens: Some(tokens), ..RateLimits::default() };
        assert_eq!(reported, all);
    }

    #[test]
    fn a_wrong_local_clock_is_corrected_by_the_servers_date() {
        let headers = [
            ("date", "Tue, 06 Jan 2026 07:11:55 GMT"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-01-06T07:12:00Z"),
        ];
        for wrong in [NOW - 3_600_000, NOW + 3_600_000, NOW] {
            let reported = read(&headers, wrong).requests.unwrap();
            assert_eq!((reported.limit, reported.reset_ms), (None, Some(5_000)));
        }
    }

    #[test]
    fn invalid_limits_are_not_reported() {
        for (limit, remaining) in
            [("0", "0"), ("-1", "5"), ("unlimited", "5"), ("10", "-1"), ("10", "many"), ("10", "")]
        {
            let headers = [
                ("x-ratelimit-limit-requests", limit),
                ("x-ratelimit-remaining-requests", remaining),
            ];
            assert_eq!(read(&headers, NOW), RateLimits::default(), "{limit} {remaining}");
        }
        let headers = [
            ("x-ratelimit-remaining-tokens", "7"),
            ("x-ratelimit-reset-tokens", "2001-01-01T00:00:00Z"),
        ];
        assert_eq!(read(&headers, NOW).tokens.unwrap().reset_ms, None);
        assert_eq!(read(&[], NOW), RateLimits::default());
    }
}
