//! Reads a file for a model. It must never hold more of a text than a result has.

use std::fs::File;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::image::Kind;
use super::window::{Collected, Window};
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted};
use crate::output::{Block, Output};
use crate::params::{ReadParams, count};
use crate::text::{Encoding, MAX_BYTES, MAX_LINES, TruncatedBy, Truncation, detect, format_size};
use crate::workspace::Workspace;

/// Bytes by which a file's kind is known.
pub(crate) const START: usize = 8 * 1024;
const PIECE: usize = 256 * 1024;
/// The most bytes of a text through which lines are counted.
const MAX_SCANNED: u64 = 1024 * 1024 * 1024;
/// The most bytes of a text that is held whole: UTF-16, or a file to edit.
pub(crate) const MAX_WHOLE: u64 = 10 * 1024 * 1024;
/// The largest image, in base64: what providers accept.
const MAX_IMAGE: u64 = 5 * 1024 * 1024;
/// The longest side of an image.
const MAX_SIDE: u32 = 2_000;

/// Reads a text from a line on, or an image.
pub(crate) fn read(
    workspace: &Workspace,
    params: &ReadParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let path = &params.path;
    let opened = workspace.open_to_read(path)?;
    if opened.is_directory() {
        return Err(ToolError::new(format!(
            "`{}` is a directory; use `ls` to list it",
            quoted(path)
        )));
    }
    let mut file = opened.file(path)?;
    let start = read_start(&mut file, path)?;
    if let Some(kind) = Kind::of(&start) {
        return image(kind, start, &mut file, opened.size(), path, cancel);
    }
    let Some(encoding) = detect(&start) else {
        let size = format_size(opened.size());
        return Ok(Output::text(format!(
            "[Binary file, {size}: it is not text, and not an image that can be shown]"
        )));
    };
    if opened.size() > MAX_SCANNED {
        return Err(too_large(path, opened.size(), MAX_SCANNED));
    }
    let first = params.offset.map_or(0, |offset| count(offset).saturating_sub(1));
    let mut window = Window::new(first, params.limit.map(count));
    match encoding {
        Encoding::Utf8 { .. } => {
            window.feed(start.strip_prefix(encoding.mark()).unwrap_or(&start));
            each_piece(&mut file, path, cancel, MAX_SCANNED, |piece| window.feed(piece))?;
        }
        Encoding::Utf16 { .. } => {
            let bytes = read_whole(start, &mut file, path, cancel, MAX_WHOLE)?;
            window.feed(encoding.decode_lossy(&bytes).as_bytes());
        }
    }
    text(first, params, window.finish())
}

/// The result with pi's sentences on how to go on.
fn text(first: usize, params: &ReadParams, lines: Collected) -> Result<Output, ToolError> {
    let Collected { text, lines: shown, full, total_lines, selected_lines, selected_bytes } = lines;
    if first >= total_lines {
        let offset = first + 1;
        return Err(ToolError::new(format!(
            "Offset {offset} is beyond end of file ({total_lines} lines total)"
        )));
    }
    if let Some(by) = full {
        let (from, to) = (first + 1, first + shown);
        let limit = match by {
            TruncatedBy::Lines => String::new(),
            TruncatedBy::Bytes => " (50.0KB limit)".to_owned(),
        };
        let next = to + 1;
        let note = format!(
            "\n\n[Showing lines {from}-{to} of {total_lines}{limit}. Use offset={next} to continue.]"
        );
        let truncation = Truncation {
            truncated: true,
            truncated_by: by,
            total_lines: selected_lines,
            total_bytes: selected_bytes,
            output_lines: shown,
            output_bytes: text.len(),
            last_line_partial: false,
            first_line_exceeds_limit: false,
            max_lines: u64::try_from(MAX_LINES).unwrap_or(u64::MAX),
            max_bytes: MAX_BYTES,
            content: text,
        };
        let details = json!({ "truncation": truncation });
        return Ok(
            Output::text(format!("{}{note}", truncation.content)).with_details(Some(details))
        );
    }
    let next = first + selected_lines;
    if params.limit.is_some() && next < total_lines {
        let remaining = total_lines - next;
        let next = next + 1;
        return Ok(Output::text(format!(
            "{text}\n\n[{remaining} more lines in file. Use offset={next} to continue.]"
        )));
    }
    Ok(Output::text(text))
}

fn image(
    kind: Kind,
    start: Vec<u8>,
    file: &mut File,
    size: u64,
    path: &str,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let mime_type = kind.mime_type();
    let path_quoted = quoted(path);
    let most = MAX_IMAGE / 4 * 3;
    if size > most {
        let (size, most) = (format_size(size), format_size(most));
        return Err(ToolError::new(format!(
            "the image `{path_quoted}` ({mime_type}) has {size}, and at most {most} can be sent; make it smaller"
        )));
    }
    let bytes = read_whole(start, file, path, cancel, most)?;
    let Some((width, height)) = kind.dimensions(&bytes) else {
        return Ok(Output::text(format!(
            "[Damaged image ({mime_type}), {}: it is not shown]",
            format_size(size)
        )));
    };
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(ToolError::new(format!(
            "the image `{path_quoted}` ({mime_type}) has {width} x {height} pixels, and at most {MAX_SIDE} on a side can be sent; \
             make it smaller"
        )));
    }
    let note = Block::Text { text: format!("Read image file [{mime_type}]") };
    let image = Block::Image { data: STANDARD.encode(&bytes), mime_type };
    Ok(Output { content: vec![note, image], details: None })
}

/// The first bytes of a file.
pub(crate) fn read_start(file: &mut File, path: &str) -> Result<Vec<u8>, ToolError> {
    // With this room a short file is one read, and its end another one.
    let mut start = Vec::with_capacity(START);
    let most = u64::try_from(START).unwrap_or(0);
    file.take(most).read_to_end(&mut start).map_err(|error| unreadable(path, &error))?;
    Ok(start)
}

/// A whole file, of which `start` was read.
pub(crate) fn read_whole(
    start: Vec<u8>,
    file: &mut File,
    path: &str,
    cancel: &Cancel,
    most: u64,
) -> Result<Vec<u8>, ToolError> {
    let mut bytes = start;
    each_piece(file, path, cancel, most, |piece| bytes.extend_from_slice(piece))?;
    Ok(bytes)
}

fn each_piece(
    file: &mut File,
    path: &str,
    cancel: &Cancel,
    most: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<(), ToolError> {
    let mut piece = vec![0; PIECE];
    let mut total = 0;
    loop {
        cancel.check()?;
        let length = match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(path, &error)),
        };
        // A file that grows while it is read ends here.
        total += u64::try_from(length).unwrap_or(u64::MAX);
        if total > most {
            return Err(too_large(path, total, most));
        }
        take(piece.get(..length).unwrap_or_default());
    }
}

fn too_large(path: &str, size: u64, most: u64) -> ToolError {
    let (path, size, most) = (quoted(path), format_size(size), format_size(most));
    ToolError::new(format!("`{path}` has {size} or more, and at most {most} can be read"))
}

fn unreadable(path: &str, error: &std::io::Error) -> ToolError {
    ToolError::new(format!("`{}` could not be read: {error}", quoted(path)))
}
