//! Writes a file with the lines of its hunks. What no hunk names is copied byte for byte.

use super::text::{BYTE_ORDER_MARK, Ending, Text};

/// Lines that replace others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit<'p> {
    /// The first line that is removed, or before which lines are added.
    pub(super) at: usize,
    pub(super) removed: usize,
    pub(super) added: Vec<&'p [u8]>,
    pub(super) ending: Ending,
}

/// What the hunks say about a file besides its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Whether the last line gets a newline.
    pub(super) is_terminated: bool,
    /// A hunk names the byte order mark: then the mark is part of the first line, and removed with it.
    pub(super) mark_is_content: bool,
}

struct Output {
    bytes: Vec<u8>,
    /// What to remove so that the last line has no newline.
    last_break: usize,
}

/// The file after `edits`, which are in order and apart.
pub(super) fn rewrite(text: &Text<'_>, edits: &[Edit<'_>], frame: Frame) -> Vec<u8> {
    let added: usize = edits.iter().flat_map(|edit| &edit.added).map(|line| line.len() + 2).sum();
    let capacity = text.size().saturating_add(added);
    let mut output = Output { bytes: Vec::with_capacity(capacity), last_break: 0 };
    let keeps_mark = text.has_mark() && !frame.mark_is_content;
    if keeps_mark {
        output.bytes.extend_from_slice(BYTE_ORDER_MARK);
    }
    let start = output.bytes.len();
    let mut next = 0;
    for edit in edits {
        output.copy(text, next, edit.at, frame);
        next = edit.at + edit.removed;
        for line in &edit.added {
            let is_first = output.bytes.len() == start && keeps_mark;
            let doubled = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first);
            output.add(doubled.unwrap_or(line), edit.ending);
        }
    }
    output.copy(text, next, text.len(), frame);
    if !frame.is_terminated {
        output.bytes.truncate(output.bytes.len() - output.last_break);
    }
    output.bytes
}

impl Output {
    fn copy(&mut self, text: &Text<'_>, from: usize, to: usize, frame: Frame) {
        if from >= to {
            return;
        }
        if from == 0 && text.has_mark() && frame.mark_is_content {
            self.bytes.extend_from_slice(BYTE_ORDER_MARK);
        }
        let lines = text.lines_between(from, to);
        self.bytes.extend_from_slice(lines);
        self.last_break = if lines.ends_with(b"\r\n") { 2 } else { 1 };
        if to == text.len() && !text.is_terminated() {
            // Every line is written with its line break; the last one is removed at the end.
            let ending = text.ending_at(to - 1);
            let line_break: &[u8] =
                if ending == Ending::ReturnNewline && text.len() > 1 { b"\r\n" } else { b"\n" };
            self.bytes.extend_from_slice(line_break);
            self.last_break = line_break.len();
        }
    }

    fn add(&mut self, line: &[u8], ending: Ending) {
        let (line, line_break): (&[u8], &[u8]) = match ending {
            Ending::Verbatim => (line, b"\n"),
            Ending::Newline => (line.strip_suffix(b"\r").unwrap_or(line), b"\n"),
            Ending::ReturnNewline => (line.strip_suffix(b"\r").unwrap_or(line), b"\r\n"),
        };
        self.bytes.extend_from_slice(line);
        self.bytes.extend_from_slice(line_break);
        self.last_break = line_break.len();
    }
}
