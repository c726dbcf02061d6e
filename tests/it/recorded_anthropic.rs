//! Anthropic's decoder on our own cases and real recordings: as they are, in other framings, and cut everywhere.
//!
//! It must never accept a difference that is not named and explained here.

use nexus_agent_engine::model::Block;
use nexus_agent_engine::provider::anthropic::AnthropicWire;
use nexus_agent_engine::provider::{Completion, Failure};

use crate::recorded::{
    Case, Outcome, cases, complete_calls, differences, event_ends, replay, replay_case,
};

/// Recordings that are understood otherwise, on purpose.
const OTHERWISE: [(&str, &str); 1] = [(
    "anthropic--ai--anthropic-spliced-message-start-1a288c",
    "a second message begins inside the first: the recording takes the second, we join no two answers and fail",
)];

/// Streams up to this many bytes are cut at every byte, longer ones at every event.
const CUT_EVERYWHERE: usize = 3_000;

fn streams() -> Vec<Case> {
    cases("anthropic").into_iter().filter(|case| case.meta.streaming).collect()
}

fn replay_chunks(body: &[u8], size: usize) -> Outcome {
    replay(&AnthropicWire, body.chunks(size))
}

#[test]
fn every_recording_is_understood_as_expected() {
    let cases = cases("anthropic");
    let mut report = String::new();
    let mut agree = 0;
    for case in &cases {
        let differences = differences(case, &replay_case(&AnthropicWire, case));
        let reason = OTHERWISE.iter().find(|(id, _)| *id == case.id);
        match (differences.is_empty(), reason) {
            (true, None) => agree += 1,
            (false, Some((id, reason))) => println!("{id}: {reason}"),
            (true, Some((id, _))) => report += &format!("{id}: agrees, so it is no exception\n"),
            (false, None) => {
                report += &format!("{} ({})\n{differences}", case.id, case.meta.status);
            }
        }
    }
    println!("{agree} of {} cases agree", cases.len());
    assert!(report.is_empty(), "{report}");
}

#[test]
fn no_framing_changes_what_is_understood() {
    for case in streams() {
        let whole = replay(&AnthropicWire, [case.body.as_slice()]);
        for size in [1, 2, 3, 7, 64, 1_000] {
            assert_eq!(replay_chunks(&case.body, size), whole, "{} by {size}", case.id);
        }
        let text = String::from_utf8(case.body).unwrap();
        let with_comments = text.replace("\n\n", "\n: comment\nid: 7\nretry: 3\n\n: more\n\n");
        let framings = [
            ("CRLF", text.replace('\n', "\r\n")),
            ("CR", text.replace('\n', "\r")),
            ("byte order mark", format!("\u{feff}{text}")),
            ("comments", format!(": first\n\n{with_comments}")),
            (
                "no names",
                text.lines()
                    .filter(|line| !line.starts_with("event:"))
                    .fold(String::new(), |out, line| out + line + "\n"),
            ),
        ];
        for (framing, body) in framings {
            for size in [1, 5, usize::MAX] {
                let outcome = replay_chunks(body.as_bytes(), size);
                assert_eq!(outcome, whole, "{} with {framing} by {size}", case.id);
            }
        }
    }
}

#[test]
fn a_cut_is_never_a_success_and_completes_no_call_that_had_not_closed() {
    let mut cuts = 0;
    for case in streams() {
        let body = case.body.as_slice();
        let whole = replay(&AnthropicWire, [body]);
        let all_calls = complete_calls(&whole.accumulated);
        let ends = event_ends(body);
        let places: Vec<usize> =
            if body.len() <= CUT_EVERYWHERE { (0..body.len()).collect() } else { ends.clone() };
        // The last event's JSON ends at the last brace; from there on the response is whole.
        let terminal = terminal_end(body);
        for cut in places {
            cuts += 1;
            let (head, _) = body.split_at(cut);
            let outcome = replay(&AnthropicWire, [head]);
            let at = format!("{} cut at {cut}", case.id);
            if terminal.is_some_and(|terminal| cut >= terminal) {
                assert_eq!(outcome, whole, "{at}");
                continue;
            }
            let failure = outcome.result.as_ref().expect_err(&at);
            assert!(
                is_truncation(failure) || Err(failure) == whole.result.as_ref(),
                "{at}: {failure:?}"
            );
            let calls = complete_calls(&outcome.accumulated);
            assert_eq!(calls, all_calls[..calls.len()], "{at}");
            let closed = String::from_utf8_lossy(head).matches("\"content_block_stop\"").count();
            assert!(calls.len() <= closed, "{at}: {calls:?}");
        }
    }
    println!("{cuts} cuts");
}

fn is_truncation(failure: &Failure) -> bool {
    failure.code.as_deref() == Some("stream_truncated")
}

/// Where the JSON of the terminal `message_stop` ends.
fn terminal_end(body: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(body).unwrap();
    let name = text.rfind("\"message_stop\"")?;
    Some(name + text[name..].find('}')? + 1)
}

#[test]
fn a_recording_that_ends_twice_completes_once() {
    for case in streams() {
        let whole = replay(&AnthropicWire, [case.body.as_slice()]);
        let Ok(Completion { .. }) = &whole.result else { continue };
        let mut twice = case.body.clone();
        twice.extend_from_slice(b"\n\n");
        twice.extend_from_slice(&case.body);
        assert_eq!(replay_chunks(&twice, usize::MAX), whole, "{}", case.id);
    }
}

/// The events of a stream, as texts that end with their blank line.
fn events(body: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(body).unwrap();
    let mut start = 0;
    let cut = |end| {
        let event = &text[start..end];
        start = end;
        event
    };
    event_ends(body).into_iter().map(cut).collect()
}

#[test]
fn an_event_that_comes_twice_changes_nothing_unless_it_carries_content() {
    for case in streams() {
        let whole = replay(&AnthropicWire, [case.body.as_slice()]);
        let events = events(&case.body);
        for (at, event) in events.iter().enumerate() {
            if event.contains("\"content_block_delta\"") {
                continue;
            }
            let (head, tail) = events.split_at(at);
            let doubled = [head.concat(), (*event).to_owned(), tail.concat()].concat();
            let outcome = replay(&AnthropicWire, [doubled.as_bytes()]);
            if whole.result.is_ok() && !case.body.ends_with(b"\n\n") {
                // The event left without its blank line is not among `events`.
                assert_eq!(outcome.accumulated.blocks, whole.accumulated.blocks, "{}", case.id);
            } else {
                assert_eq!(outcome, whole, "{} with event {at} twice", case.id);
            }
        }
    }
}

#[test]
fn events_in_the_wrong_order_never_panic_nor_make_up_a_call() {
    for case in streams() {
        let whole = replay(&AnthropicWire, [case.body.as_slice()]);
        let begun = whole.accumulated.blocks.iter().filter(|block| is_call(block)).count();
        let mut events = events(&case.body);
        for at in 1..events.len() {
            events.swap(at - 1, at);
            let swapped = replay(&AnthropicWire, [events.concat().as_bytes()]);
            assert!(complete_calls(&swapped.accumulated).len() <= begun, "{} at {at}", case.id);
            events.swap(at - 1, at);
        }
        events.reverse();
        let reversed = replay(&AnthropicWire, [events.concat().as_bytes()]);
        assert_eq!(complete_calls(&reversed.accumulated).len(), 0, "{} reversed", case.id);
    }
}

fn is_call(block: &Block) -> bool {
    matches!(block, Block::ToolCall { .. })
}
