//! The frame parser against the format, for any chunking of the bytes.

use proptest::prelude::*;

use super::{Frame, FrameParser, Headers, exception_failure};
use crate::{Failure, Flow};
use model::FailureKind;

/// A parsed frame: its headers as text, and its payload.
type Seen = (String, Vec<u8>);

/// A frame of text headers.
pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(7);
        bytes.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    framed(&bytes, payload)
}

/// A frame with these headers and valid checksums.
fn framed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let mut out = length(headers.len() + payload.len() + 16).to_vec();
    out.extend_from_slice(&length(headers.len()));
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

/// An event of Bedrock.
pub(crate) fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.as_bytes())
}

fn parse_chunks<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Seen>, Result<bool, Failure>) {
    let mut parser = FrameParser::new();
    let mut seen = Vec::new();
    for chunk in chunks {
        let fed = parser.feed(chunk, &mut |frame: &Frame<'_>| {
            seen.push((format!("{:?}", frame.headers), frame.payload.to_vec()));
            Ok(Flow::More)
        });
        if let Err(failure) = fed {
            return (seen, Err(failure));
        }
    }
    (seen, Ok(parser.is_cut()))
}

fn code(outcome: &Result<bool, Failure>) -> (FailureKind, &str) {
    let failure = outcome.as_ref().unwrap_err();
    (failure.kind, failure.code.as_deref().unwrap())
}

fn stream() -> Vec<u8> {
    [
        event("messageStart", r#"{"role":"assistant"}"#),
        framed(&[], b""),
        event("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Grüße 🦀"}}"#),
    ]
    .concat()
}

#[test]
fn every_cut_gives_the_same_frames() {
    let stream = stream();
    let whole = parse_chunks([stream.as_slice()]);
    assert_eq!((whole.0.len(), &whole.1), (3, &Ok(false)));
    assert_eq!(whole.0[1], (format!("{:?}", Headers::default()), Vec::new()));
    assert_eq!(parse_chunks(stream.chunks(1)), whole);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(parse_chunks([head, tail]), whole, "cut at {cut}");
        let (seen, outcome) = parse_chunks([head]);
        assert_eq!(seen, whole.0[..seen.len()], "cut at {cut}");
        assert!(outcome.is_ok(), "cut at {cut}");
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let stream = event("messageStart", r#"{"role":"assistant"}"#);
    for bit in 0..stream.len() * 8 {
        let mut broken = stream.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        for size in [broken.len(), 1, 5] {
            let (seen, outcome) = parse_chunks(broken.chunks(size));
            assert_eq!(seen, [], "bit {bit}");
            assert_eq!(code(&outcome), (FailureKind::Network, "frame_damaged"), "bit {bit}");
        }
    }
}

#[test]
fn impossible_lengths_and_headers_are_malformed() {
    let prelude = |total: u32, headers: u32| {
        let mut out = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out.extend_from_slice(&[0; 64]);
        out
    };
    let malformed = (FailureKind::ServerError, "malformed_frame");
    for (total, headers) in [(0, 0), (15, 0), (16, 1), (40, 25), (40, u32::MAX)] {
        let bytes = prelude(total, headers);
        for size in [bytes.len(), 1] {
            let (seen, outcome) = parse_chunks(bytes.chunks(size));
            assert_eq!((seen, code(&outcome)), (vec![], malformed), "{total} {headers}");
        }
    }
    let broken: [&[u8]; 6] = [
        b"\x05ab",
        b"\x01a",
        b"\x01a\x0a",
        b"\x01a\x07\x00\x05b",
        b"\x01a\x07\x00\x01\xff",
        b"\x00\x07\x00\x01b",
    ];
    for headers in broken {
        let (seen, outcome) = parse_chunks([framed(headers, b"{}").as_slice()]);
        assert_eq!((seen, code(&outcome)), (vec![], malformed), "{headers:?}");
    }
}

#[test]
fn headers_of_every_type_are_skipped_and_the_first_of_a_name_counts() {
    let mut headers = Vec::new();
    for (kind, length) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
        headers.extend_from_slice(&[1, b'x', kind]);
        headers.extend(std::iter::repeat_n(0xff, length));
    }
    headers.extend_from_slice(b"\x01y\x06\x00\x02\xff\xfe");
    headers.extend_from_slice(b"\x0b:event-type\x07\x00\x05first");
    headers.extend_from_slice(b"\x0b:event-type\x07\x00\x06second");
    let bytes = framed(&headers, b"p");
    let mut names = Vec::new();
    FrameParser::new()
        .feed(&bytes, &mut |frame: &Frame<'_>| {
            names.push(frame.headers.event_type.to_owned());
            Ok(Flow::More)
        })
        .unwrap();
    assert_eq!(names, ["first"]);
}

#[test]
fn a_frame_over_16_mib_is_refused_by_its_prelude_and_one_of_16_mib_is_read() {
    let over = {
        let mut out = [(16_u32 << 20) + 1, 0].map(u32::to_be_bytes).concat();
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    };
    for size in [12, 1] {
        let (_, outcome) = parse_chunks(over.chunks(size));
        assert_eq!(code(&outcome), (FailureKind::ServerError, "event_too_large"));
    }
    let largest = framed(&[], &vec![7; (16 << 20) - 16]);
    let mut parser = FrameParser::new();
    let mut sizes = Vec::new();
    for chunk in largest.chunks(1 << 16) {
        parser
            .feed(chunk, &mut |frame: &Frame<'_>| {
                sizes.push(frame.payload.len());
                Ok(Flow::More)
            })
            .unwrap();
    }
    assert_eq!(sizes, [(16 << 20) - 16]);
    assert_eq!(parser.partial.capacity(), 0, "a large buffer is given back");
}

#[test]
fn a_frame_whole_in_one_chunk_is_not_copied_and_after_the_end_nothing_is_emitted() {
    let bytes = [event("a", "{}"), event("b", "{}")].concat();
    let range = bytes.as_ptr_range();
    let mut parser = FrameParser::new();
    let mut seen = Vec::new();
    let mut take = |frame: &Frame<'_>| {
        seen.push((frame.headers.event_type.to_owned(), range.contains(&frame.payload.as_ptr())));
        Ok(Flow::End)
    };
    assert_eq!(parser.feed(&bytes, &mut take), Ok(Flow::End));
    assert_eq!(parser.feed(&bytes, &mut take), Ok(Flow::End));
    assert_eq!(seen, [("a".to_owned(), true)]);
}

#[test]
fn a_frame_that_is_no_event_is_a_failure_with_its_kind() {
    let exception = |name: &str, payload: &str| {
        let headers = Headers {
            message_type: "exception",
            exception_type: name,
            content_type: "application/json",
            ..Headers::default()
        };
        let failure = exception_failure(&headers, payload.as_bytes());
        (failure.kind, failure.code.unwrap(), failure.message)
    };
    let message = |text: &str| format!(r#"{{"message":"{text}"}}"#);
    let cases = [
        ("throttlingException", message("Too many tokens, please wait."), FailureKind::RateLimit),
        ("serviceUnavailableException", message("Try later."), FailureKind::ServerError),
        ("internalServerException", message("Unexpected."), FailureKind::ServerError),
        ("modelTimeoutException", message("Too slow."), FailureKind::Timeout),
        ("validationException", message("Malformed input."), FailureKind::Format),
        (
            "validationException",
            message("Input is too long for requested model."),
            FailureKind::ContextOverflow,
        ),
    ];
    for (name, payload, kind) in cases {
        let (found, code, _) = exception(name, &payload);
        assert_eq!((found, code.as_str()), (kind, name), "{payload}");
    }
    let upstream = |status: u16| {
        let payload = format!(
            r#"{{"message":"The model failed.","originalStatusCode":{status},"originalMessage":"gone"}}"#
        );
        let (kind, _, message) = exception("modelStreamErrorException", &payload);
        (kind, message)
    };
    let message = "The model failed.: gone".to_owned();
    assert_eq!(upstream(424), (FailureKind::ServerError, message.clone()));
    assert_eq!(upstream(429), (FailureKind::RateLimit, message.clone()));
    assert_eq!(upstream(0), (FailureKind::ServerError, message));

    let error = Headers {
        message_type: "error",
        error_code: "InternalError",
        error_message: "An internal server error occurred",
        ..Headers::default()
    };
    let failure = exception_failure(&error, b"");
    assert_eq!(
        (failure.kind, failure.code.as_deref(), failure.message.as_str()),
        (FailureKind::ServerError, Some("InternalError"), "An internal server error occurred")
    );
}

/// Streams of whole frames.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let header =
        (prop_oneof![Just(":event-type"), Just(":message-type"), Just("other")], "[a-zé]{0,9}");
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    let part = (prop::collection::vec(header, 0..4), payload).prop_map(|(headers, payload)| {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        frame(&headers, &payload)
    });
    prop::collection::vec(part, 0..6).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_frames(
        stream in streams(),
        sizes in prop::collection::vec(1_usize..40, 1..30),
    ) {
        let mut chunks = Vec::new();
        let mut rest = stream.as_slice();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, tail) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = tail;
        }
        let whole = parse_chunks([stream.as_slice()]);
        prop_assert_eq!(&whole.1, &Ok(false));
        prop_assert_eq!(parse_chunks(chunks), whole);
    }

    #[test]
    fn a_flipped_bit_never_changes_an_emitted_frame(
        stream in streams(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        prop_assume!(!stream.is_empty());
        let (whole, _) = parse_chunks([stream.as_slice()]);
        let mut broken = stream.clone();
        broken[at.index(stream.len())] ^= 1_u8 << bit;
        let (seen, outcome) = parse_chunks(broken.chunks(7));
        prop_assert!(seen.len() < whole.len());
        prop_assert_eq!(&seen[..], &whole[..seen.len()]);
        prop_assert_eq!(code(&outcome), (FailureKind::Network, "frame_damaged"));
    }

    #[test]
    fn no_bytes_panic_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_chunks(bytes.chunks(7));
        let _ = parse_chunks([framed(&bytes, b"").as_slice()]);
    }
}
