//! The lines between `diff --git` and the hunks of a file.

use crate::error::{PatchError, Problem};

use super::lines::Lines;
use super::names::{Name, git_names, name};

/// What the header of a file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct GitHeader {
    /// Of the line `diff --git` itself.
    pub(super) names: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
    pub(super) rename_from: Option<Name>,
    pub(super) rename_to: Option<Name>,
    pub(super) copy_from: Option<Name>,
    pub(super) copy_to: Option<Name>,
}

/// Reads the header, up to the first line that is none of its own.
pub(super) fn git_header(lines: &mut Lines<'_>) -> Result<GitHeader, PatchError> {
    let mut header = GitHeader::default();
    let first = lines.peek().unwrap_or_default();
    header.names = first.strip_prefix(b"diff --git ").and_then(git_names);
    lines.advance();
    while let Some(line) = lines.peek() {
        let field = |start: &str| line.strip_prefix(start.as_bytes());
        if let Some(mode) = field("new file mode ") {
            plain_file(lines, mode)?;
            header.is_new = true;
        } else if let Some(mode) = field("deleted file mode ") {
            plain_file(lines, mode)?;
            header.is_deleted = true;
        } else if let Some(path) = field("rename from ") {
            header.rename_from = Some(name(path).map_err(|problem| lines.error(problem))?);
        } else if let Some(path) = field("rename to ") {
            header.rename_to = Some(name(path).map_err(|problem| lines.error(problem))?);
        } else if let Some(path) = field("copy from ") {
            header.copy_from = Some(name(path).map_err(|problem| lines.error(problem))?);
        } else if let Some(path) = field("copy to ") {
            header.copy_to = Some(name(path).map_err(|problem| lines.error(problem))?);
        } else if let Some(mode) = field("old mode ").or(field("new mode ")) {
            plain_file(lines, mode)?;
        } else if let Some(hashes) = field("index ") {
            // `index 1a2b..3c4d 120000` has the mode of a file that stays what it is.
            let mode = hashes.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            plain_file(lines, mode)?;
        } else if field("Binary files ").is_some() || field("GIT binary patch").is_some() {
            return Err(lines.error(Problem::Unsupported {
                what: "a binary patch",
                instead: "write the file as a whole",
            }));
        } else if field("similarity index ").is_none() && field("dissimilarity index ").is_none() {
            break;
        }
        lines.advance();
    }
    if header.rename_from.is_some() != header.rename_to.is_some() {
        return Err(lines.expected("both `rename from` and `rename to`"));
    }
    if header.copy_from.is_some() != header.copy_to.is_some() {
        return Err(lines.expected("both `copy from` and `copy to`"));
    }
    Ok(header)
}

/// Refuses links and submodules: their text is no content of a file.
fn plain_file(lines: &Lines<'_>, mode: &[u8]) -> Result<(), PatchError> {
    match mode.trim_ascii() {
        b"120000" => Err(lines.error(Problem::Unsupported {
            what: "a symbolic link",
            instead: "leave it out of the patch",
        })),
        b"160000" => Err(lines.error(Problem::Unsupported {
            what: "a submodule",
            instead: "leave it out of the patch",
        })),
        _ => Ok(()),
    }
}
