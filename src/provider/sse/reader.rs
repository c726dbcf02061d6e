//! One response: its bytes through the event parser into a decoder, up to the protocol's own end.
//!
//! Owns what the end of the bytes means. It must never read a socket.

use super::SseParser;
use crate::provider::{Completion, Decoder, DeltaSink, Failure, Flow};

/// The code of a failure over an event that cannot be understood. At the end of the stream such an event was cut.
pub const MALFORMED_EVENT: &str = "malformed_event";

/// Reads one streamed response.
pub struct StreamReader {
    parser: SseParser,
    decoder: Box<dyn Decoder>,
}

impl StreamReader {
    /// A reader at the start of a response.
    #[must_use]
    pub fn new(decoder: Box<dyn Decoder>) -> Self {
        Self { parser: SseParser::new(), decoder }
    }

    /// Takes the next bytes. After [`Flow::End`] nothing more is needed.
    ///
    /// # Errors
    /// Those of [`SseParser::feed`] and [`Decoder::event`].
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn DeltaSink) -> Result<Flow, Failure> {
        let decoder = &mut self.decoder;
        self.parser.feed(chunk, &mut |name, data| decoder.event(name, data, &mut *sink))
    }

    /// The bytes are over: by the terminal event, or because the socket ended. An event left without its blank line is
    /// still looked at, because some servers end so; it makes a success only where it is the terminal one (WIRE §9).
    ///
    /// # Errors
    /// Those of [`Decoder::event`] and [`Decoder::end`].
    pub fn end(mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        if let Some(event) = self.parser.finish() {
            match self.decoder.event(&event.name, &event.data, &mut *sink) {
                Ok(Flow::More | Flow::End) => {}
                Err(failure) if failure.code.as_deref() == Some(MALFORMED_EVENT) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.decoder.end(sink)
    }
}
