//! Projects the conversation of a running turn again: after a compaction, a truncation of results, or a switch of model.
//!
//! It must never change a stored message.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::active_run::ActiveRun;
use crate::engine::context::{
    CompactionInput, Conversation, InputPosition, Session, base_of, convert,
};
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
    let mut input = read_input(active, session).await?;
    rebuild(&active.run, machine, session, &mut input).await;
    Ok(())
}

/// Replaces the session's conversation by a new projection.
pub(super) async fn rebuild(
    run: &Run,
    machine: &Machine,
    session: &mut Session,
    input: &mut CompactionInput,
) {
    session.conversation = projected(run, machine, session, input).await;
    session.pushed = machine.messages().len();
    session.size.reprojected();
}

/// The new conversation.
pub(super) async fn projected(
    run: &Run,
    machine: &Machine,
    session: &mut Session,
    input: &mut CompactionInput,
) -> Conversation {
    let truncation = session.size.truncation();
    let given = run.context.history.clone().unwrap_or_default();
    let (target, provider) = (run.target.transcript(), Arc::clone(&run.target.provider));
    // Where it takes long, another thread has it meanwhile.
    let read = std::mem::take(input);
    let bytes = given.bytes().saturating_add(read.bytes());
    let (read, mut conversation) = convert(bytes, move || {
        let base = base_of(read.summary.as_ref());
        let mut conversation = Conversation::pruned(target, base, Pruned::new());
        conversation.push_flat(&truncation.of(given.iter()), provider.as_ref());
        for turn in read.summary.iter().chain(&read.turns) {
            let turn = HistoryTurn { messages: truncation.of(&turn.messages), ..turn.clone() };
            conversation.push_turn(&turn, provider.as_ref());
        }
        (read, conversation)
    })
    .await;
    *input = read;
    conversation.turn_begins();
    let RunningTurn { question, groups } = RunningTurn::of(machine, session);
    let question = truncation.of(question);
    let first = groups.first().map_or(machine.messages().len(), |range| range.start);
    let rest = truncation.of(machine.messages().get(first..).unwrap_or_default());
    let provider = run.target.provider.as_ref();
    if rest.is_empty() {
        conversation.push_current(&question, provider);
    } else {
        conversation.push_edited(&[question, rest].concat(), provider);
    }
    conversation
}
