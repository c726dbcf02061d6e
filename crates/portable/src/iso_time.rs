//! Times in the format of pi's entries, `2025-11-20T23:33:50.805Z`, and Unix milliseconds.
//!
//! Only UTC, as JavaScript's `toISOString` writes it. It must never read a clock.

/// Unix milliseconds of such a text; `None` for any other.
pub fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, millis) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let millis = format!("{millis:0<3}").get(..3)?.parse::<i64>().ok()?;
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    fits.then(|| {
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        seconds * 1_000 + millis
    })
}

/// The text of Unix milliseconds.
pub fn format(ms: i64) -> String {
    let (day, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = date(day);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millis) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Days since 1970 of a date of the Gregorian calendar, in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{format, parse};
    use proptest::prelude::*;

    #[test]
    fn times_are_read_and_written_as_javascript_does() {
        let known = [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
            ("2025-11-20T23:33:50.805Z", 1_763_681_630_805),
            ("2000-03-01T00:00:00.000Z", 951_868_800_000),
        ];
        for (text, ms) in known {
            assert_eq!((parse(text), format(ms).as_str()), (Some(ms), text));
        }
        for text in ["", "now", "2025-11-20", "2025-13-01T00:00:00Z", "2025-11-20T23:33:50+01:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_comes_back(ms in 0_i64..253_402_300_800_000) {
            prop_assert_eq!(parse(&format(ms)), Some(ms));
        }
    }
}
