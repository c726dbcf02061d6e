//! The rules of the machine, by example and by random histories of events.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::calls::INCOMPLETE;
use super::*;
use model::{
    AgentToolCall, Block, Failure, FailureKind, Message, Provenance, Role, Stop, StopReason,
    TokenUsage, ToolCallStatus,
};

struct World {
    ids: u32,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self { ids: 0, now: 1_000 }
    }

    fn feed(&mut self, machine: &mut Machine, event: Event) -> Step {
        self.now += 1;
        let ids = &mut self.ids;
        let mut new_id = || {
            *ids += 1;
            format!("id{ids}")
        };
        let mut tick =
            Tick { now_ms: self.now, new_id: &mut new_id, remaining: Duration::from_secs(60) };
        machine.feed(event, &mut tick)
    }
}

fn query() -> Message {
    Message {
        id: "q".to_owned(),
        role: Role::User,
        blocks: vec![Block::text("hi")],
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    }
}

fn reply(id: &str, blocks: Vec<Block>) -> Reply {
    Reply {
        message_id: id.to_owned(),
        blocks,
        provenance: Provenance {
            provider: "p".to_owned(),
            api: "scripted".to_owned(),
            model: "m".to_owned(),
            response_id: None,
        },
        usage: TokenUsage::new(10, 5, 3, 2, 1),
        usage_estimated: false,
    }
}

fn call(id: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: "t".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: None,
    }
}

fn replied(id: &str, blocks: Vec<Block>, stop: Stop) -> Event {
    Event::Replied { reply: reply(id, blocks), stop, stop_raw: "raw".to_owned() }
}

fn done(text: &str) -> ToolFinish {
    ToolFinish {
        content: vec![Block::text(text)],
        result: None,
        error: None,
        spawned_session_label: None,
    }
}

fn started(call: &PendingCall) -> Event {
    let params = RawValue::from_string(r#"{"x":1}"#.to_owned()).ok();
    Event::ToolStarted { call_id: call.call_id.clone(), params }
}

fn results(machine: &Machine) -> Vec<(String, String, bool)> {
    machine
        .messages()
        .iter()
        .filter_map(|message| {
            message.tool_result().map(|(id, failed)| (id.to_owned(), message.content(), failed))
        })
        .collect()
}

#[test]
fn an_answer_without_calls_ends_the_turn() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    assert_eq!(machine.step(), Step::CallModel);
    let step = world.feed(&mut machine, replied("a", vec![Block::text("hello")], Stop::EndTurn));
    assert_eq!(step, Step::Done);
    assert_eq!(machine.outcome(), Some(&Outcome { stop_reason: StopReason::EndTurn, error: None }));
    assert_eq!(machine.usage(), (TokenUsage::new(10, 5, 3, 2, 1), false, Some(20)));
}

#[test]
fn results_are_in_call_order_whatever_order_the_tools_finish_in() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    let step = world.feed(&mut machine, replied("a", vec![call("1"), call("2")], Stop::ToolUse));
    let Step::RunTools(calls) = step else { panic!("{step:?}") };
    let (first, second) = (&calls[0], &calls[1]);
    let finish = |call: &PendingCall, text| Event::ToolFinished {
        call_id: call.call_id.clone(),
        finish: done(text),
    };
    world.feed(&mut machine, started(first));
    world.feed(&mut machine, started(second));
    assert_eq!(world.feed(&mut machine, finish(second, "two")), Step::AwaitTools);
    assert_eq!(world.feed(&mut machine, finish(first, "one")), Step::CallModel);
    assert_eq!(
        results(&machine),
        [("1".to_owned(), "one".to_owned(), false), ("2".to_owned(), "two".to_owned(), false)]
    );
}

#[test]
fn a_turn_that_fails_after_a_tool_began_moves_the_pointer_however_the_tool_ended() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    let step = world.feed(&mut machine, replied("a", vec![call("1"), call("2")], Stop::ToolUse));
    let Step::RunTools(calls) = step else { panic!("{step:?}") };
    let mut untouched = machine.clone();
    world.feed(&mut untouched, Event::Interrupted { cause: Interrupt::Timeout, partial: None });
    assert!(!untouched.moves_pointer());
    world.feed(&mut machine, started(&calls[0]));
    world.feed(&mut machine, Event::Interrupted { cause: Interrupt::Timeout, partial: None });
    assert!(machine.moves_pointer());
    let rows: Vec<_> = machine.into_parts().1;
    let params: Vec<&str> = rows.iter().map(|row| row.params.get()).collect();
    assert_eq!(params, [r#"{"x":1}"#, "{}"]);
}

#[test]
fn a_call_of_an_answer_that_was_cut_is_closed_and_never_run() {
    for stop in [Stop::MaxTokens, Stop::ContextFull] {
        let mut world = World::new();
        let mut machine = Machine::new(query(), 25);
        let step = world.feed(&mut machine, replied("a", vec![call("1")], stop));
        assert_eq!(step, Step::Done);
        assert_eq!(
            results(&machine),
            [("1".to_owned(), "This tool was not run (max_tokens).".to_owned(), true)]
        );
        assert_eq!(machine.outcome().unwrap().stop_reason, StopReason::MaxTokens);
    }
}

#[test]
fn an_incomplete_call_gets_a_result_and_never_runs() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    let cut = Block::ToolCall {
        id: "a".to_owned(),
        name: "tool".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: true,
        provider_data: None,
    };
    let step = world.feed(&mut machine, replied("m1", vec![cut.clone(), call("b")], Stop::ToolUse));
    let Step::RunTools(calls) = step else { panic!("{step:?}") };
    assert_eq!(calls.iter().map(|call| call.provider_call_id.as_str()).collect::<Vec<_>>(), ["b"]);
    world.feed(&mut machine, started(&calls[0]));
    let finish = Event::ToolFinished { call_id: calls[0].call_id.clone(), finish: done("of b") };
    assert_eq!(world.feed(&mut machine, finish), Step::CallModel);
    assert_eq!(
        results(&machine),
        [("a".to_owned(), INCOMPLETE.to_owned(), true), ("b".to_owned(), "of b".to_owned(), false)]
    );
    // Nothing else to run: the model is called immediately.
    let step = world.feed(&mut machine, replied("m2", vec![cut], Stop::ToolUse));
    assert_eq!(step, Step::CallModel);
}

#[test]
fn the_iteration_cap_stops_without_another_model_call_and_closes_pending_calls() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 1);
    let step = world.feed(&mut machine, replied("a", vec![call("1")], Stop::ToolUse));
    assert_eq!(step, Step::Done);
    assert_eq!(machine.outcome().unwrap().stop_reason, StopReason::ToolUse);
    let (_, calls) = machine.into_parts();
    assert_eq!(calls[0].error.as_deref(), Some("iteration_limit"));
    assert_eq!(calls[0].status, ToolCallStatus::Failed);
}

#[test]
fn a_message_that_arrives_with_the_last_answer_continues_the_same_turn() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    world.feed(&mut machine, replied("a", vec![Block::text("x")], Stop::EndTurn));
    let step = world.feed(&mut machine, Event::Steered(vec![vec![Block::text("wait")]]));
    assert_eq!(step, Step::CallModel);
    assert_eq!(machine.messages().last().unwrap().content(), "wait");
}

#[test]
fn a_host_ends_a_run_between_two_calls_of_the_model_only() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    let step = world.feed(&mut machine, replied("a", vec![call("1")], Stop::ToolUse));
    assert!(matches!(step, Step::RunTools(_)));
    // The call has no result yet.
    assert_eq!(world.feed(&mut machine, Event::Stopped), step);
    let Step::RunTools(calls) = step else { unreachable!() };
    let finish = done("done");
    let call_id = calls[0].call_id.clone();
    assert_eq!(world.feed(&mut machine, Event::ToolFinished { call_id, finish }), Step::CallModel);
    assert_eq!(world.feed(&mut machine, Event::Stopped), Step::Done);
    assert_eq!(machine.outcome().unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!(machine.messages().last().unwrap().role, Role::Tool);
}

#[test]
fn a_paused_answer_is_continued_eight_times_at_most() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 100);
    for turn in 0..8 {
        let id = format!("a{turn}");
        assert_eq!(
            world.feed(&mut machine, replied(&id, vec![Block::text("x")], Stop::Pause)),
            Step::CallModel
        );
    }
    assert_eq!(
        world.feed(&mut machine, replied("z", vec![Block::text("x")], Stop::Pause)),
        Step::Done
    );
}

#[test]
fn a_malformed_tool_call_is_requested_once_more() {
    let malformed = |id: &str, blocks| replied(id, blocks, Stop::MalformedToolCall);
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    for round in 0..2 {
        let step = world.feed(&mut machine, malformed("a", vec![call("1")]));
        assert_eq!(step, Step::Wait(Duration::from_millis(500)));
        assert_eq!(world.feed(&mut machine, Event::Waited), Step::CallModel);
        assert_eq!(machine.messages().len(), 1 + 2 * round, "nothing of the attempt remains");
        // A well-formed answer resets the counter: the next call may be requested again too.
        let step = world.feed(&mut machine, replied("b", vec![call("2")], Stop::ToolUse));
        let Step::RunTools(calls) = step else { panic!("{step:?}") };
        let finish = Event::ToolFinished { call_id: calls[0].call_id.clone(), finish: done("x") };
        assert_eq!(world.feed(&mut machine, finish), Step::CallModel);
    }
    world.feed(&mut machine, malformed("c", vec![]));
    world.feed(&mut machine, Event::Waited);
    assert_eq!(world.feed(&mut machine, malformed("d", vec![])), Step::Done);
    let error = machine.outcome().unwrap().error.clone().unwrap();
    assert_eq!((error.retryable, error.detail.code.as_deref()), (true, Some("raw")));
    // All of them are paid for.
    assert_eq!(
        machine.usage().0,
        [(); 6]
            .iter()
            .fold(TokenUsage::default(), |sum, ()| { sum.plus(TokenUsage::new(10, 5, 3, 2, 1)) })
    );
}

#[test]
fn a_malformed_answer_that_was_emitted_is_not_requested_again() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    let blocks = vec![Block::text("Let me"), call("1")];
    let step = world.feed(&mut machine, replied("a", blocks, Stop::MalformedToolCall));
    assert_eq!(step, Step::Done);
    assert_eq!(
        results(&machine),
        [("1".to_owned(), "This tool was not run (malformed_tool_call).".to_owned(), true)]
    );
}

#[test]
fn a_failed_turn_moves_the_pointer_only_with_output_or_an_executed_tool() {
    let failure = || Failure::new(FailureKind::Format, "bad", "bad request");
    let mut world = World::new();
    let mut empty = Machine::new(query(), 25);
    world.feed(
        &mut empty,
        Event::AttemptFailed { failure: failure(), partial: None, emitted: false, again: None },
    );
    assert_eq!(empty.outcome().unwrap().stop_reason, StopReason::Error);
    assert!(!empty.moves_pointer());

    let mut partial = Machine::new(query(), 25);
    world.feed(
        &mut partial,
        Event::AttemptFailed {
            failure: failure(),
            partial: Some(reply("a", vec![Block::text("some")])),
            emitted: true,
            again: None,
        },
    );
    assert!(partial.moves_pointer());
}

#[test]
fn the_state_survives_serialisation() {
    let mut world = World::new();
    let mut machine = Machine::new(query(), 25);
    world.feed(&mut machine, replied("a", vec![call("1"), call("2")], Stop::ToolUse));
    let text = serde_json::to_string(&machine).unwrap();
    let back: Machine = serde_json::from_str(&text).unwrap();
    assert_eq!(back.step(), machine.step());
    assert_eq!(back.messages(), machine.messages());
}

#[derive(Debug, Clone)]
enum Move {
    Reply { calls: usize, incomplete: bool, stop: u8 },
    Fail { kind: u8, emitted: bool },
    Start(usize),
    Finish { which: usize, fails: bool },
    Steer,
    Abort,
    Timeout,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0..4usize, any::<bool>(), 0..11u8)
            .prop_map(|(calls, incomplete, stop)| Move::Reply { calls, incomplete, stop }),
        2 => (0..4u8, any::<bool>()).prop_map(|(kind, emitted)| Move::Fail { kind, emitted }),
        4 => (0..4usize).prop_map(Move::Start),
        8 => (0..4usize, any::<bool>()).prop_map(|(which, fails)| Move::Finish { which, fails }),
        2 => Just(Move::Steer),
        1 => Just(Move::Abort),
        1 => Just(Move::Timeout),
    ];
    prop::collection::vec(one, 0..60)
}

fn stop_of(n: u8) -> Stop {
    [
        Stop::EndTurn,
        Stop::StopSequence,
        Stop::ToolUse,
        Stop::ToolUse,
        Stop::MaxTokens,
        Stop::ContextFull,
        Stop::Refusal,
        Stop::ContentFilter,
        Stop::Pause,
        Stop::Other,
        Stop::MalformedToolCall,
    ][usize::from(n)]
}

proptest! {
    #[test]
    fn every_call_is_answered_once_and_nothing_follows_the_end(moves in moves(), cap in 1..6u32) {
        let mut world = World::new();
        let mut machine = Machine::new(query(), cap);
        let mut model_calls = 0u32;
        let mut message = 0;
        let mut pending: Vec<String> = Vec::new();
        let mut interrupted = false;
        for step in moves {
            let before = machine.step();
            let event = match step {
                Move::Reply { calls, incomplete, stop } => {
                    if before != Step::CallModel {
                        continue;
                    }
                    // Ids repeat on purpose: providers reuse them.
                    let mut blocks = vec![Block::text("text")];
                    blocks.extend((0..calls).map(|n| Block::ToolCall {
                        id: format!("call_{}", n % 2),
                        name: "t".to_owned(),
                        arguments_json: "{}".to_owned(),
                        incomplete,
                        provider_data: None,
                    }));
                    message += 1;
                    model_calls += 1;
                    replied(&format!("m{message}"), blocks, stop_of(stop))
                }
                Move::Fail { kind, emitted } => {
                    if before != Step::CallModel {
                        continue;
                    }
                    message += 1;
                    let kind = [
                        FailureKind::Network,
                        FailureKind::Format,
                        FailureKind::ServerError,
                        FailureKind::RateLimit,
                    ][usize::from(kind)];
                    Event::AttemptFailed {
                        failure: Failure::new(kind, "", "x"),
                        partial: emitted.then(|| reply(&format!("m{message}"), vec![Block::text("p")])),
                        emitted,
                        again: (kind != FailureKind::Format).then_some(Duration::ZERO),
                    }
                }
                Move::Start(which) => match pending.get(which) {
                    Some(call_id) => Event::ToolStarted { call_id: call_id.clone(), params: None },
                    None => continue,
                },
                Move::Finish { which, fails } => match pending.get(which) {
                    Some(call_id) => Event::ToolFinished {
                        call_id: call_id.clone(),
                        finish: ToolFinish {
                            error: fails.then(|| "no".to_owned()),
                            ..done("r")
                        },
                    },
                    None => continue,
                },
                Move::Steer => Event::Steered(vec![vec![Block::text("more")]]),
                Move::Abort => { interrupted = true; Event::Interrupted { cause: Interrupt::Abort, partial: None } }
                Move::Timeout => { interrupted = true; Event::Interrupted { cause: Interrupt::Timeout, partial: None } }
            };
            let after = world.feed(&mut machine, event);
            if let Step::RunTools(calls) = &after {
                pending = calls.iter().map(|call| call.call_id.clone()).collect();
            }
            if let Step::Wait(_) = after {
                world.feed(&mut machine, Event::Waited);
            }
            if interrupted {
                prop_assert_eq!(machine.step(), Step::Done, "nothing follows an interrupt");
            }
        }
        world.feed(&mut machine, Event::Interrupted { cause: Interrupt::Abort, partial: None });
        prop_assert_eq!(machine.step(), Step::Done);
        prop_assert!(model_calls <= cap, "{} calls with a cap of {}", model_calls, cap);

        // Every call of an assistant message has exactly one result, directly after it and in call order.
        let mut expected: Vec<&str> = Vec::new();
        for message in machine.messages() {
            match message.role {
                Role::Assistant => {
                    prop_assert!(expected.is_empty(), "unanswered before the next answer: {:?}", expected);
                    expected = message.blocks.iter().filter_map(|block| match block {
                        Block::ToolCall { id, .. } => Some(id.as_str()),
                        _ => None,
                    }).collect();
                }
                Role::Tool => {
                    let (id, _) = message.tool_result().unwrap();
                    prop_assert!(!expected.is_empty(), "a result without its call");
                    prop_assert_eq!(expected.remove(0), id);
                }
                Role::User | Role::System => prop_assert!(expected.is_empty()),
            }
        }
        prop_assert!(expected.is_empty());
        let sequences: Vec<u32> = machine.messages().iter().map(|message| message.sequence).collect();
        prop_assert_eq!(sequences, (0..u32::try_from(machine.messages().len()).unwrap()).collect::<Vec<_>>());
        let ids: HashSet<&str> = machine.messages().iter().map(|message| message.id.as_str()).collect();
        prop_assert_eq!(ids.len(), machine.messages().len());
        let calls = machine.clone().into_parts().1;
        let by_id: HashMap<&str, &AgentToolCall> =
            calls.iter().map(|call| (call.call_id.as_str(), call)).collect();
        prop_assert_eq!(by_id.len(), calls.len());
        for call in &calls {
            prop_assert!(matches!(call.status, ToolCallStatus::Completed | ToolCallStatus::Failed));
            prop_assert!(call.completed_at.is_some());
        }
    }
}
