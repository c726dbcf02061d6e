//! The marks of a stream of events by which it is resumed: the id of the last whole event, and the pause that the server wants.
//!
//! It must never read the data of an event.

use std::time::Duration;

/// The longest line that may be a mark.
const MAX_LINE: usize = 1_024;
/// The pause where a server wants none, and the longest.
const PAUSE_MS: u64 = 1_000;
const MAX_PAUSE_MS: u64 = 30_000;

/// The marks so far.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    line: Vec<u8>,
    /// The id of the event under way.
    next: Option<String>,
    last: Option<String>,
    retry_ms: Option<u64>,
}

impl Marks {
    /// Reads the next bytes of the stream.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(self.line.len()).min(part.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or_default());
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.end_line(&line);
            }
        }
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            if let Some(id) = self.next.take() {
                self.last = Some(id);
            }
            return;
        }
        let value = |name: &[u8]| {
            let value = line.strip_prefix(name)?;
            std::str::from_utf8(value.strip_prefix(b" ").unwrap_or(value)).ok()
        };
        if let Some(id) = value(b"id:") {
            let is_header = id.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            self.next = is_header.then(|| id.to_owned()).or(self.next.take());
        } else if let Some(ms) = value(b"retry:").and_then(|text| text.parse().ok()) {
            self.retry_ms = Some(ms);
        }
    }

    /// The end of a stream: what began and did not end is read again.
    pub(crate) fn cut(&mut self) {
        self.line.clear();
        self.next = None;
    }

    /// The id of the last whole event; `None` where the stream cannot be resumed.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref().filter(|id| !id.is_empty())
    }

    /// How long to wait before the stream is resumed.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.retry_ms.unwrap_or(PAUSE_MS).min(MAX_PAUSE_MS))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Marks;

    #[test]
    fn the_last_whole_event_counts_however_the_bytes_are_cut() {
        let text = b"id: 1\ndata: id: 7\n\nretry: 50\r\nid:2\r\ndata: x\r\n\r\nid: 3\ndata: cut";
        for size in 1..text.len() {
            let mut marks = Marks::default();
            text.chunks(size).for_each(|piece| marks.feed(piece));
            marks.cut();
            assert_eq!(marks.last(), Some("2"), "{size}");
            assert_eq!(marks.pause(), Duration::from_millis(50));
        }
    }

    #[test]
    fn a_stream_without_ids_cannot_be_resumed_and_a_long_line_is_no_mark() {
        let mut marks = Marks::default();
        marks.feed(b"data: x\n\nid: \xff\n\nretry: soon\n\n");
        marks.feed(format!("data: {}\n\n", "x".repeat(5_000)).as_bytes());
        assert_eq!((marks.last(), marks.pause()), (None, Duration::from_secs(1)));
        marks.feed(b"id: 9\n\nid:\n\nretry: 99999999\n\n");
        assert_eq!((marks.last(), marks.pause()), (None, Duration::from_secs(30)));
    }
}
