//! The result of a search, with pi's sentences on what is left out.

use serde_json::{Map, Value, json};

use super::walk::Unseen;
use crate::output::Output;
use crate::text::{MAX_BYTES, TruncatedBy, Truncation, format_size};

/// A result as it grows: its lines, and what the host may show.
#[derive(Debug, Default)]
pub(super) struct Report {
    text: String,
    lines: usize,
    total_lines: usize,
    total_bytes: usize,
    notes: Vec<String>,
    details: Map<String, Value>,
}

impl Report {
    /// Adds a line; false where the result is full.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let separator = usize::from(self.total_lines > 0);
        self.total_lines += 1;
        self.total_bytes += line.len() + separator;
        if self.lines + 1 < self.total_lines || self.text.len() + line.len() + separator > MAX_BYTES
        {
            return false;
        }
        if separator > 0 {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.lines += 1;
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines < self.total_lines
    }

    /// Notes a limit: a sentence for the model, and a field for the host.
    pub(super) fn note(
        &mut self,
        sentence: impl Into<String>,
        field: &str,
        value: impl Into<Value>,
    ) {
        self.notes.push(sentence.into());
        self.details.insert(field.to_owned(), value.into());
    }

    pub(super) fn note_unseen(&mut self, unseen: Unseen) {
        if unseen.time {
            self.note(
                "The search stopped at its time limit, and is incomplete. Search a smaller directory",
                "incomplete",
                "time",
            );
        }
        if unseen.size {
            self.note(
                "There are more files than one search looks at, and it is incomplete. Search a smaller directory",
                "incomplete",
                "size",
            );
        }
        if unseen.unreadable > 0 {
            let count = unseen.unreadable;
            self.note(
                format!("{count} files or directories could not be read"),
                "unreadable",
                count,
            );
        }
    }

    /// The result; `nothing` is its text without a line.
    pub(super) fn finish(mut self, nothing: &str) -> Output {
        if self.total_lines == 0 {
            self.text.push_str(nothing);
        }
        if self.is_full() {
            let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
            let truncation = Truncation {
                content: self.text.clone(),
                truncated: true,
                truncated_by: TruncatedBy::Bytes,
                total_lines: self.total_lines,
                total_bytes: u64::try_from(self.total_bytes).unwrap_or(u64::MAX),
                output_lines: self.lines,
                output_bytes: self.text.len(),
                last_line_partial: false,
                first_line_exceeds_limit: false,
                // JavaScript's largest whole number, as pi has it: lines are not limited.
                max_lines: (1 << 53) - 1,
                max_bytes: MAX_BYTES,
            };
            self.note(
                format!("{} limit reached", format_size(limit)),
                "truncation",
                json!(truncation),
            );
        }
        let Self { mut text, notes, details, .. } = self;
        if !notes.is_empty() {
            text.push_str(&format!("\n\n[{}]", notes.join(". ")));
        }
        Output::text(text).with_details((!details.is_empty()).then_some(Value::Object(details)))
    }
}
