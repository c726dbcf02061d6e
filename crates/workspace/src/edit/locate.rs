//! Where a text is in a file: exactly once, first as it is, then with what each pass forgives.

use std::ops::Range;

use memchr::memmem::Finder;

use super::fold::{Folded, Pass};
use crate::cancel::Cancel;
use crate::error::ToolError;

/// Occurrences that are counted.
const MAX_COUNTED: usize = 1_000;
/// Occurrences whose lines are named.
const MAX_NAMED: usize = 10;

/// The one place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) pass: Pass,
}

/// Why a text has no one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotOne {
    Missing,
    /// The lines of the first ones, and how many there are.
    Several {
        lines: Vec<usize>,
        count: usize,
    },
}

impl NotOne {
    /// pi's sentences, with the lines.
    pub(super) fn message(&self, path: &str, which: &str) -> String {
        match self {
            Self::Missing => format!(
                "Could not find the exact text{which} in {path}. The old text must match exactly including all whitespace and \
                 newlines."
            ),
            Self::Several { lines, count } => {
                let more = if *count > MAX_COUNTED { "more than " } else { "" };
                let count = (*count).min(MAX_COUNTED);
                let named: Vec<String> = lines.iter().map(usize::to_string).collect();
                let rest = if count > lines.len() { ", …" } else { "" };
                format!(
                    "Found {more}{count} occurrences of the text{which} in {path} (lines {}{rest}). The text must be unique. Please \
                     provide more context to make it unique.",
                    named.join(", ")
                )
            }
        }
    }
}

/// The one place of `wanted` in `text`.
pub(super) fn locate(
    text: &str,
    wanted: &str,
    cancel: &Cancel,
) -> Result<Result<Found, NotOne>, ToolError> {
    let exact = occurrences(text, wanted, |_| true, cancel)?;
    if let Some(found) = one(text, exact, Pass::Exact) {
        return Ok(found);
    }
    for pass in Pass::FORGIVING {
        cancel.check()?;
        let folded = Folded::new(text, pass);
        let old = Folded::new(wanted, pass);
        if old.text.is_empty() {
            continue;
        }
        // Whitespace that was cut from the end of the wanted text must be the end of a line in the file, too.
        let ends_line = |end: usize| {
            !old.cut_at_end || matches!(folded.text.as_bytes().get(end), None | Some(b'\n' | b'\r'))
        };
        let ranges = occurrences(&folded.text, &old.text, ends_line, cancel)?;
        let ranges = ranges.iter().filter_map(|range| folded.origin(range)).collect();
        if let Some(found) = one(text, ranges, pass) {
            return Ok(found);
        }
    }
    Ok(Err(NotOne::Missing))
}

/// The one occurrence, or the error of several; nothing if there is none.
fn one(text: &str, ranges: Vec<Range<usize>>, pass: Pass) -> Option<Result<Found, NotOne>> {
    match ranges.as_slice() {
        [] => None,
        [range] => Some(Ok(Found { range: range.clone(), pass })),
        several => {
            let lines =
                several.iter().take(MAX_NAMED).map(|range| line_of(text, range.start)).collect();
            Some(Err(NotOne::Several { lines, count: several.len() }))
        }
    }
}

/// All exact occurrences, overlapping ones too.
pub(super) fn occurrences(
    text: &str,
    wanted: &str,
    accepted: impl Fn(usize) -> bool,
    cancel: &Cancel,
) -> Result<Vec<Range<usize>>, ToolError> {
    let finder = Finder::new(wanted.as_bytes());
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
        cancel.check()?;
        let start = from + at;
        let end = start + wanted.len();
        if accepted(end) {
            found.push(start..end);
        }
        if found.len() > MAX_COUNTED {
            break;
        }
        from = start + 1;
    }
    Ok(found)
}

/// The number of the line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes().get(..at).unwrap_or_default()).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(text: &str, wanted: &str) -> Result<(Range<usize>, Pass), NotOne> {
        let found = locate(text, wanted, &Cancel::default()).unwrap();
        found.map(|found| (found.range, found.pass))
    }

    #[test]
    fn each_pass_forgives_one_kind_more() {
        assert_eq!(place("a b\nc", "b\nc"), Ok((2..5, Pass::Exact)));
        assert_eq!(place("a  \nb \n", "a\nb\n"), Ok((0..7, Pass::TrailingWhitespace)));
        assert_eq!(place("a\nb\n", "a \t\nb"), Ok((0..3, Pass::TrailingWhitespace)));
        assert_eq!(place("a \r\nb\r\nc", "a\nb"), Ok((0..5, Pass::LineEndings)));
        assert_eq!(
            place("say \u{201c}x\u{201d} \u{2014} y\r\n", "\"x\" - y\n"),
            Ok((4..19, Pass::Punctuation))
        );
    }

    #[test]
    fn a_pass_that_finds_several_ends_the_search() {
        let several =
            |lines: &[usize]| Err(NotOne::Several { lines: lines.to_vec(), count: lines.len() });
        assert_eq!(place("x\ny\nx\n", "x"), several(&[1, 3]));
        assert_eq!(place("aaa", "aa"), several(&[1, 1]));
        assert_eq!(place("a \nb\n\na  \nb", "a\nb"), several(&[1, 4]));
        assert_eq!(place("abc", "d"), Err(NotOne::Missing));
        assert_eq!(place("abc", "  "), Err(NotOne::Missing));
    }

    #[test]
    fn an_exact_place_is_taken_though_another_is_similar() {
        assert_eq!(place("'a'\n\u{2018}a\u{2019}\n", "'a'"), Ok((0..3, Pass::Exact)));
    }

    #[test]
    fn whitespace_at_the_end_of_the_wanted_text_stays_the_end_of_a_line() {
        assert_eq!(place("returned\n", "return "), Err(NotOne::Missing));
        assert_eq!(place("return\n", "return "), Ok((0..6, Pass::TrailingWhitespace)));
    }

    #[test]
    fn a_message_says_how_many_and_where() {
        let text = "x\n".repeat(12);
        let error = locate(&text, "x", &Cancel::default()).unwrap().unwrap_err();
        assert_eq!(
            error.message("a.txt", ""),
            "Found 12 occurrences of the text in a.txt (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …). The text must be unique. Please \
             provide more context to make it unique."
        );
    }

    proptest! {
        #[test]
        fn what_is_found_is_whole_characters_that_fold_to_the_wanted_text(
            text in "[ab\u{2018}\u{2019}' \t\r\n]{0,40}",
            wanted in "[ab\u{2018}' \r\n]{1,6}",
        ) {
            if let Ok((range, pass)) = place(&text, &wanted) {
                let found = text.get(range).unwrap();
                let (found, wanted) = (Folded::new(found, pass).text, Folded::new(&wanted, pass).text);
                prop_assert_eq!(found.trim_end(), wanted.trim_end());
            }
        }
    }
}
