//! The new content of a file: the texts replaced, everything else byte for byte. All replacements are found in the old content;
//! either all are made or none.

use std::ops::Range;

use super::fold::Pass;
use super::locate::{NotOne, locate, occurrences};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::params::Edit;

/// The new content, and what had to be forgiven.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) text: String,
    pub(super) forgiven: Pass,
}

/// Makes all replacements.
pub(super) fn replace(
    text: &str,
    edits: &[Edit],
    path: &str,
    cancel: &Cancel,
) -> Result<Replaced, ToolError> {
    let mut places: Vec<(Range<usize>, String)> = Vec::new();
    let mut forgiven = Pass::Exact;
    for (at, edit) in edits.iter().enumerate() {
        let which = if edits.len() > 1 { format!(" of edit {}", at + 1) } else { String::new() };
        let found = locate(text, &edit.old_text, cancel)?
            .map_err(|not_one: NotOne| ToolError::new(not_one.message(path, &which)))?;
        forgiven = forgiven.max(found.pass);
        let ending = line_ending(text.get(found.range.clone()).unwrap_or_default())
            .or_else(|| line_ending(text))
            .unwrap_or("\n");
        places.push((found.range, with_ending(&edit.new_text, ending)));
    }
    places.sort_by_key(|(range, _)| range.start);
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for (range, replacement) in &places {
        let Some(between) = text.get(from..range.start) else {
            let message =
                format!("two edits of {path} overlap; make them one. Nothing was changed.");
            return Err(ToolError::new(message));
        };
        new.push_str(between);
        new.push_str(replacement);
        from = range.end;
    }
    new.push_str(text.get(from..).unwrap_or_default());
    if new == text {
        return Err(ToolError::new(format!(
            "No changes made to {path}. The replacement produced identical content. This might indicate an issue with special \
             characters or the text not existing as expected."
        )));
    }
    Ok(Replaced { text: new, forgiven })
}

/// The first line ending of a text.
fn line_ending(text: &str) -> Option<&'static str> {
    let at = memchr::memchr(b'\n', text.as_bytes())?;
    Some(if text.get(..at)?.ends_with('\r') { "\r\n" } else { "\n" })
}

fn with_ending(text: &str, ending: &str) -> String {
    let text = normalized(text);
    if ending == "\n" { text } else { text.replace('\n', ending) }
}

/// A text whose lines end with `\n`.
pub(super) fn normalized(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Whether a replacement was made in this content: `done`, `not_done`, or `unknown` where the content shows neither.
pub(super) fn outcome(
    text: &str,
    edits: &[Edit],
    cancel: &Cancel,
) -> Result<&'static str, ToolError> {
    let text = normalized(text);
    let mut outcomes = Vec::new();
    for edit in edits {
        let (old, new) = (normalized(&edit.old_text), normalized(&edit.new_text));
        let olds = occurrences(&text, &old, |_| true, cancel)?;
        let news =
            if new.is_empty() { Vec::new() } else { occurrences(&text, &new, |_| true, cancel)? };
        // Where one contains the other, only what is not part of the other counts.
        let alone = |ranges: &[Range<usize>], others: &[Range<usize>]| {
            let inside = |range: &Range<usize>| {
                others.iter().any(|other| other.start <= range.start && range.end <= other.end)
            };
            ranges.iter().filter(|range| !inside(range)).count()
        };
        outcomes.push(match (alone(&olds, &news), alone(&news, &olds)) {
            (1, _) => "not_done",
            (0, 1..) => "done",
            _ => "unknown",
        });
    }
    let first = outcomes.first().copied().unwrap_or("unknown");
    Ok(if outcomes.iter().all(|outcome| *outcome == first) { first } else { "unknown" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<Edit> {
        let edit = |(old, new): &(&str, &str)| Edit {
            old_text: (*old).to_owned(),
            new_text: (*new).to_owned(),
        };
        pairs.iter().map(edit).collect()
    }

    fn replaced(text: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
        replace(text, &edits(pairs), "f", &Cancel::default())
            .map(|replaced| replaced.text)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_rest_of_a_file_stays_as_it_is() {
        let text = "a \r\n\u{2018}b\u{2019}\r\nc \n";
        assert_eq!(replaced(text, &[("'b'", "d\ne")]), Ok("a \r\nd\r\ne\r\nc \n".to_owned()));
        assert_eq!(replaced("x\r\ny", &[("y", "z\n")]), Ok("x\r\nz\r\n".to_owned()));
        assert_eq!(replaced("x", &[("x", "a\r\nb")]), Ok("a\nb".to_owned()));
    }

    #[test]
    fn all_edits_refer_to_the_old_content_and_must_not_overlap() {
        assert_eq!(replaced("a b c", &[("c", "a"), ("a", "c")]), Ok("c b a".to_owned()));
        let overlap = "two edits of f overlap; make them one. Nothing was changed.";
        assert_eq!(replaced("abc", &[("ab", "x"), ("bc", "y")]), Err(overlap.to_owned()));
        let missing = replaced("abc", &[("a", "x"), ("d", "y")]);
        assert_eq!(
            missing,
            Err("Could not find the exact text of edit 2 in f. The old text must match exactly including all whitespace and newlines."
                .to_owned())
        );
    }

    #[test]
    fn the_content_says_whether_an_edit_happened() {
        let outcome =
            |text, old, new| outcome(text, &edits(&[(old, new)]), &Cancel::default()).unwrap();
        assert_eq!(outcome("a b", "b", "c"), "not_done");
        assert_eq!(outcome("a c", "b", "c"), "done");
        assert_eq!(outcome("foo", "foo", "foobar"), "not_done");
        assert_eq!(outcome("foobar", "foo", "foobar"), "done");
        assert_eq!(outcome("foobar", "foobar", "foo"), "not_done");
        assert_eq!(outcome("a", "b", ""), "unknown");
        assert_eq!(outcome("b b", "b", "c"), "unknown");
    }

    proptest! {
        #[test]
        fn an_edit_that_succeeds_is_done_and_before_it_is_not(
            before in "[ab\n]{0,8}", old in "[cd\n]{1,5}", new in "[efg\n]{1,5}", after in "[ab\n]{0,8}",
        ) {
            let text = format!("{before}{old}{after}");
            let edits = edits(&[(&old, &new)]);
            if let Ok(replaced) = replace(&text, &edits, "f", &Cancel::default()) {
                let cancel = Cancel::default();
                if occurrences(&text, &new, |_| true, &cancel).unwrap().is_empty() {
                    prop_assert_eq!(outcome(&text, &edits, &cancel).unwrap(), "not_done");
                    prop_assert_ne!(outcome(&replaced.text, &edits, &cancel).unwrap(), "not_done");
                }
            }
        }
    }
}
