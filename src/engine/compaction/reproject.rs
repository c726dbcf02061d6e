//! Projects the conversation of a running turn again: after a compaction, a truncation of results, or a switch of model.
//!
//! It must never change a stored message.

use std::ops::Range;

use crate::engine::active_run::ActiveRun;
use crate::engine::context::{CompactionInput, Conversation, InputPosition, Session, base_of};
use crate::engine::state::{Run, Unfinished};
use model::{HistoryTurn, Message};
use turn::compact::groups;
use turn::machine::Machine;
use turn::prune::Pruned;

/// The running turn as a compaction sees it.
pub(super) struct RunningTurn<'a> {
    /// The messages before its first answer.
    pub(super) question: &'a [Message],
    /// The groups that are not summarised.
    pub(super) groups: Vec<Range<usize>>,
}

impl<'a> RunningTurn<'a> {
    pub(super) fn of(machine: &'a Machine, session: &Session) -> Self {
        let messages = machine.messages();
        let groups = groups(messages);
        let question = groups.first().map_or(messages.len(), |first| first.start);
        let from = question.saturating_add(session.size.summarised);
        Self {
            question: messages.get(..question).unwrap_or_default(),
            groups: groups.into_iter().filter(|range| range.start >= from).collect(),
        }
    }
}

/// Reads the turns that the run can compact.
pub(super) async fn read_input(
    active: &ActiveRun,
    session: &mut Session,
) -> Result<CompactionInput, Unfinished> {
    let (shared, position) = (&active.shared, InputPosition::of(session));
    let now = shared.clock.now_ms();
    CompactionInput::read(&active.run, shared.journal.as_ref(), position, now).await
}

/// Projects the whole conversation again, for the current model.
pub(crate) async fn reproject(
    active: &ActiveRun,
    machine: &Machine,
    session: &mut Session,
) -> Result<(), Unfinished> {
    let input = read_input(active, session).await?;
    rebuild(&active.run, machine, session, &input);
    Ok(())
}

/// Replaces the session's conversation by a new projection.
pub(super) fn rebuild(
    run: &Run,
    machine: &Machine,
    session: &mut Session,
    input: &CompactionInput,
) {
    session.conversation = projected(run, machine, session, input);
    session.size.reprojected();
}

/// The new conversation.
pub(super) fn projected(
    run: &Run,
    machine: &Machine,
    session: &Session,
    input: &CompactionInput,
) -> Conversation {
    let provider = run.target.provider.as_ref();
    let base = base_of(input.summary.as_ref());
    let mut conversation = Conversation::pruned(run.target.transcript(), base, Pruned::new());
    let whole = |messages: &[Message]| -> Vec<Message> {
        messages.iter().map(|message| session.size.projected(message)).collect()
    };
    let given: Vec<Message> =
        run.context.given_messages().map(|message| session.size.projected(message)).collect();
    conversation.push_flat(&given, provider);
    for turn in input.summary.iter().chain(&input.turns) {
        let turn = HistoryTurn { messages: whole(&turn.messages), ..turn.clone() };
        conversation.push_turn(&turn, provider);
    }
    conversation.turn_begins();
    let RunningTurn { question, groups } = RunningTurn::of(machine, session);
    let question = whole(question);
    let first = groups.first().map_or(machine.messages().len(), |range| range.start);
    let rest = whole(machine.messages().get(first..).unwrap_or_default());
    if rest.is_empty() {
        conversation.push_current(&question, provider);
    } else {
        conversation.push_edited(&[question, rest].concat(), provider);
    }
    conversation
}
