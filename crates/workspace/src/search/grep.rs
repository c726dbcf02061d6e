//! The tool `grep`: the lines that match an expression, in the order of their paths. It must never hold more of a file than a
//! line and those around it, and what its result can show, and it ends when that is full.

use std::sync::atomic::AtomicBool;

use rustix::fs::FileType;

use super::batch::{Batch, File, Finder, MAX_LINE, Searched, ShownLine};
use super::lines::Search;
use super::pattern::{expression, files};
use super::report::Report;
use super::threads::in_order;
use super::walk::{Unseen, Walk};
use crate::cancel::Cancel;
use crate::error::{ToolError, system};
use crate::output::Output;
use crate::params::{GrepParams, count};
use crate::root::ProtectedFiles;
use crate::text::format_size;
use crate::workspace::{Located, Workspace};

const DEFAULT_LIMIT: usize = 100;
const MAX_CONTEXT: usize = 1_000;
/// The files of the first batch; each one has twice as many as the one before.
const FIRST_BATCH: usize = 4;
const MAX_BATCH: usize = 64;
/// The most directories that a batch has open.
const MAX_DIRECTORIES: usize = 8;

/// Searches a directory or a file.
pub(crate) fn grep(
    workspace: &Workspace,
    params: &GrepParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let matcher = expression(
        &params.pattern,
        params.ignore_case.unwrap_or(false),
        params.literal.unwrap_or(false),
    )?;
    let glob = params.glob.as_deref().filter(|glob| !glob.is_empty());
    let files = glob.map(files).transpose()?;
    let path = params.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    let Located { opened, root, relative } = workspace.find_to_read(path)?;
    let context = params.context.map_or(0, count).min(MAX_CONTEXT);
    let limit = params.limit.map_or(DEFAULT_LIMIT, count).max(1);
    let mut grep = Grep {
        context: u64::try_from(context).unwrap_or(0),
        limit,
        matches: 0,
        long_lines: false,
        report: Report::default(),
    };
    let protected = workspace.protected().files();
    let stop = AtomicBool::new(false);
    let finder =
        || Finder::new(Search::new(matcher.clone(), context, cancel, &stop), &protected, limit);
    let mut unseen = Unseen::default();
    if opened.is_directory() {
        let mut walk = Walk::new(root, &relative, opened, files.as_ref(), cancel)
            .map_err(|error| system(path, error))?;
        let mut unreadable = 0;
        let mut size = FIRST_BATCH;
        let next = || {
            let batch = batch(&mut walk, &protected, size)?;
            size = size.saturating_mul(2).min(MAX_BATCH);
            Ok(batch)
        };
        in_order(next, &finder, &stop, |searched| {
            unseen = searched.unseen;
            unreadable += grep.add(&searched);
            !grep.is_done()
        })?;
        if !grep.is_done() {
            unseen = walk.unseen;
            unseen.time |= cancel.is_expired();
        }
        unseen.unreadable += unreadable;
    } else {
        let name = relative.file_name().unwrap_or(relative.as_os_str()).to_string_lossy();
        let Some(lines) = finder().file(&name, &mut opened.file(&name)?, opened.size())? else {
            cancel.check()?;
            return Ok(Output::text(format!(
                "[Binary file, {}: it is not searched]",
                format_size(opened.size())
            )));
        };
        grep.lines(&name, &lines);
        unseen.time = cancel.is_expired();
    }
    cancel.check()?;
    Ok(grep.finish(unseen))
}

/// The next files of a walk, at most `size`; `None` at its end.
fn batch(
    walk: &mut Walk<'_>,
    protected: &ProtectedFiles,
    size: usize,
) -> Result<Option<Batch>, ToolError> {
    let mut files: Vec<File> = Vec::new();
    let mut directories = 0;
    while files.len() < size
        && directories < MAX_DIRECTORIES
        && let Some(found) = walk.next()?
    {
        if found.kind != FileType::RegularFile || protected.has_name(&found.name) {
            continue;
        }
        let is_same = |last: &File| std::sync::Arc::ptr_eq(&last.directory, &found.directory);
        directories += usize::from(!files.last().is_some_and(is_same));
        files.push(File { path: found.path, directory: found.directory, name: found.name });
    }
    Ok((!files.is_empty()).then(|| Batch { files, unseen: walk.unseen }))
}

struct Grep {
    context: u64,
    limit: usize,
    matches: usize,
    long_lines: bool,
    report: Report,
}

impl Grep {
    /// One match more than the limit is looked for, to know whether there are more.
    fn is_done(&self) -> bool {
        self.matches > self.limit || self.report.is_full()
    }

    /// Adds what was found in a batch, until the result is full; how many files could not be read.
    fn add(&mut self, searched: &Searched) -> usize {
        let mut unreadable = 0;
        for file in &searched.files {
            match file {
                _ if self.is_done() => break,
                Ok((path, lines)) => self.lines(path, lines),
                Err(_) => unreadable += 1,
            }
        }
        unreadable
    }

    /// Adds the lines of a file, until the result is full.
    fn lines(&mut self, path: &str, lines: &[ShownLine]) {
        let mut last = None;
        for ShownLine { number, text, is_match, is_long } in lines {
            self.matches += usize::from(*is_match);
            if self.matches > self.limit {
                return;
            }
            if *is_match {
                last = Some(*number);
            } else if self.matches == self.limit
                && last.is_none_or(|last| *number > last + self.context)
            {
                // It is around a match that is not shown any more.
                continue;
            }
            self.long_lines |= *is_long;
            let mark = if *is_match { ':' } else { '-' };
            if !self.report.line(&format!("{path}{mark}{number}{mark} {text}")) {
                return;
            }
        }
    }

    fn finish(self, unseen: Unseen) -> Output {
        let Self { limit, matches, long_lines, mut report, .. } = self;
        if matches > limit {
            report.note(
                format!(
                    "{limit} matches limit reached. Use limit={} for more, or refine pattern",
                    limit.saturating_mul(2)
                ),
                "matchLimitReached",
                limit,
            );
        }
        if long_lines {
            report.note(
                format!(
                    "Some lines truncated to {MAX_LINE} chars. Use read tool to see full lines"
                ),
                "linesTruncated",
                true,
            );
        }
        report.note_unseen(unseen);
        report.finish("No matches found")
    }
}
