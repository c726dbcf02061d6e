//! The tool `grep`: the lines that match an expression, in the order of their paths. It must never hold more of a file than a
//! line and those around it, and it ends when its result is full.

use rustix::fs::FileType;

use super::lines::{Line, Search};
use super::pattern::{expression, files};
use super::report::Report;
use super::walk::{Found, Unseen, Walk};
use crate::cancel::Cancel;
use crate::error::{ToolError, system};
use crate::output::Output;
use crate::params::{GrepParams, count};
use crate::root::{Opened, ProtectedFiles};
use crate::text::format_size;
use crate::workspace::{Located, Workspace};

const DEFAULT_LIMIT: usize = 100;
const MAX_CONTEXT: usize = 1_000;
/// UTF-16 units of a line that are shown.
const MAX_LINE: usize = 500;

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
    let mut grep = Grep {
        search: Search::new(matcher, context, cancel),
        context: u64::try_from(context).unwrap_or(0),
        limit: params.limit.map_or(DEFAULT_LIMIT, count).max(1),
        matches: 0,
        long_lines: false,
        report: Report::default(),
    };
    let mut unseen = Unseen::default();
    if opened.is_directory() {
        let protected = workspace.protected().files();
        let mut walk = Walk::new(root, &relative, opened, files.as_ref(), cancel)
            .map_err(|error| system(path, error))?;
        let mut unreadable = 0;
        while !grep.is_done()
            && let Some(found) = walk.next()?
        {
            match grep.found(&found, &protected) {
                Ok(()) => cancel.check()?,
                Err(_) => unreadable += 1,
            }
        }
        unseen = walk.unseen;
        unseen.unreadable += unreadable;
    } else {
        let name = relative.file_name().unwrap_or(relative.as_os_str()).to_string_lossy();
        let size = opened.size();
        if !grep.file(&name, &opened)? {
            cancel.check()?;
            return Ok(Output::text(format!(
                "[Binary file, {}: it is not searched]",
                format_size(size)
            )));
        }
        unseen.time = cancel.is_expired();
    }
    cancel.check()?;
    Ok(grep.finish(unseen))
}

struct Grep<'c> {
    search: Search<'c>,
    context: u64,
    limit: usize,
    matches: usize,
    long_lines: bool,
    report: Report,
}

impl Grep<'_> {
    /// One match more than the limit is looked for, to know whether there are more.
    fn is_done(&self) -> bool {
        self.matches > self.limit || self.report.is_full()
    }

    fn found(&mut self, found: &Found, protected: &ProtectedFiles) -> Result<(), ToolError> {
        let Found { path, kind, directory, name } = found;
        if *kind != FileType::RegularFile || protected.has_name(name) {
            return Ok(());
        }
        let opened = Opened::entry(directory, name).map_err(|error| system(path, error))?;
        if opened.kind() == FileType::RegularFile && !protected.has(opened.identity()) {
            self.file(path, &opened)?;
        }
        Ok(())
    }

    /// Searches a file; false where it is not text.
    fn file(&mut self, path: &str, opened: &Opened) -> Result<bool, ToolError> {
        if opened.size() == 0 {
            return Ok(true);
        }
        let mut file = opened.file(path)?;
        let Self { search, context, limit, matches, long_lines, report } = self;
        let mut last = None;
        let context = *context;
        search.file(&mut file, path, |line| {
            let Line { number, text, is_match } = line;
            *matches += usize::from(is_match);
            if *matches > *limit {
                return false;
            }
            if is_match {
                last = Some(number);
            } else if *matches == *limit && last.is_none_or(|last| number > last + context) {
                // It is around a match that is not shown any more.
                return true;
            }
            let (text, is_long) = shown(text);
            *long_lines |= is_long;
            let mark = if is_match { ':' } else { '-' };
            report.line(&format!("{path}{mark}{number}{mark} {text}"))
        })
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

/// A line without carriage returns, cut where pi cuts it; whether it was.
fn shown(line: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(line).replace('\r', "");
    let mut units = 0;
    for (at, char) in text.char_indices() {
        units += char.len_utf16();
        if units > MAX_LINE {
            let start = text.get(..at).unwrap_or_default();
            return (format!("{start}... [truncated]"), true);
        }
    }
    (text, false)
}
