//! Decoding over every recorded case and every known oddity; encoding by whole bodies.

mod decoding;
mod encoding;
mod recordings;

use crate::framing::eventstream::{Frame, FrameParser};
use crate::framing::sse::StreamReader;
use crate::{Completion, Decoder, Delta, DeltaSink, Failure, Flow, Framing, recorded};
use turn::{Accumulated, Accumulator};

use super::BedrockWire;
use super::decode::ConverseDecoder;

/// A decoded response, and its visible deltas.
#[derive(Default)]
pub(super) struct Decoded {
    accumulator: Accumulator,
    text: String,
    reasoning: String,
}

impl DeltaSink for Decoded {
    fn delta(&mut self, delta: Delta<'_>) {
        match &delta {
            Delta::Text { text, .. } => self.text.push_str(text),
            Delta::Thinking { text, .. } => self.reasoning.push_str(text),
            _ => {}
        }
        self.accumulator.apply(&delta);
    }
}

pub(super) type Outcome = (Accumulated, Result<Completion, Failure>);

fn ended(decoded: Decoded, ended: Result<Completion, Failure>) -> Outcome {
    let (text, reasoning) = (decoded.text, decoded.reasoning);
    let accumulated = decoded.accumulator.finish();
    // The shown text equals the stored one.
    assert_eq!(joined(&accumulated, "text"), text);
    assert_eq!(joined(&accumulated, "thinking"), reasoning);
    (accumulated, ended)
}

/// The texts of one kind of block.
pub(super) fn joined(accumulated: &Accumulated, kind: &str) -> String {
    use model::Block;
    let texts = accumulated.blocks.iter().map(|block| match block {
        Block::Text { text, .. } if kind == "text" => text.as_str(),
        Block::Thinking { thinking, .. } if kind == "thinking" => thinking.as_str(),
        _ => "",
    });
    texts.collect()
}

/// Decodes bytes as the transport does, in these chunks.
pub(super) fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut decoded = Decoded::default();
    let mut reader =
        StreamReader::framed(Framing::AwsEventStream, Box::new(ConverseDecoder::default()));
    for chunk in chunks {
        match reader.feed(chunk, &mut decoded) {
            Ok(Flow::More) => {}
            Ok(Flow::End) => break,
            Err(failure) => return ended(decoded, Err(failure)),
        }
    }
    let completion = reader.end(&mut decoded);
    ended(decoded, completion)
}

/// Decodes events: names and payloads.
pub(super) fn stream(events: &[(&str, &str)]) -> Outcome {
    let mut decoded = Decoded::default();
    let events = events.iter().map(|(name, payload)| (*name, payload.as_bytes()));
    let completion = recorded::decode(ConverseDecoder::default(), events, &mut decoded);
    ended(decoded, completion)
}

pub(super) fn unary(body: &[u8]) -> Outcome {
    let mut decoded = Decoded::default();
    let completion = ConverseDecoder::default().unary(body, &mut decoded);
    ended(decoded, completion)
}

/// The offsets at which the frames of a whole stream end, with the name of each.
pub(super) fn frames(body: &[u8]) -> Vec<(String, usize)> {
    let mut parser = FrameParser::new();
    let mut ends = Vec::new();
    for (position, byte) in body.chunks(1).enumerate() {
        parser
            .feed(byte, &mut |frame: &Frame<'_>| {
                ends.push((frame.headers.event_type.to_owned(), position + 1));
                Ok(Flow::More)
            })
            .unwrap();
    }
    ends
}
