//! The tool `ls`: the names in a directory, directories with a slash.

use rustix::fs::{Dir, FileType};
use serde_json::{Map, Value, json};

use crate::cancel::Cancel;
use crate::error::{ToolError, quoted, system};
use crate::output::Output;
use crate::params::{LsParams, count};
use crate::text::{MAX_BYTES, TruncatedBy, Truncation, format_size};
use crate::workspace::Workspace;

const DEFAULT_LIMIT: usize = 500;
/// The most names that are read of one directory.
const MAX_NAMES: usize = 1_000_000;

/// Lists a directory.
pub(crate) fn ls(
    workspace: &Workspace,
    params: &LsParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let given = params.path.as_deref().unwrap_or(".");
    let path = if given.is_empty() { "." } else { given };
    let opened = workspace.open_to_read(path)?;
    if !opened.is_directory() {
        return Err(ToolError::new(format!("Not a directory: {}", quoted(path))));
    }
    let limit = params.limit.map_or(DEFAULT_LIMIT, count).max(1);
    let directory = opened.directory(path)?;
    let entries = Dir::read_from(&directory).map_err(|error| system(path, error))?;
    let mut names: Vec<(String, FileType)> = Vec::new();
    for entry in entries {
        cancel.check()?;
        let entry = entry.map_err(|error| system(path, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        if names.len() == MAX_NAMES {
            return Err(ToolError::new(format!(
                "`{}` has more than {MAX_NAMES} names",
                quoted(path)
            )));
        }
        names.push((name, entry.file_type()));
    }
    names.sort_by_cached_key(|(name, _)| (name.to_lowercase(), name.clone()));
    if names.is_empty() {
        return Ok(Output::text("(empty directory)"));
    }
    let more = names.len() > limit;
    let mut lines = Vec::new();
    for (name, kind) in names.iter().take(limit) {
        cancel.check()?;
        let directory = match kind {
            FileType::Directory => true,
            // Where it leads outside, it is a name and nothing else.
            FileType::Symlink | FileType::Unknown => {
                let inside = format!("{}/{name}", path.trim_end_matches('/'));
                workspace.open_to_read(&inside).is_ok_and(|opened| opened.is_directory())
            }
            _ => false,
        };
        lines.push(if directory { format!("{name}/") } else { name.clone() });
    }
    Ok(listing(&lines, more.then_some(limit)))
}

/// The result with pi's sentences; `reached` is the limit, if there are more names.
fn listing(lines: &[String], reached: Option<usize>) -> Output {
    let total_bytes = lines.iter().map(|line| line.len() + 1).sum::<usize>().saturating_sub(1);
    let mut text = String::new();
    let mut shown = 0;
    for line in lines {
        if text.len() + line.len() + usize::from(shown > 0) > MAX_BYTES {
            break;
        }
        if shown > 0 {
            text.push('\n');
        }
        text.push_str(line);
        shown += 1;
    }
    let mut details = Map::new();
    let mut notes = Vec::new();
    if let Some(limit) = reached {
        notes.push(format!(
            "{limit} entries limit reached. Use limit={} for more",
            limit.saturating_mul(2)
        ));
        details.insert("entryLimitReached".to_owned(), json!(limit));
    }
    if shown < lines.len() {
        notes.push(format!(
            "{} limit reached",
            format_size(u64::try_from(MAX_BYTES).unwrap_or(u64::MAX))
        ));
        let truncation = Truncation {
            content: text.clone(),
            truncated: true,
            truncated_by: TruncatedBy::Bytes,
            total_lines: lines.len(),
            total_bytes: u64::try_from(total_bytes).unwrap_or(u64::MAX),
            output_lines: shown,
            output_bytes: text.len(),
            last_line_partial: false,
            first_line_exceeds_limit: false,
            // JavaScript's largest whole number, as pi has it: lines are not limited.
            max_lines: (1 << 53) - 1,
            max_bytes: MAX_BYTES,
        };
        details.insert("truncation".to_owned(), json!(truncation));
    }
    if !notes.is_empty() {
        text.push_str(&format!("\n\n[{}]", notes.join(". ")));
    }
    Output::text(text).with_details((!details.is_empty()).then_some(Value::Object(details)))
}
