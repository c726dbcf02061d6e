//! The diff of an edit in pi's form: each line with its number, changes with four lines around them.

use super::changes::{Kind, changes};
use super::replace::normalized;

/// Lines around a change.
const CONTEXT: usize = 4;
/// The longest diff.
const MAX_DIFF: usize = 256 * 1024;

/// The diff, and the first line that changed in the new text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Diff {
    pub(super) text: String,
    pub(super) first_changed_line: Option<usize>,
}

/// Compares two texts whose lines end with `\n`.
pub(super) fn diff(old: &str, new: &str) -> Diff {
    let (olds, news): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let lines = old.split('\n').count().max(new.split('\n').count());
    let mut writer = Writer { lines: Vec::new(), bytes: 0, width: lines.to_string().len() };
    let parts = parts(&olds, &news);
    let (mut old_line, mut new_line) = (1, 1);
    let mut first_changed_line = None;
    let mut after_change = false;
    for (at, (kind, part)) in parts.iter().enumerate() {
        match kind {
            Kind::Removed => {
                first_changed_line.get_or_insert(new_line);
                for line in *part {
                    writer.line('-', old_line, line);
                    old_line += 1;
                }
                after_change = true;
            }
            Kind::Added => {
                first_changed_line.get_or_insert(new_line);
                for line in *part {
                    writer.line('+', new_line, line);
                    new_line += 1;
                }
                after_change = true;
            }
            Kind::Same => {
                let before_change = at + 1 < parts.len();
                let all = part.len();
                let (from, to) = match (after_change, before_change) {
                    (false, false) => (all, all),
                    (false, true) => (all.saturating_sub(CONTEXT), all),
                    (true, false) => (0, all.min(CONTEXT)),
                    (true, true) => (0, all),
                };
                if from > 0 && from < all {
                    writer.gap();
                }
                for (offset, line) in part.iter().enumerate().take(to).skip(from) {
                    writer.line(' ', old_line + offset, line);
                }
                if to < all {
                    writer.gap();
                }
                old_line += all;
                new_line += all;
                after_change = false;
            }
        }
    }
    Diff { text: writer.lines.join("\n"), first_changed_line }
}

/// The diff of two texts, whatever their line endings are.
pub(crate) fn diff_texts(old: &str, new: &str) -> String {
    diff(&normalized(old), &normalized(new)).text
}

/// The runs of lines, in order.
fn parts<'a>(olds: &'a [&'a str], news: &'a [&'a str]) -> Vec<(Kind, &'a [&'a str])> {
    let (mut old, mut new) = (0, 0);
    let mut parts = Vec::new();
    for (kind, lines) in changes(olds, news) {
        let part = match kind {
            Kind::Same | Kind::Removed => olds.get(old..old + lines),
            Kind::Added => news.get(new..new + lines),
        };
        old += if kind == Kind::Added { 0 } else { lines };
        new += if kind == Kind::Removed { 0 } else { lines };
        parts.push((kind, part.unwrap_or_default()));
    }
    parts.retain(|(_, lines)| !lines.is_empty());
    parts
}

struct Writer {
    lines: Vec<String>,
    bytes: usize,
    width: usize,
}

impl Writer {
    fn line(&mut self, sign: char, number: usize, line: &str) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        self.push(format!("{sign}{number:>width$} {line}", width = self.width));
    }

    fn gap(&mut self) {
        self.push(format!(" {:width$} ...", "", width = self.width));
    }

    fn push(&mut self, line: String) {
        if self.bytes > MAX_DIFF {
            return;
        }
        self.bytes += line.len() + 1;
        let line = if self.bytes > MAX_DIFF {
            "[the rest of the diff is left out]".to_owned()
        } else {
            line
        };
        self.lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_four_lines_around_it() {
        let old: String = (1..=12).map(|line| format!("{line}\n")).collect();
        let new = old.replace("6\n", "six\n6b\n");
        let expected = "    ...\n  2 2\n  3 3\n  4 4\n  5 5\n- 6 6\n+ 6 six\n+ 7 6b\n  7 7\n  8 8\n  9 9\n 10 10\n    ...";
        assert_eq!(
            diff(&old, &new),
            Diff { text: expected.to_owned(), first_changed_line: Some(6) }
        );
    }

    #[test]
    fn lines_that_stay_inside_a_change_are_not_shown_as_changed() {
        let expected = "-1 a\n+1 x\n 2 b\n-3 c\n+3 y";
        assert_eq!(diff("a\nb\nc", "x\nb\ny").text, expected);
        assert_eq!(diff("a", "a\n").text, "-1 a\n+1 a");
    }
}
