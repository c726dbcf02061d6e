//! Reads a patch: which form it has, and its sections (docs/rules/patches.md#grammar).

mod envelope;
mod git_header;
mod hunk;
mod lines;
mod names;
mod path;
mod unified;

use crate::error::PatchError;
use crate::patch::Patch;

use lines::Lines;

/// Reads `text`, a unified diff or a patch between `*** Begin Patch` and `*** End Patch`.
///
/// # Errors
///
/// The first line that the form does not allow.
pub fn parse(text: &[u8]) -> Result<Patch<'_>, PatchError> {
    let mut lines = Lines::new(text);
    let files = match envelope::unwrap(&mut lines) {
        Some(wrapper) => envelope::sections(&mut lines, wrapper)?,
        None => unified::sections(Lines::new(text))?,
    };
    Ok(Patch { files, size: text.len() })
}
