//! The lines of a patch, one at a time, with their numbers. It must never copy them.

use crate::error::{PatchError, Problem, excerpt};

/// A cursor over the lines of a patch.
#[derive(Debug, Clone)]
pub(super) struct Lines<'p> {
    line: Option<&'p [u8]>,
    rest: &'p [u8],
    number: usize,
    /// Set where the lines of the patch itself end with a carriage return.
    strips_return: bool,
}

impl<'p> Lines<'p> {
    pub(super) fn new(text: &'p [u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut lines = Self { line: None, rest: text, number: 0, strips_return: false };
        lines.advance();
        lines
    }

    /// The current line, without its newline.
    pub(super) fn peek(&self) -> Option<&'p [u8]> {
        let line = self.line?;
        Some(if self.strips_return { line.strip_suffix(b"\r").unwrap_or(line) } else { line })
    }

    /// The line after the current one.
    pub(super) fn peek_second(&self) -> Option<&'p [u8]> {
        let mut next = self.clone();
        next.advance();
        next.peek()
    }

    pub(super) fn advance(&mut self) {
        self.number += 1;
        if self.rest.is_empty() {
            self.line = None;
            return;
        }
        let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.line = Some(line);
        self.rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }

    /// The number of the current line, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The current line belongs to the form: if it ends with a carriage return, so does every line of the patch, and none of
    /// these is content.
    pub(super) fn learn_endings(&mut self) {
        self.strips_return |= self.line.is_some_and(|line| line.ends_with(b"\r"));
    }

    pub(super) fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim_ascii().is_empty()) {
            self.advance();
        }
    }

    /// The error that the current line is not `expected`.
    pub(super) fn expected(&self, expected: &'static str) -> PatchError {
        let problem = match self.peek() {
            Some(line) => Problem::Expected { expected, found: excerpt(line) },
            None => Problem::Ended { expected },
        };
        self.error(problem)
    }

    pub(super) fn error(&self, problem: Problem) -> PatchError {
        PatchError { line: self.number, problem }
    }
}
