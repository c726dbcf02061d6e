//! The tool `find`: the files and directories whose names match a glob, newest first. It must never open what it names.

use rustix::fs::{AtFlags, FileType};

use super::pattern::PathGlob;
use super::report::Report;
use super::walk::{Found, Walk};
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted, system};
use crate::output::Output;
use crate::params::{FindParams, count};
use crate::workspace::{Located, Workspace};

const DEFAULT_LIMIT: usize = 1_000;
/// The most results of one call.
const MAX_LIMIT: usize = 100_000;

/// A match: what is newest is first, then by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    age: (i64, i64),
    path: String,
}

/// Finds names in a directory.
pub(crate) fn find(
    workspace: &Workspace,
    params: &FindParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let glob = PathGlob::new(&params.pattern)?;
    let path = params.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    let Located { opened, root, relative } = workspace.find_to_read(path)?;
    if !opened.is_directory() {
        return Err(ToolError::new(format!("Not a directory: {}", quoted(path))));
    }
    let limit = params.limit.map_or(DEFAULT_LIMIT, count).clamp(1, MAX_LIMIT);
    let mut walk =
        Walk::new(root, &relative, opened, None, cancel).map_err(|error| system(path, error))?;
    let mut matches = Vec::new();
    let mut found_more = false;
    while let Some(found) = walk.next()? {
        if !glob.matches(&found.path) {
            continue;
        }
        matches.extend(matched(found));
        if matches.len() >= limit.saturating_mul(2).max(4_096) {
            found_more |= newest(&mut matches, limit);
        }
    }
    found_more |= newest(&mut matches, limit);
    let mut report = Report::default();
    for Match { path, .. } in &matches {
        report.line(path);
    }
    if found_more {
        report.note(
            format!(
                "{limit} results limit reached. Use limit={} for more, or refine pattern",
                limit.saturating_mul(2)
            ),
            "resultLimitReached",
            limit,
        );
    }
    report.note_unseen(walk.unseen);
    Ok(report.finish("No files found matching pattern"))
}

/// Drops all but the first `limit`; whether there were more.
fn newest(matches: &mut Vec<Match>, limit: usize) -> bool {
    matches.sort_unstable();
    let more = matches.len() > limit;
    matches.truncate(limit);
    more
}

/// Nothing for a file that is gone.
fn matched(found: Found) -> Option<Match> {
    let Found { mut path, kind, directory, name } = found;
    let stat = rustix::fs::statat(&*directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if kind == FileType::Directory {
        path.push('/');
    }
    Some(Match { age: (-stat.st_mtime, -stat.st_mtime_nsec), path })
}
