//! The Responses decoder on the project's own cases and real recordings with duplicated, unnamed or missing events.
//!
//! Tests for every API are in `recordings`. It must never accept a difference.

use model::Block;
use provider::ResponsesWire;

use crate::recorded::{Case, Outcome, cases, complete_calls, event_ends, replay};

fn streams() -> Vec<Case> {
    cases("responses").into_iter().filter(|case| case.is_stream()).collect()
}

fn replay_chunks(body: &[u8], size: usize) -> Outcome {
    replay(&ResponsesWire::default(), body.chunks(size))
}

#[test]
fn events_without_their_names_are_decoded_alike() {
    // One of the project's cases has its types in the names only.
    for case in streams().into_iter().filter(|case| case.id != "types_only_in_names") {
        let whole = replay(&ResponsesWire::default(), [case.body.as_slice()]);
        let nameless = without_names(std::str::from_utf8(&case.body).unwrap());
        for size in [1, 5, usize::MAX] {
            assert_eq!(replay_chunks(nameless.as_bytes(), size), whole, "{} by {size}", case.id);
        }
    }
}

fn without_names(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("event:"));
    lines.fold(String::new(), |out, line| out + line + "\n")
}

#[test]
fn no_call_is_complete_before_its_item_is_done() {
    for case in streams() {
        for cut in event_ends(&case.body) {
            let (head, _) = case.body.split_at(cut);
            let outcome = replay(&ResponsesWire::default(), [head]);
            let done = String::from_utf8_lossy(head).matches("response.output_item.done").count();
            let calls = complete_calls(&outcome.accumulated);
            // The last event may have the whole answer.
            let is_over = outcome.result.is_ok();
            assert!(is_over || calls.len() <= done, "{} cut at {cut}: {calls:?}", case.id);
        }
    }
}

#[test]
fn a_recording_that_ends_twice_completes_once() {
    for case in streams() {
        let whole = replay(&ResponsesWire::default(), [case.body.as_slice()]);
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
fn a_repeated_event_changes_nothing_unless_it_has_a_fragment() {
    for case in streams() {
        let events = events(&case.body);
        let whole = replay(&ResponsesWire::default(), [events.concat().as_bytes()]);
        for (at, event) in events.iter().enumerate() {
            if event.contains(".delta") {
                continue;
            }
            let (head, tail) = events.split_at(at);
            let doubled = [head.concat(), (*event).to_owned(), tail.concat()].concat();
            let outcome = replay(&ResponsesWire::default(), [doubled.as_bytes()]);
            assert_eq!(outcome, whole, "{} with event {at} twice", case.id);
        }
    }
}

#[test]
fn without_its_fragments_a_response_is_the_same() {
    for case in streams() {
        let whole = replay(&ResponsesWire::default(), [case.body.as_slice()]);
        let without = |kinds: &[&str]| {
            let events = events(&case.body);
            let remaining =
                events.iter().filter(|event| !kinds.iter().any(|kind| event.contains(kind)));
            replay(&ResponsesWire::default(), [remaining.copied().collect::<String>().as_bytes()])
        };
        let no_deltas =
            without(&[".delta\"", "_text.done\"", "arguments.done\"", "refusal.done\""]);
        let done_alone = without(&[".delta\"", "_text.done\"", "arguments.done\"", ".added\""]);
        let is_consistent = case.id.starts_with("responses--") && !case.is_ambiguous();
        if is_consistent && whole.result.is_ok() {
            assert_eq!(no_deltas, whole, "{}", case.id);
            assert_eq!(done_alone, whole, "{}", case.id);
        }
    }
}

#[test]
fn reordered_events_never_panic_nor_invent_a_call() {
    for case in streams() {
        let whole = replay(&ResponsesWire::default(), [case.body.as_slice()]);
        let begun = whole.accumulated.blocks.iter().filter(|block| is_call(block)).count();
        let mut events = events(&case.body);
        for at in 1..events.len() {
            events.swap(at - 1, at);
            let swapped = replay(&ResponsesWire::default(), [events.concat().as_bytes()]);
            assert!(complete_calls(&swapped.accumulated).len() <= begun, "{} at {at}", case.id);
            events.swap(at - 1, at);
        }
        // The first event is then the last, which has the whole response.
        events.reverse();
        let reversed = replay(&ResponsesWire::default(), [events.concat().as_bytes()]);
        assert!(complete_calls(&reversed.accumulated).len() <= begun.max(2), "{}", case.id);
    }
}

fn is_call(block: &Block) -> bool {
    matches!(block, Block::ToolCall { .. })
}
