//! A text with differences removed that a model often makes, and where each byte of it came from. It must never be written: only
//! its places are used.

use std::ops::Range;

use serde::Serialize;

/// What is forgiven. Each pass forgives what the passes before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pass {
    Exact,
    TrailingWhitespace,
    LineEndings,
    Punctuation,
}

impl Pass {
    pub(super) const FORGIVING: [Self; 3] =
        [Self::TrailingWhitespace, Self::LineEndings, Self::Punctuation];
}

/// A folded text.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) text: String,
    /// The bytes of the original that each byte stands for.
    origins: Vec<Range<usize>>,
    /// Whitespace at the end of the last line was removed.
    pub(super) cut_at_end: bool,
}

impl Folded {
    pub(super) fn new(original: &str, pass: Pass) -> Self {
        let mut folded = Self {
            text: String::with_capacity(original.len()),
            origins: Vec::with_capacity(original.len()),
            cut_at_end: false,
        };
        let mut at = 0;
        while at < original.len() {
            let rest = original.get(at..).unwrap_or_default();
            let (line, ending) = first_line(rest);
            let content = if pass >= Pass::TrailingWhitespace { line.trim_end() } else { line };
            for (offset, char) in content.char_indices() {
                let from = at + offset;
                let char_folded = if pass >= Pass::Punctuation { punctuation(char) } else { char };
                folded.push(char_folded, from..from + char.len_utf8());
            }
            let end = at + line.len();
            if pass >= Pass::LineEndings && !ending.is_empty() {
                folded.push('\n', end..end + ending.len());
            } else {
                for (offset, char) in ending.char_indices() {
                    folded.push(char, end + offset..end + offset + 1);
                }
            }
            folded.cut_at_end = ending.is_empty() && content.len() < line.len();
            at = end + ending.len();
        }
        folded
    }

    fn push(&mut self, char: char, origin: Range<usize>) {
        self.text.push(char);
        self.origins.extend(std::iter::repeat_n(origin, char.len_utf8()));
    }

    /// The bytes of the original behind a part that is not empty.
    pub(super) fn origin(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let start = self.origins.get(part.start)?.start;
        let end = self.origins.get(part.end.checked_sub(1)?)?.end;
        Some(start..end)
    }
}

/// The first line and what ends it: `\n`, `\r\n`, `\r`, or nothing.
fn first_line(text: &str) -> (&str, &str) {
    let end = memchr::memchr2(b'\n', b'\r', text.as_bytes()).unwrap_or(text.len());
    let (line, rest) = text.split_at(end);
    let length = match rest.as_bytes() {
        [] => 0,
        [b'\r', b'\n', ..] => 2,
        _ => 1,
    };
    (line, rest.get(..length).unwrap_or_default())
}

/// Quotes, dashes and spaces of typography, as a keyboard writes them.
fn punctuation(char: char) -> char {
    match char {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}
