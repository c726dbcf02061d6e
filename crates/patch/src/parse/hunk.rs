//! One hunk of a unified diff: its header and its lines. With numbers in the header, the number of lines must be the announced
//! one, so that a patch that was cut off is refused.

use crate::error::{PatchError, Problem, excerpt};
use crate::patch::{Hunk, HunkLine, LineKind, Position};

use super::lines::Lines;

const HUNK_LINE: &str = "a line of the hunk, that begins with ` `, `+` or `-`";

/// The numbers between `@@` and `@@`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    old_start: usize,
    old_count: usize,
    new_count: usize,
}

/// Reads `@@ -1,2 +3,4 @@ anything`.
pub(super) fn range(line: &[u8]) -> Option<Range> {
    let rest = line.strip_prefix(b"@@ -")?;
    let (old_start, old_count, rest) = start_and_count(rest)?;
    let rest = rest.strip_prefix(b" +")?;
    let (_, new_count, rest) = start_and_count(rest)?;
    rest.strip_prefix(b" @@").map(|_| Range { old_start, old_count, new_count })
}

fn start_and_count(text: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        Some(rest) => number(rest).map(|(count, rest)| (start, count, rest)),
        None => Some((start, 1, rest)),
    }
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

/// Reads the hunk at the current line, which begins with `@@`.
pub(super) fn hunk<'p>(lines: &mut Lines<'p>) -> Result<Hunk<'p>, PatchError> {
    let number = lines.number();
    let header = lines.peek().unwrap_or_default();
    let range = range(header);
    if range.is_none() && !is_bare(header) {
        return Err(lines.error(Problem::Expected {
            expected: "`@@ -<line>,<count> +<line>,<count> @@`, or `@@` alone",
            found: excerpt(header),
        }));
    }
    lines.advance();
    let position = match range {
        Some(range) => Position::Numbered(range.old_start),
        None => Position::Searched { headers: Vec::new(), ends_file: false },
    };
    let mut hunk = Hunk {
        line: number,
        position,
        lines: Vec::new(),
        old_is_unterminated: false,
        new_is_unterminated: false,
    };
    match range {
        Some(range) => counted(lines, &mut hunk, range)?,
        None => uncounted(lines, &mut hunk)?,
    }
    finished(hunk)
}

/// `@@`, `@@ @@`, `@@ ... @@`
fn is_bare(header: &[u8]) -> bool {
    matches!(header.trim_ascii_end(), b"@@" | b"@@ @@" | b"@@ ... @@")
}

fn counted<'p>(lines: &mut Lines<'p>, hunk: &mut Hunk<'p>, range: Range) -> Result<(), PatchError> {
    let (mut old, mut new) = (0, 0);
    let number = hunk.line;
    let counts = |old_found, new_found| PatchError {
        line: number,
        problem: Problem::Counts {
            old: range.old_count,
            new: range.new_count,
            old_found,
            new_found,
        },
    };
    while old < range.old_count || new < range.new_count {
        let Some(line) = lines.peek() else { return Err(counts(old, new)) };
        let Some(parsed) = hunk_line(line) else {
            return Err(if line.starts_with(b"@@") || line.starts_with(b"diff ") {
                counts(old, new)
            } else {
                lines.expected(HUNK_LINE)
            });
        };
        old += usize::from(parsed.kind != LineKind::Added);
        new += usize::from(parsed.kind != LineKind::Removed);
        if old > range.old_count || new > range.new_count {
            return Err(counts(old, new));
        }
        hunk.lines.push(parsed);
        lines.advance();
        end_of_file(lines, hunk)?;
    }
    if let Some(more) = lines.peek().filter(|line| is_more(line, lines)) {
        let parsed = hunk_line(more).map(|line| line.kind);
        old += usize::from(parsed != Some(LineKind::Added));
        new += usize::from(parsed != Some(LineKind::Removed));
        return Err(counts(old, new));
    }
    Ok(())
}

/// Whether the line after a whole hunk looks like another line of it, and is neither a header nor the signature of a mail.
fn is_more(line: &[u8], lines: &Lines<'_>) -> bool {
    let is_header = line.starts_with(b"--- ")
        && lines.peek_second().is_some_and(|next| next.starts_with(b"+++ "));
    let is_signature = matches!(line, b"-- " | b"--");
    matches!(line.first(), Some(b' ' | b'+' | b'-')) && !is_header && !is_signature
}

fn uncounted<'p>(lines: &mut Lines<'p>, hunk: &mut Hunk<'p>) -> Result<(), PatchError> {
    while let Some(line) = lines.peek() {
        let is_file = line.starts_with(b"--- ")
            && lines.peek_second().is_some_and(|next| next.starts_with(b"+++ "));
        if is_file || line.starts_with(b"@@") || line.starts_with(b"diff --git ") {
            break;
        }
        let Some(parsed) = hunk_line(line) else {
            // The end of a fenced block.
            if line.starts_with(b"```") {
                break;
            }
            return Err(lines.expected(HUNK_LINE));
        };
        hunk.lines.push(parsed);
        lines.advance();
        end_of_file(lines, hunk)?;
    }
    without_blank_end(hunk);
    Ok(())
}

/// A line of a hunk; an empty line is an empty context line, whose space was lost.
pub(super) fn hunk_line(line: &[u8]) -> Option<HunkLine<'_>> {
    let Some((&mark, text)) = line.split_first() else {
        return Some(HunkLine { kind: LineKind::Context, text: line });
    };
    match mark {
        b' ' => Some(HunkLine { kind: LineKind::Context, text }),
        b'-' => Some(HunkLine { kind: LineKind::Removed, text }),
        b'+' => Some(HunkLine { kind: LineKind::Added, text }),
        b'\r' if text.is_empty() => Some(HunkLine { kind: LineKind::Context, text: line }),
        _ => None,
    }
}

/// Removes the blank lines at the end of a hunk whose length is not announced: they separate it from what follows.
pub(super) fn without_blank_end(hunk: &mut Hunk<'_>) {
    while hunk
        .lines
        .last()
        .is_some_and(|line| line.kind == LineKind::Context && line.text.trim_ascii().is_empty())
    {
        hunk.lines.pop();
    }
}

/// Reads `\ No newline at end of file` after a line of the hunk.
fn end_of_file<'p>(lines: &mut Lines<'p>, hunk: &mut Hunk<'p>) -> Result<(), PatchError> {
    if !lines.peek().is_some_and(|line| line.starts_with(b"\\ ")) {
        return Ok(());
    }
    let kind = hunk.lines.last().map(|line| line.kind);
    hunk.old_is_unterminated |= kind.is_some_and(|kind| kind != LineKind::Added);
    hunk.new_is_unterminated |= kind.is_some_and(|kind| kind != LineKind::Removed);
    lines.advance();
    let is_context = kind == Some(LineKind::Context);
    // What ended a side cannot be followed by a line of it.
    let continues = match lines.peek().and_then(|line| line.first()) {
        Some(b' ') => true,
        Some(b'-') if hunk.old_is_unterminated => !is_signature_or_header(lines),
        Some(b'+') if hunk.new_is_unterminated || is_context => true,
        _ => false,
    };
    if continues {
        return Err(
            lines.expected("the end of the file's lines, after `\\ No newline at end of file`")
        );
    }
    Ok(())
}

fn is_signature_or_header(lines: &Lines<'_>) -> bool {
    lines.peek().is_some_and(|line| matches!(line, b"-- " | b"--") || line.starts_with(b"--- "))
}

/// A hunk that changes something.
pub(super) fn finished(hunk: Hunk<'_>) -> Result<Hunk<'_>, PatchError> {
    if hunk.lines.iter().all(|line| line.kind == LineKind::Context) {
        return Err(PatchError { line: hunk.line, problem: Problem::NoChange });
    }
    Ok(hunk)
}
