//! The lines of a file that a result has, collected while the file is read piece by piece. It must never hold more of a file
//! than a result may have.

use crate::text::{MAX_BYTES, MAX_LINES, TruncatedBy, format_size};

/// Characters of one line; the rest is cut.
const MAX_LINE: usize = 2_000;
/// Bytes of a line that are held: more than `MAX_LINE` characters of four bytes.
const HELD: usize = MAX_LINE * 4 + 4;

/// What is collected.
#[derive(Debug)]
pub(super) struct Window {
    first: usize,
    limit: Option<usize>,
    /// The line under way: its number from 0, its first bytes, its length.
    number: usize,
    line: Vec<u8>,
    length: u64,
    lines: Vec<String>,
    bytes: usize,
    full: Option<TruncatedBy>,
    selected_lines: usize,
    selected_bytes: u64,
}

/// The lines, and how many there are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) text: String,
    pub(super) lines: usize,
    pub(super) full: Option<TruncatedBy>,
    pub(super) total_lines: usize,
    /// Of the lines from the first on, up to the limit.
    pub(super) selected_lines: usize,
    pub(super) selected_bytes: u64,
}

impl Window {
    /// Collects from line `first` (from 0) on, at most `limit` lines.
    pub(super) fn new(first: usize, limit: Option<usize>) -> Self {
        Self {
            first,
            limit,
            number: 0,
            line: Vec::new(),
            length: 0,
            lines: Vec::new(),
            bytes: 0,
            full: None,
            selected_lines: 0,
            selected_bytes: 0,
        }
    }

    /// Takes the next bytes of the file.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(at);
            self.extend(line);
            self.end_line();
            rest = after.get(1..).unwrap_or_default();
        }
        self.extend(rest);
    }

    /// The end of the file, which ends its last line.
    pub(super) fn finish(mut self) -> Collected {
        self.end_line();
        Collected {
            text: self.lines.join("\n"),
            lines: self.lines.len(),
            full: self.full,
            total_lines: self.number,
            selected_lines: self.selected_lines,
            // The breaks between the lines count, and that of the last one does not.
            selected_bytes: self.selected_bytes.saturating_sub(1),
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.is_selected() && self.full.is_none() {
            let room = HELD.saturating_sub(self.line.len());
            self.line.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    fn is_selected(&self) -> bool {
        self.number >= self.first && self.limit.is_none_or(|limit| self.number - self.first < limit)
    }

    fn end_line(&mut self) {
        if self.is_selected() {
            self.selected_lines += 1;
            self.selected_bytes += self.length + 1;
            if self.full.is_none() {
                self.collect();
            }
        }
        self.line.clear();
        self.length = 0;
        self.number += 1;
    }

    fn collect(&mut self) {
        let line = shown(&self.line, self.length);
        let bytes = line.len() + usize::from(!self.lines.is_empty());
        if self.lines.len() == MAX_LINES {
            self.full = Some(TruncatedBy::Lines);
        } else if self.bytes + bytes > MAX_BYTES {
            self.full = Some(TruncatedBy::Bytes);
        } else {
            self.bytes += bytes;
            self.lines.push(line);
        }
    }
}

/// A line as text; of a long one the beginning, and how long it is.
fn shown(held: &[u8], length: u64) -> String {
    let text = String::from_utf8_lossy(held);
    match text.char_indices().nth(MAX_LINE) {
        None => text.into_owned(),
        Some((end, _)) => {
            let start = text.get(..end).unwrap_or_default();
            format!("{start}... [the line is cut here: it has {}]", format_size(length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collected(text: &[u8], first: usize, limit: Option<usize>, piece: usize) -> Collected {
        let mut window = Window::new(first, limit);
        for piece in text.chunks(piece) {
            window.feed(piece);
        }
        window.finish()
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let text = "ä".repeat(2_500);
        let cut = collected(text.as_bytes(), 0, None, 7).text;
        assert_eq!(cut, format!("{}... [the line is cut here: it has 4.9KB]", "ä".repeat(2_000)));
    }

    proptest! {
        #[test]
        fn what_is_collected_is_what_splitting_the_text_gives(
            lines in prop::collection::vec("[a-zä\r]{0,30}", 0..2_100),
            first in 0_usize..2_200,
            limit in prop::option::of(0_usize..2_200),
            piece in 1_usize..5_000,
        ) {
            let text = lines.join("\n");
            let all: Vec<&str> = text.split('\n').collect();
            let end = limit.map_or(all.len(), |limit| (first + limit).min(all.len()));
            let selected = all.get(first.min(end)..end).unwrap_or_default();
            let mut expected = Vec::new();
            let mut bytes = 0;
            for line in selected.iter().take(MAX_LINES) {
                bytes += line.len() + usize::from(!expected.is_empty());
                if bytes > MAX_BYTES {
                    break;
                }
                expected.push(*line);
            }
            let found = collected(text.as_bytes(), first, limit, piece);
            prop_assert_eq!(&found.text, &expected.join("\n"));
            prop_assert_eq!(found.total_lines, all.len());
            prop_assert_eq!(found.selected_lines, selected.len());
            prop_assert_eq!(found.selected_bytes, u64::try_from(selected.join("\n").len()).unwrap());
            prop_assert_eq!(found.full.is_some(), expected.len() < selected.len());
        }
    }
}
