//! Anthropic's decoder on the project's own cases and real recordings with duplicated, reordered or unnamed events.
//!
//! Tests for every API are in `recordings`. It must never accept a difference.

use model::Block;
use provider::{AnthropicWire, Completion};

use crate::recorded::{Case, Outcome, cases, complete_calls, event_ends, replay};

fn streams() -> Vec<Case> {
    cases("anthropic").into_iter().filter(|case| case.is_stream()).collect()
}

fn replay_chunks(body: &[u8], size: usize) -> Outcome {
    replay(&AnthropicWire::default(), body.chunks(size))
}

#[test]
fn events_without_their_names_are_decoded_alike() {
    for case in streams() {
        let whole = replay(&AnthropicWire::default(), [case.body.as_slice()]);
        let text = String::from_utf8(case.body).unwrap();
        let nameless = text
            .lines()
            .filter(|line| !line.starts_with("event:"))
            .fold(String::new(), |out, line| out + line + "\n");
        for size in [1, 5, usize::MAX] {
            assert_eq!(replay_chunks(nameless.as_bytes(), size), whole, "{} by {size}", case.id);
        }
    }
}

#[test]
fn no_call_is_complete_before_its_block_has_closed() {
    for case in streams() {
        for cut in event_ends(&case.body) {
            let (head, _) = case.body.split_at(cut);
            let outcome = replay(&AnthropicWire::default(), [head]);
            let closed = String::from_utf8_lossy(head).matches("\"content_block_stop\"").count();
            let calls = complete_calls(&outcome.accumulated);
            assert!(calls.len() <= closed, "{} cut at {cut}: {calls:?}", case.id);
        }
    }
}

#[test]
fn a_recording_that_ends_twice_completes_once() {
    for case in streams() {
        let whole = replay(&AnthropicWire::default(), [case.body.as_slice()]);
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
fn a_repeated_event_changes_nothing_unless_it_has_content() {
    for case in streams() {
        let whole = replay(&AnthropicWire::default(), [case.body.as_slice()]);
        let events = events(&case.body);
        for (at, event) in events.iter().enumerate() {
            if event.contains("\"content_block_delta\"") {
                continue;
            }
            let (head, tail) = events.split_at(at);
            let doubled = [head.concat(), (*event).to_owned(), tail.concat()].concat();
            let outcome = replay(&AnthropicWire::default(), [doubled.as_bytes()]);
            if whole.result.is_ok() && !case.body.ends_with(b"\n\n") {
                // An event without its blank line is not in `events`.
                assert_eq!(outcome.accumulated.blocks, whole.accumulated.blocks, "{}", case.id);
            } else {
                assert_eq!(outcome, whole, "{} with event {at} twice", case.id);
            }
        }
    }
}

#[test]
fn reordered_events_never_panic_nor_invent_a_call() {
    for case in streams() {
        let whole = replay(&AnthropicWire::default(), [case.body.as_slice()]);
        let begun = whole.accumulated.blocks.iter().filter(|block| is_call(block)).count();
        let mut events = events(&case.body);
        for at in 1..events.len() {
            events.swap(at - 1, at);
            let swapped = replay(&AnthropicWire::default(), [events.concat().as_bytes()]);
            assert!(complete_calls(&swapped.accumulated).len() <= begun, "{} at {at}", case.id);
            events.swap(at - 1, at);
        }
        events.reverse();
        let reversed = replay(&AnthropicWire::default(), [events.concat().as_bytes()]);
        assert_eq!(complete_calls(&reversed.accumulated).len(), 0, "{} reversed", case.id);
    }
}

fn is_call(block: &Block) -> bool {
    matches!(block, Block::ToolCall { .. })
}
