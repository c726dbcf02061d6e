//! Quotes a text of the caller inside an error message: short, and cut on a character boundary.
//!
//! It must never let a text make a message longer than a log line.

use std::borrow::Cow;

/// The maximum number of characters of one quoted text.
const QUOTED_CHARS: usize = 100;
/// The maximum number of characters of all quoted texts of a message.
const REPEATED_CHARS: usize = 200;
/// A text up to this length is a name: it is quoted whole, and does not count.
const NAME_CHARS: usize = 32;
/// The maximum number of characters of a field's path.
const PATH_CHARS: usize = 200;
/// The maximum number of characters of a message, lists of names included.
const MESSAGE_CHARS: usize = 2_000;
/// Marks where a text was cut.
const CUT: char = '…';

/// A text of the caller in backticks: short, and without a backtick that would end it early.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("`{}`", clip(text, QUOTED_CHARS).replace('`', "'"))
}

/// The path of a field, which may have names of the caller in it.
#[must_use]
pub fn clipped_path(path: &str) -> Cow<'_, str> {
    clip(path, PATH_CHARS)
}

fn clip(text: &str, most: usize) -> Cow<'_, str> {
    // Most texts are short: their characters need not be counted.
    if text.len() <= most || text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let end = text.char_indices().nth(most.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    let mut cut = text.get(..end).unwrap_or_default().to_owned();
    cut.push(CUT);
    Cow::Owned(cut)
}

/// Adds a text that may be the caller's.
fn push_within(out: &mut String, text: &str, left: &mut usize) {
    if text.len() <= NAME_CHARS {
        out.push_str(text);
        return;
    }
    let clipped = clip(text, QUOTED_CHARS.min(*left));
    *left = left.saturating_sub(clipped.chars().count());
    out.push_str(&clipped);
}

/// A message with at most 200 characters of the caller's texts. Text between backticks may be the caller's.
#[must_use]
pub fn bounded(message: &str) -> Cow<'_, str> {
    if message.len() <= REPEATED_CHARS {
        return Cow::Borrowed(message);
    }
    let mut out = String::with_capacity(message.len().min(MESSAGE_CHARS));
    let mut left = REPEATED_CHARS;
    for (position, part) in message.split('`').enumerate() {
        if position > 0 {
            out.push('`');
        }
        // Every second part is between backticks. A long word in the others is the caller's too: SQLite quotes with other marks.
        if position % 2 == 1 {
            push_within(&mut out, part, &mut left);
        } else {
            for word in part.split_inclusive(' ') {
                push_within(&mut out, word, &mut left);
            }
        }
    }
    Cow::Owned(clip(&out, MESSAGE_CHARS).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{bounded, clipped_path, quoted};

    #[test]
    fn a_text_is_cut_on_a_character_boundary_with_a_marker() {
        assert_eq!(quoted("short"), "`short`");
        assert_eq!(quoted("a`b"), "`a'b`");
        assert_eq!(quoted(&"😀".repeat(1_000)), format!("`{}…`", "😀".repeat(99)));
        assert_eq!(clipped_path(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(clipped_path(&"é".repeat(201)), format!("{}…", "é".repeat(199)));
    }

    #[test]
    fn in_a_message_only_text_between_backticks_is_cut() {
        let names = (0..40).map(|n| format!("`name_{n}`")).collect::<Vec<_>>().join(", ");
        assert_eq!(bounded(&names), names);
        let long = format!("session `{}` is there already", "x".repeat(512));
        assert_eq!(bounded(&long), format!("session `{}…` is there already", "x".repeat(99)));
        let three = format!("`{0}` and `{0}` and `{0}`", "Ω".repeat(512));
        assert!(bounded(&three).chars().filter(|it| *it == 'Ω').count() <= 200);
        let token = format!("unrecognized token: \"{}\"", "y".repeat(100_000));
        assert!(bounded(&token).starts_with("unrecognized token: \"yyy"));
        assert!(bounded(&token).chars().count() <= 200);
        assert!(bounded(&"`".repeat(100_000)).chars().count() <= 2_000);
    }
}
