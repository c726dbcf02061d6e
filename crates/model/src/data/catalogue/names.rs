//! Model names: the common part of two spellings of one model, and the dates and tags in which they differ.
//!
//! It must never take a size for a tag (`llama3.3:70b`) nor a version for a date (`deepseek-v3`).

/// The parts of a model name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// The name without date, `-latest` and tags.
    pub(super) base: &'a str,
    /// The snapshot's day as `YYYYMMDD`, where the name has one.
    pub(super) date: Option<u32>,
    /// True with a router's tag that changes the provider of the model, and so its cost.
    pub(super) routed: bool,
}

/// Tags of routers that do not change the price.
const PLAIN_TAGS: [&str; 3] = ["beta", "latest", "thinking"];
/// Tags of routers that choose by price, speed or free quota.
const ROUTING_TAGS: [&str; 5] = ["exacto", "floor", "free", "nitro", "online"];

impl<'a> Name<'a> {
    /// Splits `id`; a name without any suffix is its own base.
    pub(super) fn of(id: &'a str) -> Self {
        let (rest, routed) = without_tag(id);
        let rest = without_revision(rest);
        if let Some((base, at)) = rest.rsplit_once('@') {
            let date = date_of(at);
            if !base.is_empty() && (date.is_some() || matches!(at, "latest" | "default")) {
                return Self { base, date, routed };
            }
        }
        if let Some(base) = rest.strip_suffix("-latest").filter(|base| !base.is_empty()) {
            return Self { base, date: None, routed };
        }
        for length in ["20250514".len(), "2025-05-14".len()] {
            let cut = rest.len().saturating_sub(length);
            if let Some((front, date)) = rest.split_at_checked(cut)
                && let Some(base) = front.strip_suffix('-').filter(|base| !base.is_empty())
                && let Some(date) = date_of(date)
            {
                return Self { base, date: Some(date), routed };
            }
        }
        Self { base: rest, date: None, routed }
    }
}

fn without_tag(id: &str) -> (&str, bool) {
    match id.rsplit_once(':') {
        Some((rest, tag)) if !rest.is_empty() && PLAIN_TAGS.contains(&tag) => (rest, false),
        Some((rest, tag)) if !rest.is_empty() && ROUTING_TAGS.contains(&tag) => (rest, true),
        _ => (id, false),
    }
}

/// Bedrock's `-v1:0` and Google's `-001`.
fn without_revision(id: &str) -> &str {
    if let Some((front, minor)) = id.rsplit_once(':')
        && all_digits(minor)
        && let Some((base, major)) = front.rsplit_once("-v")
        && all_digits(major)
    {
        return base;
    }
    match id.rsplit_once("-00") {
        Some((base, digit)) if digit.len() == 1 && all_digits(digit) && !base.is_empty() => base,
        _ => id,
    }
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `20250514` or `2025-05-14`, as a number; `None` for what is not a day of the 2020s to 2090s.
fn date_of(text: &str) -> Option<u32> {
    let digits: String = match text.len() {
        8 => text.to_owned(),
        10 => {
            let mut parts = text.split('-');
            let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
            if [year.len(), month.len(), day.len()] != [4, 2, 2] {
                return None;
            }
            format!("{year}{month}{day}")
        }
        _ => return None,
    };
    let number: u32 = digits.parse().ok().filter(|_| all_digits(&digits))?;
    let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
    let plausible =
        (2020..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    plausible.then_some(number)
}

/// The name without the vendor's folder: `meta-llama/Llama-3.3-70B-Instruct` → `Llama-3.3-70B-Instruct`.
pub(super) fn last_part(id: &str) -> &str {
    id.rsplit_once('/').map_or(id, |(_, last)| last)
}

/// Whether two names differ only in case and in `.` for `-`.
pub(super) fn alike(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().map(folded).eq(other.bytes().map(folded))
}

fn folded(byte: u8) -> u8 {
    if byte == b'.' { b'-' } else { byte.to_ascii_lowercase() }
}
