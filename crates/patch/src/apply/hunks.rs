//! Applies the hunks of one file. It must never write a file of which a hunk failed.

use crate::error::{PatchError, Problem};
use crate::patch::{Hunk, LineKind, Position};

use super::fold::Leniency;
use super::locate::{Located, Locator};
use super::rewrite::{Edit, Frame, rewrite};
use super::text::{BYTE_ORDER_MARK, Ending, Text};
use super::work::Work;

/// Where a hunk was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkReport {
    /// The line of the patch where the hunk begins.
    pub patch_line: usize,
    /// The line of the file, before the patch, where it was found. Counted from 1.
    pub file_line: usize,
    /// How far that is from the line of its header, if it has one.
    pub offset: Option<i64>,
    /// What was ignored to find it.
    pub leniency: Leniency,
}

/// The file after all hunks, with a report of each; or the problems, and nothing else.
pub(super) fn apply_hunks(
    path: &str,
    bytes: &[u8],
    hunks: &[Hunk<'_>],
    work: &mut Work,
) -> Result<(Vec<u8>, Vec<HunkReport>), Vec<PatchError>> {
    let first_line = hunks.first().map_or(0, |hunk| hunk.line);
    let of_file = |problem| vec![PatchError { line: first_line, problem }];
    if work.charge(bytes.len()).is_err() {
        return Err(of_file(Problem::TooMuchWork { path: path.to_owned() }));
    }
    let Some(text) = Text::new(bytes) else {
        return Err(of_file(Problem::TooLarge { path: path.to_owned() }));
    };
    let mut locator = Locator::new(path, &text, hunks);
    let mut frame = Frame { is_terminated: text.is_terminated(), mark_is_content: false };
    let (mut edits, mut reports, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for hunk in hunks {
        match locator.locate(hunk, work) {
            Ok(located) => {
                let found = edits_of(hunk, located, &text);
                if let Some(last) = found.last() {
                    locator.continue_at(last.at + last.removed);
                }
                edits.extend(found);
                if hunk.old_is_unterminated != hunk.new_is_unterminated {
                    frame.is_terminated = !hunk.new_is_unterminated;
                }
                frame.mark_is_content |= located.at == 0 && names_mark(hunk);
                reports.push(HunkReport {
                    patch_line: hunk.line,
                    file_line: located.at + 1,
                    offset: located.offset,
                    leniency: located.leniency,
                });
            }
            Err(problem) => problems.push(PatchError { line: hunk.line, problem }),
        }
    }
    if problems.is_empty() { Ok((rewrite(&text, &edits, frame), reports)) } else { Err(problems) }
}

fn edits_of<'p>(hunk: &Hunk<'p>, located: Located, text: &Text<'_>) -> Vec<Edit<'p>> {
    let ending = ending_of(hunk, located, text);
    let mut edits: Vec<Edit<'p>> = Vec::new();
    let mut at = located.at;
    let mut is_open = false;
    for line in &hunk.lines {
        if line.kind == LineKind::Context {
            at += 1;
            is_open = false;
            continue;
        }
        if !is_open {
            edits.push(Edit { at, removed: 0, added: Vec::new(), ending });
            is_open = true;
        }
        if let Some(edit) = edits.last_mut() {
            if line.kind == LineKind::Added {
                edit.added.push(line.text);
            } else {
                edit.removed += 1;
                at += 1;
            }
        }
    }
    edits
}

/// The line breaks of added lines: those of the patch if it was written for exactly these lines, else those of the file.
fn ending_of(hunk: &Hunk<'_>, located: Located, text: &Text<'_>) -> Ending {
    if text.len() == 0 {
        return Ending::Verbatim;
    }
    let is_numbered = matches!(hunk.position, Position::Numbered(_));
    let old = hunk.old_lines().count();
    let is_exact = located.leniency == Leniency::Exact;
    if old == 0 {
        let has_return = hunk.lines.iter().any(|line| line.text.ends_with(b"\r"));
        let before = located.at.saturating_sub(1);
        return if has_return { Ending::Verbatim } else { text.ending_at(before) };
    }
    // The only line that it names may be the last of the file, without a line break.
    let shows_break = located.at + old < text.len() || old > 1 || text.is_terminated();
    if is_exact && (is_numbered || shows_break) {
        Ending::Verbatim
    } else {
        text.ending_at(located.at)
    }
}

fn names_mark(hunk: &Hunk<'_>) -> bool {
    hunk.old_lines().next().is_some_and(|line| line.starts_with(BYTE_ORDER_MARK))
}
