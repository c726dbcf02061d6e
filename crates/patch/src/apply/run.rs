//! Applies the sections of a patch, one after the other, to the files as the sections before left them.

use std::rc::Rc;

use crate::error::{PatchError, Problem};
use crate::patch::{Action, FilePatch, Patch, Position};

use super::files::{Content, FileChange, Files};
use super::hunks::apply_hunks;
use super::text::BYTE_ORDER_MARK;
use super::work::Work;

/// How many problems are listed.
const MOST_PROBLEMS: usize = 200;

/// A copied byte costs so many steps, so that a patch cannot make files that are much larger than its input.
const STEPS_PER_COPIED_BYTE: usize = 8;

/// Applies `patch` to the files that `read` returns, none for one that does not exist. `read` is called once for each path of
/// [`Patch::paths`], at most.
///
/// Nothing is written: the caller writes the changes, or drops them if it wants to know only whether the patch fits.
///
/// # Errors
///
/// Every problem of the patch, in its order; then no change is returned.
pub fn apply(
    patch: &Patch<'_>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Result<Vec<FileChange>, Vec<PatchError>> {
    apply_counted(patch, read, &mut Work::new(patch.size))
}

pub(super) fn apply_counted(
    patch: &Patch<'_>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
    work: &mut Work,
) -> Result<Vec<FileChange>, Vec<PatchError>> {
    let mut files = Files::new(read);
    let mut problems = Vec::new();
    let mut unlisted = 0;
    for section in &patch.files {
        if let Err(mut found) = apply_section(section, &mut files, work) {
            let room = MOST_PROBLEMS - problems.len();
            unlisted += found.len().saturating_sub(room);
            found.truncate(room);
            problems.append(&mut found);
        }
    }
    if problems.is_empty() {
        problems = nested(patch, &mut files, work);
    }
    if problems.is_empty() {
        return Ok(files.changes());
    }
    if unlisted > 0 {
        let line = problems.last().map_or(0, |problem| problem.line);
        problems.push(PatchError { line, problem: Problem::More { count: unlisted } });
    }
    Err(problems)
}

/// The files of the patch that would be in a directory whose name another file has.
fn nested(patch: &Patch<'_>, files: &mut Files<'_>, work: &mut Work) -> Vec<PatchError> {
    let nested = patch.files.iter().filter_map(|section| {
        let (Action::Add { path: to }
        | Action::Update { path: to }
        | Action::Move { to, .. }
        | Action::Copy { to, .. }) = &section.action
        else {
            return None;
        };
        files.current(to, work)?;
        let file = files.above(to)?.to_owned();
        Some(PatchError { line: section.line, problem: Problem::Nested { path: to.clone(), file } })
    });
    nested.take(MOST_PROBLEMS).collect()
}

fn apply_section(
    section: &FilePatch<'_>,
    files: &mut Files<'_>,
    work: &mut Work,
) -> Result<(), Vec<PatchError>> {
    let failed = |problem| vec![PatchError { line: section.line, problem }];
    match &section.action {
        Action::Add { path } => {
            if files.current(path, work).is_some() {
                return Err(failed(Problem::Exists { path: path.clone() }));
            }
            let empty = Content { bytes: Rc::default(), source: None, hunks: Vec::new() };
            let content = patched(path, empty, section, work)?;
            files.write(path, Some(Content { hunks: Vec::new(), ..content }), work);
        }
        Action::Delete { path } => {
            let content = existing(path, section, files, work)?;
            if !section.hunks.is_empty() {
                let content = patched(path, content, section, work)?;
                if !content.bytes.is_empty() && content.bytes.as_slice() != BYTE_ORDER_MARK {
                    return Err(failed(Problem::NotEmpty { path: path.clone() }));
                }
            }
            files.write(path, None, work);
        }
        Action::Update { path } => {
            let content = if files.current(path, work).is_none() && makes_file(section) {
                Content { bytes: Rc::default(), source: None, hunks: Vec::new() }
            } else {
                existing(path, section, files, work)?
            };
            let content = patched(path, content, section, work)?;
            files.write(path, Some(content), work);
        }
        Action::Move { from, to } => {
            let content = existing(from, section, files, work)?;
            if from != to && files.current(to, work).is_some() {
                return Err(failed(Problem::Exists { path: to.clone() }));
            }
            let mut content = patched(from, content, section, work)?;
            if from != to {
                content.source.get_or_insert_with(|| from.clone());
                files.write(from, None, work);
            }
            files.write(to, Some(content), work);
        }
        Action::Copy { from, to } => {
            // Git writes copies of the file as it was, wherever they stand in the patch.
            let Some(bytes) = files.original(from, work) else {
                return Err(failed(Problem::Missing { path: from.clone(), hint: "" }));
            };
            if files.current(to, work).is_some() {
                return Err(failed(Problem::Exists { path: to.clone() }));
            }
            if work.charge(bytes.len().saturating_mul(STEPS_PER_COPIED_BYTE)).is_err() {
                return Err(failed(Problem::TooMuchWork { path: from.clone() }));
            }
            let content = Content { bytes, source: Some(from.clone()), hunks: Vec::new() };
            let content = patched(from, content, section, work)?;
            files.write(to, Some(content), work);
        }
    }
    Ok(())
}

/// A plain diff of a new file may name it on both sides.
fn makes_file(section: &FilePatch<'_>) -> bool {
    let is_all = |hunk: &crate::patch::Hunk<'_>| {
        hunk.position == Position::Numbered(0) && hunk.old_lines().next().is_none()
    };
    section.hunks.iter().all(is_all)
}

fn existing(
    path: &str,
    section: &FilePatch<'_>,
    files: &mut Files<'_>,
    work: &mut Work,
) -> Result<Content, Vec<PatchError>> {
    files.current(path, work).ok_or_else(|| {
        let hint = match section.action {
            Action::Update { .. } => ": to make it, name `/dev/null` or `*** Add File:`",
            _ => "",
        };
        let problem = Problem::Missing { path: path.to_owned(), hint };
        vec![PatchError { line: section.line, problem }]
    })
}

fn patched(
    path: &str,
    content: Content,
    section: &FilePatch<'_>,
    work: &mut Work,
) -> Result<Content, Vec<PatchError>> {
    if section.hunks.is_empty() {
        return Ok(content);
    }
    let (bytes, reports) = apply_hunks(path, &content.bytes, &section.hunks, work)?;
    let mut hunks = content.hunks;
    hunks.extend(reports);
    Ok(Content { bytes: Rc::new(bytes), source: content.source, hunks })
}
