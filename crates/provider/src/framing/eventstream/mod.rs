//! AWS's binary event stream: parses bytes into frames, with both checksums verified (docs/rules/wire/bedrock.md#frames).
//!
//! Linear in the bytes for any chunking, and without a copy for a frame that is whole in one chunk. It must never emit a
//! frame before its last byte was checked, nor read a payload except an exception's.

mod exception;
mod headers;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use exception::exception_failure;
pub(crate) use headers::Headers;

use crate::framing::sse::{EVENT_COUNT_LIMIT, EVENT_LIMIT, STREAM_LIMIT};
use crate::{Failure, Flow};
use model::FailureKind;

/// Total length, length of the headers, and the checksum of the two.
const PRELUDE: usize = 12;
/// A frame without headers and payload: its prelude and its checksum.
const LEAST: usize = PRELUDE + 4;
/// A buffer larger than this is freed after its frame.
const REUSED_CAPACITY: usize = 1 << 20;

/// One whole frame with valid checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its headers.
    pub headers: Headers<'a>,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Receives the frames.
pub(crate) type OnFrame<'a> = &'a mut dyn FnMut(&Frame<'_>) -> Result<Flow, Failure>;

/// An incremental parser of one event stream.
#[derive(Debug, Default)]
pub struct FrameParser {
    /// The frame that the last chunk ended in.
    partial: Vec<u8>,
    bytes: u64,
    frames: u64,
    ended: bool,
}

impl FrameParser {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes and emits the frames they complete. After [`Flow::End`] everything is ignored.
    ///
    /// # Errors
    /// `frame_damaged` where a checksum is wrong, `malformed_frame` where the format is invalid, `event_too_large`,
    /// `stream_too_large` or `too_many_events` at the limits, and any failure of `on_frame`.
    pub fn feed(&mut self, chunk: &[u8], on_frame: OnFrame<'_>) -> Result<Flow, Failure> {
        if self.ended {
            return Ok(Flow::End);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if self.bytes > STREAM_LIMIT {
            return Err(over("stream_too_large", "the response is longer than 256 MiB"));
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            let flow = if self.partial.is_empty() {
                match first(rest)? {
                    Some(frame) => {
                        rest = rest.get(frame.len()..).unwrap_or_default();
                        self.take(frame, on_frame)?
                    }
                    None => {
                        self.partial.extend_from_slice(rest);
                        break;
                    }
                }
            } else {
                rest = self.fill(rest)?;
                let mut partial = std::mem::take(&mut self.partial);
                let Some(frame) = first(&partial)? else {
                    self.partial = partial;
                    break;
                };
                let flow = self.take(frame, on_frame)?;
                partial.clear();
                if partial.capacity() <= REUSED_CAPACITY {
                    self.partial = partial;
                }
                flow
            };
            if flow == Flow::End {
                self.ended = true;
                return Ok(Flow::End);
            }
        }
        Ok(Flow::More)
    }

    /// Whether the bytes so far end in the middle of a frame.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Adds bytes of `chunk` to the unfinished frame; returns the rest of the chunk.
    fn fill<'a>(&mut self, chunk: &'a [u8]) -> Result<&'a [u8], Failure> {
        // First the prelude: its checksum is verified before its length is used.
        let rest = self.fill_to(PRELUDE, chunk);
        Ok(match prelude(&self.partial)? {
            Some((total, _)) => self.fill_to(total, rest),
            None => rest,
        })
    }

    fn fill_to<'a>(&mut self, length: usize, chunk: &'a [u8]) -> &'a [u8] {
        let missing = length.saturating_sub(self.partial.len()).min(chunk.len());
        let (head, tail) = chunk.split_at_checked(missing).unwrap_or((chunk, &[]));
        self.partial.extend_from_slice(head);
        tail
    }

    fn take(&mut self, bytes: &[u8], on_frame: OnFrame<'_>) -> Result<Flow, Failure> {
        self.frames += 1;
        if self.frames > EVENT_COUNT_LIMIT {
            return Err(over("too_many_events", "the response has more than 2,000,000 events"));
        }
        on_frame(&frame(bytes)?)
    }
}

/// The first frame of `bytes`; `None` where it is not whole.
fn first(bytes: &[u8]) -> Result<Option<&[u8]>, Failure> {
    Ok(prelude(bytes)?.and_then(|(total, _)| bytes.get(..total)))
}

/// The length of the frame that `bytes` begin with, and of its headers; `None` where the prelude is not whole.
fn prelude(bytes: &[u8]) -> Result<Option<(usize, usize)>, Failure> {
    let Some((prelude, _)) = bytes.split_at_checked(PRELUDE) else { return Ok(None) };
    let numbers = (number(prelude, 0), number(prelude, 4), number(prelude, 8));
    let (Some(total), Some(headers), Some(checksum)) = numbers else { return Ok(None) };
    if crc32fast::hash(prelude.get(..8).unwrap_or_default()) != checksum {
        return Err(damaged());
    }
    let size = |length: u32| usize::try_from(length).unwrap_or(usize::MAX);
    let (total, headers) = (size(total), size(headers));
    if total > EVENT_LIMIT {
        return Err(over("event_too_large", "one event of the response is longer than 16 MiB"));
    }
    if total < LEAST || headers > total - LEAST {
        return Err(malformed("a length"));
    }
    Ok(Some((total, headers)))
}

/// Reads a whole frame.
fn frame(bytes: &[u8]) -> Result<Frame<'_>, Failure> {
    let lengths = prelude(bytes)?;
    let parts = lengths.and_then(|(total, headers)| {
        let covered = bytes.get(..total - 4)?;
        let (headers, payload) = covered.get(PRELUDE..)?.split_at_checked(headers)?;
        Some((covered, number(bytes, total - 4)?, headers, payload))
    });
    let Some((covered, checksum, headers, payload)) = parts else {
        return Err(malformed("a length"));
    };
    if crc32fast::hash(covered) != checksum {
        return Err(damaged());
    }
    let headers = Headers::read(headers).ok_or_else(|| malformed("a header"))?;
    Ok(Frame { headers, payload })
}

/// The big-endian number at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The failure of bytes changed in transit; it is retryable.
fn damaged() -> Failure {
    Failure::new(
        FailureKind::Network,
        "frame_damaged",
        "a checksum of the response is wrong, so its bytes were changed on their way; try again",
    )
}

/// The failure of an invalid frame with valid checksums: the sender's error.
fn malformed(what: &str) -> Failure {
    let message = format!("the response has {what} that is not of the event-stream format");
    Failure::new(FailureKind::ServerError, "malformed_frame", message)
}

/// Not retryable, as with a whole answer that is too large: a retry would cost as much and exceed the same limit.
fn over(code: &str, message: &str) -> Failure {
    Failure { should_retry: Some(false), ..Failure::new(FailureKind::ServerError, code, message) }
}
