//! The matching lines of one file, with the lines around them. A file is read in pieces; a line that is longer than the buffer's
//! limit ends the search of its file.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use crate::cancel::Cancel;
use crate::error::{ToolError, quoted};
use crate::read::{MAX_WHOLE, read_start, read_whole};
use crate::text::{Encoding, detect};

/// The most memory of a search: the longest line, and those around it.
const MAX_BUFFER: usize = 16 * 1024 * 1024;

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
        Self { matcher, searcher, cancel, stop }
    }

    /// Whether no other file is to be searched.
    pub(super) fn is_stopped(&self) -> bool {
        is_stopped(self.cancel, self.stop)
    }

    /// Passes the lines of a file to `take`, until it returns false. False where the file is not text.
    pub(super) fn file(
        &mut self,
        file: &mut File,
        path: &str,
        take: impl FnMut(Line<'_>) -> bool,
    ) -> Result<bool, ToolError> {
        let Self { matcher, searcher, cancel, stop } = self;
        let sink = Lines { take };
        let start = read_start(file, path)?;
        let Some(encoding) = detect(&start) else { return Ok(false) };
        let mark = u64::try_from(encoding.mark().len()).unwrap_or(0);
        let searched = match encoding {
            Encoding::Utf8 { .. } => {
                let mut start = Cursor::new(start);
                start.set_position(mark);
                searcher.search_reader(
                    &*matcher,
                    start.chain(Stopping { file, cancel, stop }),
                    sink,
                )
            }
            Encoding::Utf16 { .. } => {
                let bytes = read_whole(start, file, path, cancel, MAX_WHOLE)?;
                searcher.search_slice(&*matcher, encoding.decode_lossy(&bytes).as_bytes(), sink)
            }
        };
        searched.map(|()| true).map_err(|error| {
            ToolError::new(format!("`{}` could not be searched: {error}", quoted(path)))
        })
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
