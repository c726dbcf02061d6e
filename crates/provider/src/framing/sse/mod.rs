//! Server-sent events: parses bytes into events, by the rules of docs/rules/wire/streams.md#sse-parsing.
//!
//! Linear in the bytes for any chunking, and without a copy for an event that is whole in one chunk. It must never read the
//! data.

mod reader;
#[cfg(test)]
mod tests;

pub use reader::StreamReader;

use std::mem;

use memchr::memchr2;

use crate::{Failure, Flow};
use model::FailureKind;

/// The maximum bytes of one line or one event.
pub(crate) const EVENT_LIMIT: usize = 16 << 20;
/// The maximum bytes of one stream.
pub(crate) const STREAM_LIMIT: u64 = 256 << 20;
/// The maximum events of one stream.
pub(crate) const EVENT_COUNT_LIMIT: u64 = 2_000_000;

/// A buffer larger than this is freed after its event, so that one large event does not occupy memory.
const RETAINED_CAPACITY: usize = 1 << 20;
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// An event at the end of the stream without its blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEvent {
    /// Its name; empty where it had none.
    pub name: String,
    /// Its data.
    pub data: Vec<u8>,
}

/// Receives the events: the name (empty where there was none) and the data.
pub(crate) type OnEvent<'a> = &'a mut dyn FnMut(&str, &[u8]) -> Result<Flow, Failure>;

/// An incremental parser of one event stream.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The line that the last chunk ended in.
    line: Vec<u8>,
    /// The open event's name, if it was in an earlier chunk.
    name: Vec<u8>,
    /// The open event's data from `data_start` on, if it was in an earlier chunk or in several lines.
    data: Vec<u8>,
    data_start: usize,
    has_data: bool,
    /// The last line ended with CR: an LF that follows belongs to it.
    skip_line_feed: bool,
    /// How many bytes of a byte order mark were read.
    mark: usize,
    mark_done: bool,
    bytes: u64,
    events: u64,
    ended: bool,
}

/// The part of the open event in the current chunk.
#[derive(Default)]
struct InChunk<'a> {
    name: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
}

enum Field<'a> {
    Data(&'a [u8]),
    Name(&'a [u8]),
    Ignored,
}

impl SseParser {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes and emits the events they complete. After [`Flow::End`] everything is ignored.
    ///
    /// # Errors
    /// `event_too_large`, `stream_too_large` or `too_many_events` at the limits, and any failure of `on_event`.
    pub fn feed(&mut self, chunk: &[u8], on_event: OnEvent<'_>) -> Result<Flow, Failure> {
        if self.ended {
            return Ok(Flow::End);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if self.bytes > STREAM_LIMIT {
            return Err(over("stream_too_large", "the response is longer than 256 MiB"));
        }
        let mut rest = self.skip_mark(chunk);
        let mut open = InChunk::default();
        loop {
            if self.skip_line_feed {
                match rest.split_first() {
                    None => break,
                    Some((b'\n', tail)) => rest = tail,
                    Some(_) => {}
                }
                self.skip_line_feed = false;
            }
            let Some((line, end, tail)) = memchr2(b'\n', b'\r', rest).and_then(|at| {
                let (line, tail) = rest.split_at_checked(at)?;
                let (end, tail) = tail.split_first()?;
                Some((line, *end, tail))
            }) else {
                break;
            };
            rest = tail;
            self.skip_line_feed = end == b'\r';
            if !self.line.is_empty() {
                self.end_carried_line(line, &mut open)?;
            } else if !line.is_empty() {
                self.end_line(line, &mut open)?;
            } else if self.dispatch(mem::take(&mut open), on_event)? == Flow::End {
                self.ended = true;
                return Ok(Flow::End);
            }
        }
        self.carry(rest)?;
        self.buffer_rest(&open);
        Ok(Flow::More)
    }

    /// The end of the stream: the event without its blank line, if any. It counts only if it parses and is the terminal event
    /// of the protocol; [`StreamReader::end`] checks that.
    #[must_use]
    pub fn finish(&mut self) -> Option<PendingEvent> {
        if self.ended {
            return None;
        }
        self.ended = true;
        let mut open = InChunk::default();
        if !self.line.is_empty() && self.end_carried_line(b"", &mut open).is_err() {
            return None;
        }
        self.buffer_rest(&open);
        self.has_data.then(|| PendingEvent {
            name: String::from_utf8_lossy(&self.name).into_owned(),
            data: self.data.get(self.data_start..).unwrap_or_default().to_vec(),
        })
    }

    /// Drops the byte order mark at the start of a stream, however it is split.
    fn skip_mark<'a>(&mut self, mut chunk: &'a [u8]) -> &'a [u8] {
        while !self.mark_done {
            let Some((byte, tail)) = chunk.split_first() else { break };
            if BYTE_ORDER_MARK.get(self.mark) == Some(byte) {
                chunk = tail;
                self.mark += 1;
                self.mark_done = self.mark == BYTE_ORDER_MARK.len();
            } else {
                self.line.extend_from_slice(BYTE_ORDER_MARK.get(..self.mark).unwrap_or_default());
                self.mark_done = true;
            }
        }
        chunk
    }

    /// Reads a line that is whole in the chunk.
    fn end_line<'a>(&mut self, line: &'a [u8], open: &mut InChunk<'a>) -> Result<(), Failure> {
        match field(line) {
            Field::Data(value) if !self.has_data && open.data.is_none() => {
                if value.len() > EVENT_LIMIT {
                    return Err(event_too_large());
                }
                open.data = Some(value);
                Ok(())
            }
            Field::Data(value) => {
                self.buffer_rest(open);
                open.data = None;
                self.append_data(value)
            }
            Field::Name(value) => {
                open.name = Some(value);
                Ok(())
            }
            Field::Ignored => Ok(()),
        }
    }

    /// Reads the end of a line that began in an earlier chunk.
    fn end_carried_line(&mut self, end: &[u8], open: &mut InChunk<'_>) -> Result<(), Failure> {
        self.carry(end)?;
        let mut line = mem::take(&mut self.line);
        match field(&line) {
            Field::Data(value) if !self.has_data && open.data.is_none() => {
                // The buffer of the line becomes the event's: a large event in many chunks is copied once.
                self.data_start = line.len() - value.len();
                mem::swap(&mut self.data, &mut line);
                self.has_data = true;
            }
            Field::Data(value) => {
                self.buffer_rest(open);
                open.data = None;
                self.append_data(value)?;
            }
            Field::Name(value) => {
                open.name = None;
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            Field::Ignored => {}
        }
        line.clear();
        self.line = line;
        Ok(())
    }

    fn append_data(&mut self, value: &[u8]) -> Result<(), Failure> {
        if self.data.len() + value.len() >= EVENT_LIMIT {
            return Err(event_too_large());
        }
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn carry(&mut self, part: &[u8]) -> Result<(), Failure> {
        if self.line.len() + part.len() > EVENT_LIMIT {
            return Err(event_too_large());
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Copies the part of the open event in the chunk, because the chunk ends before the event.
    fn buffer_rest(&mut self, open: &InChunk<'_>) {
        if let Some(name) = open.name {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        if let Some(data) = open.data {
            self.data.clear();
            self.data.extend_from_slice(data);
            self.data_start = 0;
            self.has_data = true;
        }
    }

    /// Reads a blank line: the event is whole. Without data it is no event.
    fn dispatch(&mut self, open: InChunk<'_>, on_event: OnEvent<'_>) -> Result<Flow, Failure> {
        let buffered = if self.has_data { self.data.get(self.data_start..) } else { None };
        let flow = match open.data.or(buffered) {
            None => Flow::More,
            Some(data) => {
                self.events += 1;
                if self.events > EVENT_COUNT_LIMIT {
                    return Err(over(
                        "too_many_events",
                        "the response has more than 2,000,000 events",
                    ));
                }
                let name = open.name.unwrap_or(&self.name);
                on_event(std::str::from_utf8(name).unwrap_or("\u{fffd}"), data)?
            }
        };
        self.name.clear();
        self.data.clear();
        self.data_start = 0;
        self.has_data = false;
        if self.data.capacity() > RETAINED_CAPACITY {
            self.data = Vec::new();
        }
        Ok(flow)
    }
}

/// Splits a line into its field and value. Comments, `id`, `retry` and unknown fields are ignored.
fn field(line: &[u8]) -> Field<'_> {
    fn value(rest: &[u8]) -> Option<&[u8]> {
        match rest.split_first() {
            None => Some(rest),
            Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
            Some(_) => None,
        }
    }
    if let Some(value) = line.strip_prefix(b"data").and_then(value) {
        Field::Data(value)
    } else if let Some(value) = line.strip_prefix(b"event").and_then(value) {
        Field::Name(value)
    } else {
        Field::Ignored
    }
}

fn event_too_large() -> Failure {
    over("event_too_large", "one event of the response is longer than 16 MiB")
}

/// Not retryable, as with a whole answer that is too large: a retry would cost as much and exceed the same limit.
fn over(code: &str, message: &str) -> Failure {
    Failure { should_retry: Some(false), ..Failure::new(FailureKind::ServerError, code, message) }
}
