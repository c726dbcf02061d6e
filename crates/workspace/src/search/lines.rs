//! The matching lines of one file, with the lines around them. A file is read in pieces; a line that is longer than the buffer's
//! limit ends the search of its file.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use crate::cancel::Cancel;
use crate::error::{ToolError, quoted};
use crate::read::{MAX_WHOLE, START, read_whole};
use crate::text::{Encoding, detect};

/// The most memory of a search: the longest line, and those around it.
const MAX_BUFFER: usize = 16 * 1024 * 1024;
/// A file that is not larger is read at once, up to its size: most files are, and two reads less are much of what one costs.
const AT_ONCE: usize = 64 * 1024;

/// A line of a file, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'l> {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) text: &'l [u8],
    /// Else it is around one that matches.
    pub(super) is_match: bool,
}

/// An expression, and the buffers with which it is searched.
pub(super) struct Search<'c> {
    matcher: RegexMatcher,
    searcher: Searcher,
    /// The start of a file.
    buffer: Vec<u8>,
    cancel: &'c Cancel,
    /// Set when nobody reads what is found any more.
    stop: &'c AtomicBool,
}

impl<'c> Search<'c> {
    pub(super) fn new(
        matcher: RegexMatcher,
        context: usize,
        cancel: &'c Cancel,
        stop: &'c AtomicBool,
    ) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .bom_sniffing(false)
            .heap_limit(Some(MAX_BUFFER))
            .build();
        Self { matcher, searcher, buffer: Vec::with_capacity(AT_ONCE), cancel, stop }
    }

    /// Whether no other file is to be searched.
    pub(super) fn is_stopped(&self) -> bool {
        is_stopped(self.cancel, self.stop)
    }

    /// Passes the lines of a file of some size to `take`, until it returns false. False where the file is not text.
    pub(super) fn file(
        &mut self,
        file: &mut File,
        size: u64,
        path: &str,
        take: impl FnMut(Line<'_>) -> bool,
    ) -> Result<bool, ToolError> {
        let Self { matcher, searcher, buffer, cancel, stop } = self;
        let sink = Lines { take };
        let failed =
            |error| ToolError::new(format!("`{}` could not be searched: {error}", quoted(path)));
        let at_once = u64::try_from(AT_ONCE).unwrap_or(0);
        buffer.clear();
        file.by_ref().take(size.min(at_once)).read_to_end(buffer).map_err(failed)?;
        let Some(encoding) = detect(buffer.get(..START).unwrap_or(buffer)) else {
            return Ok(false);
        };
        let text = buffer.get(encoding.mark().len()..).unwrap_or_default();
        // What follows a zero is not text.
        let end = memchr::memchr(0, text);
        let searched = match encoding {
            Encoding::Utf8 { .. } if size <= at_once || end.is_some() => {
                let text = text.get(..end.unwrap_or(text.len())).unwrap_or(text);
                searcher.search_slice(&*matcher, text, sink)
            }
            Encoding::Utf8 { .. } => {
                searcher.search_reader(&*matcher, text.chain(Stopping { file, cancel, stop }), sink)
            }
            Encoding::Utf16 { .. } => {
                let bytes = read_whole(buffer.clone(), file, path, cancel, MAX_WHOLE)?;
                searcher.search_slice(&*matcher, encoding.decode_lossy(&bytes).as_bytes(), sink)
            }
        };
        searched.map(|()| true).map_err(failed)
    }
}

/// A file that ends when the search is to end.
struct Stopping<'f> {
    file: &'f mut File,
    cancel: &'f Cancel,
    stop: &'f AtomicBool,
}

fn is_stopped(cancel: &Cancel, stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed) || cancel.is_cancelled() || cancel.is_expired()
}

impl Read for Stopping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if is_stopped(self.cancel, self.stop) {
            return Ok(0);
        }
        self.file.read(buffer)
    }
}

struct Lines<F> {
    take: F,
}

impl<F: FnMut(Line<'_>) -> bool> Lines<F> {
    fn line(&mut self, number: Option<u64>, text: &[u8], is_match: bool) -> bool {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        (self.take)(Line { number: number.unwrap_or(0), text, is_match })
    }
}

impl<F: FnMut(Line<'_>) -> bool> Sink for Lines<F> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.line(found.line_number(), found.bytes(), true))
    }

    fn context(&mut self, _searcher: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line(found.line_number(), found.bytes(), false))
    }
}
