//! The sections of a unified diff, of `git diff` and of `diff -u` (docs/rules/patches.md#unified-diff).

use crate::error::{PatchError, Problem};
use crate::patch::{Action, FilePatch, Hunk, LineKind, Position};

use super::git_header::{GitHeader, git_header};
use super::hunk::hunk;
use super::lines::Lines;
use super::names::{Name, name, without_prefixes};
use super::path::checked;

const FIRST_LINE: &str =
    "`*** Begin Patch`, or a unified diff with `--- <file>`, `+++ <file>` and `@@` lines";

/// Reads all sections. Text between them (a mail, `Only in`, `Index:`) is skipped.
pub(super) fn sections(mut lines: Lines<'_>) -> Result<Vec<FilePatch<'_>>, PatchError> {
    let start = lines.clone();
    let mut files = Vec::new();
    let mut seen_section = false;
    while let Some(line) = lines.peek() {
        if line.starts_with(b"diff --git ") {
            lines.learn_endings();
            let number = lines.number();
            let header = git_header(&mut lines)?;
            let names = if is_file_header(&lines) { Some(file_header(&mut lines)?) } else { None };
            files.extend(section(&mut lines, number, names, Some(&header))?);
            seen_section = true;
        } else if line.starts_with(b"--- ") {
            lines.learn_endings();
            let number = lines.number();
            let names = file_header(&mut lines)?;
            files.extend(section(&mut lines, number, Some(names), None)?);
            seen_section = true;
        } else if line.starts_with(b"+++ ") {
            return Err(lines.expected("`--- <file>` before `+++ <file>`"));
        } else if line.starts_with(b"@@ ") || line == b"@@" {
            return Err(lines.expected("`--- <file>` and `+++ <file>` before a hunk"));
        } else if line.starts_with(b"Binary files ") {
            return Err(lines.error(Problem::Unsupported {
                what: "a binary patch",
                instead: "write the file as a whole",
            }));
        } else if line.starts_with(b"*** ") && !line.starts_with(b"*** Begin Patch") {
            return Err(lines.error(Problem::Unsupported {
                what: "a context diff",
                instead: "write a unified diff (`diff -u`)",
            }));
        } else if line.starts_with(b"*** Begin Patch") {
            return Err(lines.expected("no other text before `*** Begin Patch`"));
        } else {
            lines.advance();
        }
    }
    match (files.is_empty(), seen_section) {
        (false, _) => Ok(files),
        (true, true) => Err(lines.expected("a change of a file's content: modes are not applied")),
        (true, false) => {
            let mut first = start;
            first.skip_blank();
            Err(first.expected(FIRST_LINE))
        }
    }
}

fn is_file_header(lines: &Lines<'_>) -> bool {
    lines.peek().is_some_and(|line| line.starts_with(b"--- "))
}

/// Reads `--- <file>` and `+++ <file>`.
fn file_header(lines: &mut Lines<'_>) -> Result<(Name, Name), PatchError> {
    let mut one = |start: &'static [u8], expected| {
        let text = lines.peek().and_then(|line| line.strip_prefix(start));
        let name = name(text.ok_or_else(|| lines.expected(expected))?);
        let name = name.map_err(|problem| lines.error(problem))?;
        lines.advance();
        Ok(name)
    };
    let old = one(b"--- ", "`--- <file>`")?;
    let new = one(b"+++ ", "`+++ <file>` after `--- <file>`")?;
    Ok((old, new))
}

/// Reads the hunks of a section, and decides what it does. None if it changes a mode only.
fn section<'p>(
    lines: &mut Lines<'p>,
    number: usize,
    names: Option<(Name, Name)>,
    header: Option<&GitHeader>,
) -> Result<Option<FilePatch<'p>>, PatchError> {
    let mut hunks = Vec::new();
    while lines.peek().is_some_and(|line| line.starts_with(b"@@")) {
        hunks.push(hunk(lines)?);
    }
    if names.is_some() && hunks.is_empty() {
        return Err(lines.expected("`@@`, the first hunk of the file"));
    }
    if names.is_none() && !hunks.is_empty() {
        let line = hunks.first().map_or(number, |hunk| hunk.line);
        let expected = "`--- <file>` and `+++ <file>` before a hunk";
        return Err(PatchError {
            line,
            problem: Problem::Expected { expected, found: "@@".to_owned() },
        });
    }
    let failed = |problem| PatchError { line: number, problem };
    let Some(action) = action(names.as_ref(), header, &hunks).map_err(failed)? else {
        return Ok(None);
    };
    let is_numbered = |hunk: &Hunk<'_>| matches!(hunk.position, Position::Numbered(_));
    match &action {
        Action::Add { .. } => {
            let has_old = |hunk: &&Hunk<'_>| hunk.lines.iter().any(|it| it.kind != LineKind::Added);
            if let Some(hunk) = hunks.iter().find(has_old) {
                return Err(PatchError {
                    line: hunk.line,
                    problem: Problem::Expected {
                        expected: "lines with `+` only: the file is new",
                        found: "a line that the file had before".to_owned(),
                    },
                });
            }
            // Whatever their headers number, the lines of a new file follow each other.
            for hunk in &mut hunks {
                hunk.position = Position::Searched { headers: Vec::new(), ends_file: false };
            }
        }
        _ => {
            let has_no_place =
                |hunk: &&Hunk<'_>| !is_numbered(hunk) && hunk.old_lines().next().is_none();
            if let Some(hunk) = hunks.iter().find(has_no_place) {
                return Err(PatchError {
                    line: hunk.line,
                    problem: Problem::Expected {
                        expected: "context lines, because `@@` has no line numbers",
                        found: "added lines only".to_owned(),
                    },
                });
            }
        }
    }
    Ok(Some(FilePatch { line: number, action, hunks }))
}

fn action(
    names: Option<&(Name, Name)>,
    header: Option<&GitHeader>,
    hunks: &[Hunk<'_>],
) -> Result<Option<Action>, Problem> {
    if let Some(GitHeader { rename_from: Some(from), rename_to: Some(to), .. }) = header {
        return Ok(Some(Action::Move { from: checked(&from.path)?, to: checked(&to.path)? }));
    }
    if let Some(GitHeader { copy_from: Some(from), copy_to: Some(to), .. }) = header {
        return Ok(Some(Action::Copy { from: checked(&from.path)?, to: checked(&to.path)? }));
    }
    let is_new = header.is_some_and(|header| header.is_new);
    let is_deleted = header.is_some_and(|header| header.is_deleted);
    let of_header = |(old, new): &(Vec<u8>, Vec<u8>)| {
        let name = |path: &Vec<u8>| Name { path: path.clone(), is_epoch: false };
        (name(old), name(new))
    };
    let from_header = header.and_then(|header| header.names.as_ref()).map(of_header);
    let Some((old, new)) = names.or(from_header.as_ref()) else {
        return Err(Problem::Expected {
            expected: "`--- <file>` and `+++ <file>`, or names without spaces",
            found: "diff --git".to_owned(),
        });
    };
    if old.is_null() && new.is_null() {
        return Err(Problem::Path { path: "/dev/null".to_owned(), reason: "is no file" });
    }
    let (old_path, new_path) = without_prefixes(old, new, header.is_some());
    // `diff -N` has the epoch as the time of a file that is not there.
    let removes_all =
        hunks.iter().all(|hunk| hunk.lines.iter().all(|it| it.kind == LineKind::Removed));
    if is_new || old.is_null() || (old.is_epoch && is_only_added(hunks)) {
        Ok(Some(Action::Add { path: checked(new_path)? }))
    } else if is_deleted || new.is_null() || (new.is_epoch && removes_all && !hunks.is_empty()) {
        Ok(Some(Action::Delete { path: checked(old_path)? }))
    } else if hunks.is_empty() {
        Ok(None)
    } else {
        Ok(Some(Action::Update { path: checked(new_path)? }))
    }
}

fn is_only_added(hunks: &[Hunk<'_>]) -> bool {
    !hunks.is_empty() && hunks.iter().all(|hunk| hunk.old_lines().next().is_none())
}
