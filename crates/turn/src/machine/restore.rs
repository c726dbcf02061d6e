//! Restores the machine of an interrupted turn: results stay, calls in doubt are handled by their replay class.
//!
//! It must never run a call again unless its tool declares that this is safe (docs/rules/sessions-and-ledger.md#after-a-crash).

use super::protocol::Tick;
use super::state::{Call, Machine, State};
use model::{
    Block, Message, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_TEXT, OpenCall, OpenTurn, ReplayClass, Role,
    ToolCallStatus,
};

impl Machine {
    /// The machine of an interrupted turn, at its last commit point. Calls that had started still count as running.
    #[must_use]
    pub fn restore(turn: &OpenTurn, max_iterations: u32) -> Self {
        let asker = turn.messages.iter().rposition(|message| message.role == Role::Assistant);
        let last_id = asker.and_then(|at| turn.messages.get(at)).map(|message| &message.id);
        let batch = turn
            .calls
            .iter()
            .position(|call| Some(&call.row.message_id) == last_id)
            .unwrap_or(turn.calls.len());
        let mut calls: Vec<Call> =
            turn.calls.iter().map(|call| restored(call, &turn.messages)).collect();
        let mut messages = turn.messages.clone();
        let after = asker.map_or(0, |at| at.saturating_add(1));
        if batch < calls.len() {
            attach_answers(&mut calls, batch, after, &mut messages);
        }
        let open = calls.iter().skip(batch).any(|call| call.answer.is_none());
        let mut machine = Self {
            max_iterations,
            iterations: turn.progress.iterations,
            continuations: turn.progress.continuations,
            requested_again: false,
            messages,
            batch,
            calls,
            state: if open { State::Tools } else { State::Ready },
            sealed: false,
            usage: turn.progress.usage,
            usage_estimated: turn.progress.usage_estimated,
            context_tokens: turn.progress.context_tokens,
        };
        if !open {
            machine.batch = machine.calls.len();
        }
        machine
    }

    /// Handles the calls in doubt: `pure` and `idempotent` ones may run again under their key, `reconcilable` ones are
    /// reconciled, `unsafe` ones get the result [`OUTCOME_UNKNOWN`].
    pub fn settle_doubt(&mut self, turn: &OpenTurn, tick: &mut Tick<'_>) {
        let doubtful: Vec<(usize, ReplayClass)> = self
            .open_batch()
            .enumerate()
            .filter(|(_, call)| call.answer.is_none() && call.row.status == ToolCallStatus::Running)
            .map(|(at, call)| {
                let known = turn.calls.iter().find(|open| open.row.call_id == call.row.call_id);
                (at, known.map(|open| open.replay).unwrap_or_default())
            })
            .collect();
        for (at, replay) in doubtful {
            let Some(call) = self.calls.get_mut(self.batch.saturating_add(at)) else { continue };
            match replay {
                ReplayClass::Pure | ReplayClass::Idempotent => {
                    call.row.status = ToolCallStatus::Pending;
                }
                ReplayClass::Reconcilable => {
                    call.row.status = ToolCallStatus::Pending;
                    call.reconcile = true;
                }
                ReplayClass::Unsafe => {
                    let error = Some(OUTCOME_UNKNOWN.to_owned());
                    self.answer(at, vec![Block::text(OUTCOME_UNKNOWN_TEXT)], None, error, tick);
                }
            }
        }
        if self.state == State::Tools && self.open_batch().all(|call| call.answer.is_some()) {
            self.push_results();
            self.state = State::Ready;
        }
    }
}

/// A call with the arguments that its provider sent, which are in its assistant message.
fn restored(open: &OpenCall, messages: &[Message]) -> Call {
    let asker = messages.iter().find(|message| message.id == open.row.message_id);
    let arguments = asker.and_then(|asker| {
        asker.blocks.iter().find_map(|block| match block {
            Block::ToolCall { id, arguments_json, .. } if *id == open.row.id => {
                Some(arguments_json.clone())
            }
            Block::ToolCall { .. }
            | Block::Text { .. }
            | Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolResult { .. }
            | Block::Opaque { .. } => None,
        })
    });
    let arguments = arguments.unwrap_or_else(|| open.row.params.get().to_owned());
    Call { executed: open.begun, ..Call::new(open.row.clone(), arguments) }
}

/// Assigns the results of the last batch to its calls. While one is missing, the others stay with their calls; a call that
/// ended without a result is in doubt again.
fn attach_answers(calls: &mut [Call], batch: usize, after: usize, messages: &mut Vec<Message>) {
    let answered = |at: usize, messages: &[Message]| {
        let sequence = u32::try_from(after.saturating_add(at)).unwrap_or(u32::MAX);
        messages
            .iter()
            .skip(after)
            .find(|message| message.role == Role::Tool && message.sequence == sequence)
            .cloned()
    };
    for (at, call) in calls.iter_mut().skip(batch).enumerate() {
        call.answer = answered(at, messages).map(Box::new);
        if call.answer.is_none()
            && matches!(call.row.status, ToolCallStatus::Completed | ToolCallStatus::Failed)
        {
            call.row.status = ToolCallStatus::Running;
        }
    }
    if calls.iter().skip(batch).any(|call| call.answer.is_none()) {
        messages.truncate(after);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::super::protocol::{Event, Step, ToolFinish};
    use super::*;
    use model::{AgentToolCall, OUTCOME_UNKNOWN, Progress, ReplayClass::*, StopReason, TokenUsage};

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn message(id: &str, role: Role, sequence: u32, blocks: Vec<Block>) -> Message {
        Message {
            id: id.to_owned(),
            role,
            blocks,
            sequence,
            created_at: 0,
            provenance: None,
            provider_stop_reason: None,
        }
    }

    /// A turn whose last message has calls of these classes with these statuses.
    fn turn(calls: &[(ReplayClass, ToolCallStatus)]) -> OpenTurn {
        let call_block = |at: usize| Block::ToolCall {
            id: format!("p{at}"),
            name: "t".to_owned(),
            arguments_json: format!(r#"{{"n":{at}}}"#),
            incomplete: false,
            provider_data: None,
        };
        let mut messages = vec![
            message("q", Role::User, 0, vec![Block::text("hi")]),
            message("a", Role::Assistant, 1, (0..calls.len()).map(call_block).collect()),
        ];
        let mut rows = Vec::new();
        for (at, (replay, status)) in calls.iter().enumerate() {
            let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
            if ended {
                let block = Block::ToolResult {
                    tool_call_id: format!("p{at}"),
                    tool_name: "t".to_owned(),
                    content: vec![Block::text("before")],
                    is_error: *status == ToolCallStatus::Failed,
                };
                let sequence = u32::try_from(at + 2).unwrap();
                messages.push(message(&format!("r{at}"), Role::Tool, sequence, vec![block]));
            }
            rows.push(OpenCall {
                row: AgentToolCall {
                    id: format!("p{at}"),
                    tool_name: "t".to_owned(),
                    params: raw("{}"),
                    result: None,
                    error: None,
                    status: *status,
                    started_at: 0,
                    completed_at: None,
                    sequence: u32::try_from(at).unwrap(),
                    spawned_session_label: None,
                    call_id: format!("c{at}"),
                    message_id: "a".to_owned(),
                },
                replay: *replay,
                begun: *status != ToolCallStatus::Pending,
            });
        }
        OpenTurn {
            turn_id: "t".to_owned(),
            run_id: "r".to_owned(),
            session_label: "s".to_owned(),
            parent_turn_id: None,
            expected_head: None,
            moved: false,
            source_event_id: None,
            target: None,
            started_at: 0,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            messages,
            calls: rows,
            progress: Progress {
                iterations: 1,
                usage: TokenUsage::new(1, 2, 3, 4, 5),
                ..Progress::default()
            },
            metadata: None,
            altered: false,
            context: "{}".to_owned(),
            epoch: 1,
            approvals: Vec::new(),
            parked: false,
        }
    }

    fn with_tick<T>(work: impl FnOnce(&mut Tick<'_>) -> T) -> T {
        let mut ids = 0;
        let mut new_id = || {
            ids += 1;
            format!("new{ids}")
        };
        let remaining = std::time::Duration::from_secs(60);
        work(&mut Tick { now_ms: 1, new_id: &mut new_id, remaining })
    }

    fn statuses() -> impl Strategy<Value = ToolCallStatus> {
        prop_oneof![
            Just(ToolCallStatus::Pending),
            Just(ToolCallStatus::Running),
            Just(ToolCallStatus::Completed),
            Just(ToolCallStatus::Failed),
        ]
    }

    fn classes() -> impl Strategy<Value = ReplayClass> {
        prop_oneof![Just(Pure), Just(Idempotent), Just(Reconcilable), Just(Unsafe)]
    }

    proptest! {
        /// Wherever a batch was interrupted: finished calls are not run again, calls in doubt are handled by their class, and every
        /// call gets one result, in order.
        #[test]
        fn every_call_of_an_interrupted_batch_gets_one_result(
            calls in proptest::collection::vec((classes(), statuses()), 1..6)
        ) {
            let turn = turn(&calls);
            let mut machine = Machine::restore(&turn, 25);
            with_tick(|tick| machine.settle_doubt(&turn, tick));
            let ready: Vec<(String, bool, String)> = match machine.step() {
                Step::RunTools(pending) => pending
                    .into_iter()
                    .map(|call| (call.call_id, call.reconcile, call.arguments_json))
                    .collect(),
                Step::CallModel => Vec::new(),
                other => panic!("{other:?}"),
            };
            let expected: Vec<(String, bool, String)> = calls
                .iter()
                .enumerate()
                .filter_map(|(at, call)| {
                    let reconcile = match call {
                        (_, ToolCallStatus::Pending) | (Pure | Idempotent, ToolCallStatus::Running) => false,
                        (Reconcilable, ToolCallStatus::Running) => true,
                        (Unsafe, ToolCallStatus::Running)
                        | (_, ToolCallStatus::Completed | ToolCallStatus::Failed) => return None,
                    };
                    Some((format!("c{at}"), reconcile, format!(r#"{{"n":{at}}}"#)))
                })
                .collect();
            prop_assert_eq!(&ready, &expected);
            for (call_id, ..) in ready {
                let finish = ToolFinish { content: vec![Block::text("now")], result: None, error: None, spawned_session_label: None };
                with_tick(|tick| {
                    machine.feed(Event::ToolStarted { call_id: call_id.clone(), params: None }, tick);
                    machine.feed(Event::ToolFinished { call_id, finish }, tick)
                });
            }
            prop_assert_eq!(machine.step(), Step::CallModel);
            let sequences: Vec<u32> = machine.messages().iter().map(|message| message.sequence).collect();
            prop_assert_eq!(sequences, (0..u32::try_from(calls.len()).unwrap() + 2).collect::<Vec<_>>());
            for (at, (call, state)) in calls.iter().zip(machine.calls()).enumerate() {
                let text = machine.messages()[at + 2].content();
                match call {
                    (Unsafe, ToolCallStatus::Running) => {
                        prop_assert_eq!(state.row.error.as_deref(), Some(OUTCOME_UNKNOWN));
                        prop_assert!(text.starts_with("outcome_unknown: "));
                    }
                    (_, ToolCallStatus::Completed | ToolCallStatus::Failed) => prop_assert_eq!(text, "before"),
                    (_, ToolCallStatus::Pending | ToolCallStatus::Running) => prop_assert_eq!(text, "now"),
                }
            }
            prop_assert_eq!(machine.progress().usage, TokenUsage::new(1, 2, 3, 4, 5));
        }

        /// If it is closed instead, every open call records that, and a started call counts as output
        /// (docs/rules/turns-and-streams.md#open-calls-at-the-end).
        #[test]
        fn an_interrupted_batch_can_be_closed(calls in proptest::collection::vec((classes(), statuses()), 1..6)) {
            let turn = turn(&calls);
            let mut machine = Machine::restore(&turn, u32::MAX);
            let cause = crate::machine::Interrupt::Timeout;
            with_tick(|tick| machine.feed(Event::Interrupted { cause, partial: None }, tick));
            prop_assert_eq!(machine.outcome().map(|outcome| outcome.stop_reason), Some(StopReason::Timeout));
            let begun = calls.iter().any(|(_, status)| *status != ToolCallStatus::Pending);
            prop_assert_eq!(machine.moves_pointer(), begun);
            prop_assert_eq!(machine.messages().len(), calls.len() + 2);
        }
    }
}
