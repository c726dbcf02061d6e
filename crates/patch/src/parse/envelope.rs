//! The form between `*** Begin Patch` and `*** End Patch` (docs/rules/patches.md#begin-patch).

use crate::error::{PatchError, Problem};
use crate::patch::{Action, FilePatch, Hunk, HunkLine, LineKind, Position};

use super::hunk::{finished, hunk_line, range, without_blank_end};
use super::lines::Lines;
use super::path::checked;

const BEGIN: &[u8] = b"*** Begin Patch";
const END: &[u8] = b"*** End Patch";
const END_OF_FILE: &[u8] = b"*** End of File";
const SECTION: &str = "`*** Add File: <path>`, `*** Update File: <path>`, `*** Delete File: <path>` or `*** End Patch`";
const HUNK_LINE: &str = "a line that begins with ` `, `+`, `-`, `@@` or `***`";

/// What a model puts around a patch, and what ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrapper {
    end: Option<Vec<u8>>,
}

/// Moves `lines` behind `*** Begin Patch`, if the patch begins with it: alone, in a heredoc, or in a fenced block.
pub(super) fn unwrap(lines: &mut Lines<'_>) -> Option<Wrapper> {
    lines.skip_blank();
    let first = lines.peek()?.trim_ascii();
    let end = if first == BEGIN {
        None
    } else {
        let end = wrapper_end(first)?;
        lines.advance();
        Some(end)
    };
    if lines.peek()?.trim_ascii() != BEGIN {
        return None;
    }
    lines.learn_endings();
    lines.advance();
    Some(Wrapper { end })
}

fn wrapper_end(line: &[u8]) -> Option<Vec<u8>> {
    if line.starts_with(b"```") {
        return Some(b"```".to_vec());
    }
    let at = line.windows(2).position(|two| two == b"<<")?;
    let (_, word) = line.split_at_checked(at + 2)?;
    let is_quote = |byte: &u8| matches!(byte, b'\'' | b'"' | b' ' | b'-');
    let word: Vec<u8> = word.iter().copied().filter(|byte| !is_quote(byte)).collect();
    let is_word = !word.is_empty() && word.iter().all(u8::is_ascii_alphanumeric);
    is_word.then_some(word)
}

/// Reads the sections, up to the end of the patch.
pub(super) fn sections<'p>(
    lines: &mut Lines<'p>,
    wrapper: Wrapper,
) -> Result<Vec<FilePatch<'p>>, PatchError> {
    let mut files = Vec::new();
    loop {
        lines.skip_blank();
        let number = lines.number();
        let Some(line) = lines.peek() else { return Err(lines.expected(SECTION)) };
        let line = line.trim_ascii();
        if line == END {
            break;
        }
        let field = |name: &str| line.strip_prefix(name.as_bytes()).map(<[u8]>::trim_ascii);
        let path = |path| checked(path).map_err(|problem| lines.error(problem));
        let (action, hunks) = if let Some(name) = field("*** Add File:") {
            let action = Action::Add { path: path(name)? };
            lines.advance();
            (action, added_file(lines)?)
        } else if let Some(name) = field("*** Delete File:") {
            let action = Action::Delete { path: path(name)? };
            lines.advance();
            (action, Vec::new())
        } else if let Some(name) = field("*** Update File:") {
            let from = path(name)?;
            lines.advance();
            update(lines, number, from)?
        } else {
            return Err(lines.expected(SECTION));
        };
        files.push(FilePatch { line: number, action, hunks });
    }
    if files.is_empty() {
        return Err(lines.expected("a section before `*** End Patch`"));
    }
    lines.advance();
    lines.skip_blank();
    if lines.peek().is_some_and(|line| wrapper.end.as_deref() == Some(line.trim_ascii())) {
        lines.advance();
        lines.skip_blank();
    }
    match lines.peek() {
        Some(_) => Err(lines.expected("nothing after `*** End Patch`")),
        None => Ok(files),
    }
}

/// The lines of a new file, as one hunk; none for an empty file.
fn added_file<'p>(lines: &mut Lines<'p>) -> Result<Vec<Hunk<'p>>, PatchError> {
    let number = lines.number();
    let mut added = Vec::new();
    while let Some(line) = lines.peek() {
        if let Some(text) = line.strip_prefix(b"+") {
            added.push(HunkLine { kind: LineKind::Added, text });
            lines.advance();
        } else if line.trim_ascii().is_empty() {
            let blank = lines.clone();
            lines.skip_blank();
            if lines.peek().is_some_and(|line| !line.starts_with(b"***")) {
                return Err(blank.expected("`+` before each line of the new file"));
            }
        } else if line.starts_with(b"***") {
            break;
        } else {
            return Err(lines.expected("`+` before each line of the new file"));
        }
    }
    let hunk = Hunk {
        line: number,
        position: Position::Numbered(0),
        lines: added,
        old_is_unterminated: false,
        new_is_unterminated: false,
    };
    Ok(if hunk.lines.is_empty() { Vec::new() } else { vec![hunk] })
}

fn update<'p>(
    lines: &mut Lines<'p>,
    number: usize,
    from: String,
) -> Result<(Action, Vec<Hunk<'p>>), PatchError> {
    let to = lines.peek().and_then(|line| line.trim_ascii().strip_prefix(b"*** Move to:"));
    let to = match to {
        Some(name) => {
            let to = checked(name.trim_ascii()).map_err(|problem| lines.error(problem))?;
            lines.advance();
            Some(to)
        }
        None => None,
    };
    let mut hunks = Vec::new();
    while lines.peek().is_some_and(|line| !line.starts_with(b"***")) {
        // Blank lines before a section or a header separate.
        let before = lines.clone();
        lines.skip_blank();
        let is_separator = lines.peek().is_none_or(|line| line.starts_with(b"***"));
        if is_separator {
            break;
        }
        if !lines.peek().is_some_and(|line| line.starts_with(b"@@")) {
            *lines = before;
        }
        hunks.push(hunk(lines)?);
    }
    match to {
        Some(to) => Ok((Action::Move { from, to }, hunks)),
        None if hunks.is_empty() => {
            let instead = "write a hunk, or `*** Move to: <path>`";
            let problem = Problem::EmptySection { path: from, instead };
            Err(PatchError { line: number, problem })
        }
        None => Ok((Action::Update { path: from }, hunks)),
    }
}

/// Reads `@@` lines, hunk lines, and the mark of the end of the file.
fn hunk<'p>(lines: &mut Lines<'p>) -> Result<Hunk<'p>, PatchError> {
    let number = lines.number();
    let mut headers = Vec::new();
    while let Some(rest) = lines.peek().and_then(|line| line.strip_prefix(b"@@")) {
        let is_header = rest.is_empty() || rest.starts_with(b" ");
        if !is_header {
            return Err(lines.expected("`@@`, or `@@ ` and a line of the file"));
        }
        // Line numbers, as in a unified diff, say nothing in this form.
        let is_range = lines.peek().is_some_and(|line| range(line).is_some());
        let text = rest.strip_prefix(b" ").unwrap_or(rest);
        if !text.trim_ascii().is_empty() && !is_range && text != b"@@" {
            headers.push(text);
        }
        lines.advance();
    }
    let mut parsed = Vec::new();
    while let Some(line) = lines.peek() {
        if line.starts_with(b"@@") || line.starts_with(b"***") {
            break;
        }
        parsed.push(hunk_line(line).ok_or_else(|| lines.expected(HUNK_LINE))?);
        lines.advance();
    }
    let ends_file = lines.peek().is_some_and(|line| line.trim_ascii_end() == END_OF_FILE);
    let mut hunk = Hunk {
        line: number,
        position: Position::Searched { headers, ends_file },
        lines: parsed,
        old_is_unterminated: false,
        new_is_unterminated: false,
    };
    if ends_file {
        lines.advance();
    } else {
        without_blank_end(&mut hunk);
    }
    if hunk.lines.is_empty() {
        return Err(lines.expected(HUNK_LINE));
    }
    finished(hunk)
}
