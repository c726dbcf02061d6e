//! One response: its bytes through the parser of their framing into a decoder, up to the protocol's own end.
//!
//! Owns what the end of the bytes means. It must never read a socket.

use super::SseParser;
use crate::eventstream::{Frame, FrameParser, exception_failure};
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

    /// Takes the next bytes. After [`Flow::End`] nothing more is needed.
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
                    // A kind of message that is not known, as an unknown event.
                    _ => Ok(Flow::More),
                }
            }),
        }
    }

    /// The bytes are over: by the terminal event, or because the socket ended. An event left without its blank line is
    /// still looked at, because some servers end so; it makes a success only where it is the terminal one (docs/rules/wire/streams.md#sse-parsing). A
    /// binary frame that was cut is nothing.
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
