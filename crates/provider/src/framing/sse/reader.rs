//! Reads one response: its bytes through the parser of their framing into a decoder, up to the end that the protocol
//! defines.
//!
//! Owns the handling of the end of the bytes. It must never read a socket.

use super::SseParser;
use crate::framing::eventstream::{Frame, FrameParser, exception_failure};
use crate::wire::MALFORMED_EVENT;
use crate::{Completion, Decoder, DeltaSink, Failure, Flow, Framing};

/// Reads one streamed response.
pub struct StreamReader {
    parser: Parser,
    decoder: Box<dyn Decoder>,
}

enum Parser {
    EventSource(SseParser),
    AwsEventStream(FrameParser),
}

impl StreamReader {
    /// A reader at the start of a response of server-sent events.
    #[must_use]
    pub fn new(decoder: Box<dyn Decoder>) -> Self {
        Self::framed(Framing::EventSource, decoder)
    }

    /// A reader at the start of a response.
    #[must_use]
    pub fn framed(framing: Framing, decoder: Box<dyn Decoder>) -> Self {
        let parser = match framing {
            Framing::EventSource => Parser::EventSource(SseParser::new()),
            Framing::AwsEventStream => Parser::AwsEventStream(FrameParser::new()),
        };
        Self { parser, decoder }
    }

    /// Reads the next bytes. After [`Flow::End`] no more are needed.
    ///
    /// # Errors
    /// Those of [`SseParser::feed`] or [`FrameParser::feed`], of [`Decoder::event`], and an exception of the stream.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn DeltaSink) -> Result<Flow, Failure> {
        let decoder = &mut self.decoder;
        match &mut self.parser {
            Parser::EventSource(parser) => {
                parser.feed(chunk, &mut |name, data| decoder.event(name, data, &mut *sink))
            }
            Parser::AwsEventStream(parser) => parser.feed(chunk, &mut |frame: &Frame<'_>| {
                let Frame { headers, payload } = frame;
                match headers.message_type {
                    "event" => decoder.event(headers.event_type, payload, &mut *sink),
                    "exception" | "error" => Err(exception_failure(headers, payload)),
                    // An unknown kind of message, like an unknown event.
                    _ => Ok(Flow::More),
                }
            }),
        }
    }

    /// Ends the reading: by the terminal event, or because the socket ended. An event without its blank line is still read,
    /// because some servers end in this way; it makes a success only if it is the terminal one
    /// (docs/rules/wire/streams.md#sse-parsing). A cut binary frame is dropped.
    ///
    /// # Errors
    /// Those of [`Decoder::event`] and [`Decoder::end`].
    pub fn end(mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        if let Parser::EventSource(parser) = &mut self.parser
            && let Some(event) = parser.finish()
        {
            match self.decoder.event(&event.name, &event.data, &mut *sink) {
                Ok(Flow::More | Flow::End) => {}
                Err(failure) if failure.code.as_deref() == Some(MALFORMED_EVENT) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.decoder.end(sink)
    }
}
