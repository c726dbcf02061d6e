//! The event parser against docs/rules/wire/streams.md#sse-parsing, for any chunking of the bytes.

use proptest::prelude::*;

use super::{EVENT_COUNT_LIMIT, EVENT_LIMIT, PendingEvent, STREAM_LIMIT, SseParser};
use crate::{Failure, Flow};
use model::FailureKind;

type Events = Vec<(String, Vec<u8>)>;

fn parse_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Events, Option<PendingEvent>) {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    for chunk in chunks {
        let flow = parser.feed(chunk, &mut |name, data| {
            events.push((name.to_owned(), data.to_owned()));
            Ok(Flow::More)
        });
        assert_eq!(flow, Ok(Flow::More));
    }
    let pending = parser.finish();
    (events, pending)
}

fn parse(stream: &[u8]) -> (Events, Option<PendingEvent>) {
    let whole = parse_chunks([stream]);
    assert_eq!(parse_chunks(stream.chunks(1)), whole, "one byte at a time");
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(parse_chunks([head, tail]), whole, "cut at {cut}");
    }
    whole
}

fn events(expected: &[(&str, &str)]) -> (Events, Option<PendingEvent>) {
    let owned = |(name, data): &(&str, &str)| ((*name).to_owned(), data.as_bytes().to_owned());
    (expected.iter().map(owned).collect(), None)
}

#[test]
fn line_ends_of_all_three_kinds_give_the_same_events() {
    let expected = events(&[("a", "one"), ("", "two\nthree"), ("", "")]);
    let stream = "event: a\ndata: one\n\ndata: two\ndata:three\n\ndata\n\n";
    assert_eq!(parse(stream.as_bytes()), expected);
    assert_eq!(parse(stream.replace('\n', "\r\n").as_bytes()), expected);
    assert_eq!(parse(stream.replace('\n', "\r").as_bytes()), expected);
}

#[test]
fn comments_ids_retries_and_unknown_fields_are_ignored() {
    let stream =
        b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\ndatabase: x\nevents: y\n:\ndata: z\n\n";
    assert_eq!(parse(stream), events(&[("", "z")]));
}

#[test]
fn one_space_after_the_colon_is_dropped_and_the_rest_stays() {
    assert_eq!(parse(b"event:  e\ndata:  x: y \n\n"), events(&[(" e", " x: y ")]));
}

#[test]
fn the_last_name_of_an_event_counts_and_a_name_without_data_is_no_event() {
    assert_eq!(
        parse(b"event: a\nevent: b\ndata: x\n\nevent: c\n\ndata: y\n\n"),
        events(&[("b", "x"), ("", "y")])
    );
}

#[test]
fn one_byte_order_mark_is_dropped_and_only_at_the_start() {
    assert_eq!(parse("\u{feff}data: x\n\n".as_bytes()), events(&[("", "x")]));
    assert_eq!(parse("\u{feff}data: \u{feff}x\n\n".as_bytes()), events(&[("", "\u{feff}x")]));
    assert_eq!(parse("\u{feff}\u{feff}data: x\n\n".as_bytes()), events(&[]));
    assert_eq!(parse(b"\xef\xbbdata: x\n\ndata: y\n\n"), events(&[("", "y")]));
}

#[test]
fn bytes_that_are_no_text_are_passed_on_unchanged() {
    let (found, pending) = parse(b"event: \xff\ndata: \xff\x00\xc3\n\n");
    assert_eq!(found, [("\u{fffd}".to_owned(), b"\xff\x00\xc3".to_vec())]);
    assert_eq!(pending, None);
}

#[test]
fn an_event_without_its_blank_line_is_pending_at_the_end() {
    let pending = |name: &str, data: &str| {
        Some(PendingEvent { name: name.to_owned(), data: data.as_bytes().to_owned() })
    };
    assert_eq!(parse(b"data: x\n\nevent: e\ndata: y").1, pending("e", "y"));
    assert_eq!(parse(b"event: e\ndata: y\r").1, pending("e", "y"));
    assert_eq!(parse(b"data: y\ndata: z").1, pending("", "y\nz"));
    assert_eq!(parse(b"data: y\nevent: e").1, pending("e", "y"));
    assert_eq!(parse(b"event: e\n").1, None);
    assert_eq!(parse(b"data: x\n\n: late comment").1, None);
}

#[test]
fn after_the_end_nothing_is_emitted() {
    let mut parser = SseParser::new();
    let mut seen = 0;
    let mut end = |_: &str, _: &[u8]| {
        seen += 1;
        Ok(Flow::End)
    };
    assert_eq!(parser.feed(b"data: a\n\ndata: b\n\n", &mut end), Ok(Flow::End));
    assert_eq!(parser.feed(b"data: c\n\n", &mut end), Ok(Flow::End));
    assert_eq!((parser.finish(), seen), (None, 1));
}

#[test]
fn a_failure_of_the_receiver_is_passed_on() {
    let failure = Failure::new(FailureKind::Overloaded, "overloaded_error", "Overloaded");
    let mut parser = SseParser::new();
    let given = failure.clone();
    assert_eq!(parser.feed(b"data: a\n\n", &mut |_, _| Err(given.clone())), Err(failure));
}

#[test]
fn an_event_over_16_mib_is_refused_in_any_form() {
    let part = vec![b'x'; 1 << 20];
    let long_line = |prefix: &[u8], line_end: &[u8], parts: usize| {
        let mut parser = SseParser::new();
        let mut outcome = parser.feed(b"event: e\n", &mut |_, _| Ok(Flow::More));
        for _ in 0..parts {
            for piece in [prefix, &part, line_end] {
                outcome = outcome.and_then(|_| parser.feed(piece, &mut |_, _| Ok(Flow::More)));
            }
        }
        (outcome.map_err(|failure| failure.code.unwrap_or_default()), parser.line.capacity())
    };
    // One line without an end, and one event of many lines.
    let (outcome, capacity) = long_line(b"", b"", 17);
    assert_eq!(outcome, Err("event_too_large".to_owned()));
    assert!(capacity <= 2 * EVENT_LIMIT);
    assert_eq!(long_line(b"data: ", b"\n", 17).0, Err("event_too_large".to_owned()));
    assert_eq!(long_line(b"data: ", b"\n", 15).0, Ok(Flow::More));

    let mut whole = b"data: ".to_vec();
    whole.resize(whole.len() + EVENT_LIMIT + 1, b'x');
    whole.extend_from_slice(b"\n\n");
    let outcome = SseParser::new().feed(&whole, &mut |_, _| Ok(Flow::More));
    assert_eq!(outcome.unwrap_err().code.as_deref(), Some("event_too_large"));
}

#[test]
fn a_stream_over_256_mib_is_refused() {
    let mut parser = SseParser { bytes: STREAM_LIMIT - 1, ..SseParser::default() };
    assert_eq!(parser.feed(b":", &mut |_, _| Ok(Flow::More)), Ok(Flow::More));
    let outcome = parser.feed(b"\n", &mut |_, _| Ok(Flow::More));
    assert_eq!(outcome.unwrap_err().code.as_deref(), Some("stream_too_large"));
}

#[test]
fn more_than_two_million_events_are_refused() {
    let mut parser = SseParser { events: EVENT_COUNT_LIMIT - 1, ..SseParser::default() };
    assert_eq!(parser.feed(b"data: x\n\n", &mut |_, _| Ok(Flow::More)), Ok(Flow::More));
    let outcome = parser.feed(b"data: x\n\n", &mut |_, _| Ok(Flow::More));
    assert_eq!(outcome.unwrap_err().code.as_deref(), Some("too_many_events"));
}

#[test]
fn an_event_whole_in_one_chunk_is_not_copied() {
    let chunk = b"event: e\ndata: in place\n\n".to_vec();
    let range = chunk.as_ptr_range();
    let mut in_place = false;
    let flow = SseParser::new().feed(&chunk, &mut |_, data| {
        in_place = range.contains(&data.as_ptr());
        Ok(Flow::More)
    });
    assert_eq!((flow, in_place), (Ok(Flow::More), true));
}

#[test]
fn a_large_buffer_is_freed_after_its_event() {
    let mut parser = SseParser::new();
    for _ in 0..4 {
        parser.feed(&vec![b':'; 1 << 20], &mut |_, _| Ok(Flow::More)).unwrap();
    }
    parser.feed(b"\n\n", &mut |_, _| Ok(Flow::More)).unwrap();
    parser.feed(b"data: ", &mut |_, _| Ok(Flow::More)).unwrap();
    for _ in 0..4 {
        parser.feed(&vec![b'x'; 1 << 20], &mut |_, _| Ok(Flow::More)).unwrap();
    }
    parser.feed(b"\n\n", &mut |_, _| Ok(Flow::More)).unwrap();
    assert!(parser.data.capacity() + parser.line.capacity() <= 2 << 20);
}

/// Lines with a meaning, with text of one to four bytes per character.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        3 => Just("data: {\"a\":\"Grüße 🦀 漢\"}".to_owned()),
        1 => Just("data:".to_owned()),
        2 => Just("event: some_name".to_owned()),
        1 => Just(": comment".to_owned()),
        1 => Just("id: 1".to_owned()),
        4 => Just(String::new()),
        1 => "[a-z:\u{feff} ]{0,12}",
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (any::<bool>(), prop::collection::vec((line, end), 0..40)).prop_map(|(mark, lines)| {
        let mut out = if mark { "\u{feff}".to_owned() } else { String::new() };
        for (line, end) in lines {
            out.push_str(&line);
            out.push_str(end);
        }
        out.into_bytes()
    })
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(
        stream in stream(),
        sizes in prop::collection::vec(1_usize..20, 1..50),
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
        prop_assert_eq!(parse_chunks(chunks), parse_chunks([stream.as_slice()]));
        prop_assert_eq!(parse_chunks(stream.chunks(1)), parse_chunks([stream.as_slice()]));
    }

    #[test]
    fn no_bytes_panic_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_chunks(bytes.chunks(7));
    }
}
