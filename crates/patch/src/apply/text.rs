//! The lines of a file, with what its bytes are besides: a byte order mark, and a last line without a newline.

/// A line break in a file that is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// As the patch has it.
    Verbatim,
    Newline,
    ReturnNewline,
}

/// The mark at the beginning of a UTF-8 file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file, by lines. The mark is no part of the first line.
#[derive(Debug, Clone)]
pub(super) struct Text<'t> {
    bytes: &'t [u8],
    has_mark: bool,
    /// Where each line begins, and the end of the last one behind its newline.
    starts: Vec<u32>,
    is_terminated: bool,
}

impl<'t> Text<'t> {
    /// None if the file is larger than 4 GiB.
    pub(super) fn new(bytes: &'t [u8]) -> Option<Self> {
        let length = u32::try_from(bytes.len()).ok()?;
        let has_mark = bytes.starts_with(BYTE_ORDER_MARK);
        let mut starts = vec![if has_mark { 3 } else { 0 }];
        let after_newline = |at: usize| u32::try_from(at + 1).unwrap_or(length);
        starts.extend(memchr::memchr_iter(b'\n', bytes).map(after_newline));
        let is_terminated = starts.last() == Some(&length);
        if !is_terminated {
            starts.push(length);
        }
        Some(Self { bytes, has_mark, starts, is_terminated })
    }

    /// The number of lines.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn has_mark(&self) -> bool {
        self.has_mark
    }

    /// Whether the last line has a newline, or there is no line.
    pub(super) fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// A line without its newline, with its carriage return.
    pub(super) fn line(&self, index: usize) -> &'t [u8] {
        let line = self.lines_between(index, index + 1);
        line.strip_suffix(b"\n").unwrap_or(line)
    }

    /// The bytes of the lines `from..to`.
    pub(super) fn lines_between(&self, from: usize, to: usize) -> &'t [u8] {
        let at = |index: usize| self.starts.get(index).and_then(|at| usize::try_from(*at).ok());
        match (at(from), at(to)) {
            (Some(start), Some(end)) => self.bytes.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The line break of a line, or of the line before it where it has none.
    pub(super) fn ending_at(&self, index: usize) -> Ending {
        let last = self.len().saturating_sub(if self.is_terminated { 1 } else { 2 });
        if self.line(index.min(last)).ends_with(b"\r") {
            Ending::ReturnNewline
        } else {
            Ending::Newline
        }
    }
}
