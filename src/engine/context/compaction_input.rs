//! The part of a session that can be compacted, and the projection of the whole session.
//!
//! It must never write. It reads the history again, because an encoded conversation cannot be split.

use std::sync::Arc;

use super::conversion::message_bytes;
use super::session::Session;
use super::summary_turn::summary_turn;
use crate::engine::state::{Run, Unfinished};
use model::{
    Block, GivenHistory, HistoryTurn, Journal, Message, StorageError, summary_of, summary_text,
};
use turn::transcript::{Projector, Target, join};

/// The end of a run's session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputPosition<'a> {
    /// The summary that also covers a part of the running turn, which the ledger may not have.
    own_summary: Option<&'a str>,
    parent_turn_id: Option<&'a str>,
}

impl<'a> InputPosition<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        Self {
            own_summary: session.size.summary.as_deref(),
            parent_turn_id: session.head.parent_turn_id.as_deref(),
        }
    }
}

/// The history of a session after its last summary.
#[derive(Debug, Default)]
pub(crate) struct CompactionInput {
    /// The turn of the summary.
    pub(crate) summary: Option<HistoryTurn>,
    pub(crate) turns: Vec<HistoryTurn>,
}

impl CompactionInput {
    pub(crate) fn of(summarised: bool, mut turns: Vec<HistoryTurn>) -> Self {
        let summary = (summarised && !turns.is_empty()).then(|| turns.remove(0));
        Self { summary, turns }
    }

    /// Reads the part that a run can compact. A given history has no turns: only the running turn can be cut.
    pub(crate) async fn read(
        run: &Run,
        journal: Option<&Arc<dyn Journal>>,
        position: InputPosition<'_>,
        now_ms: i64,
    ) -> Result<Self, Unfinished> {
        let InputPosition { own_summary, parent_turn_id } = position;
        let own = own_summary.map(|text| summary_turn(&run.turn_id, &summary_text(text), now_ms));
        let (Some(journal), None, Some(parent)) = (journal, &run.context.history, parent_turn_id)
        else {
            return Ok(Self { summary: own, ..Self::default() });
        };
        let reading = journal.history(&run.context.session_label, Some(parent), None);
        let history = run.bounds.try_guard(reading).await.map_err(|why| match why {
            Unfinished::Interrupted(cause) => Unfinished::Interrupted(cause),
            Unfinished::Failed(StorageError { message, .. }) => Unfinished::Failed(message),
        })?;
        let input = Self::of(history.summarised, history.turns);
        Ok(Self { summary: own.or(input.summary), turns: input.turns })
    }

    /// The text of the last summary.
    pub(crate) fn previous(&self) -> Option<String> {
        let message = self.summary.as_ref()?.messages.first()?;
        let Some(Block::Text { text, .. }) = message.blocks.first() else { return None };
        Some(summary_of(text).to_owned())
    }

    /// The approximate bytes of its messages.
    pub(crate) fn bytes(&self) -> usize {
        let turns = self.summary.iter().chain(&self.turns);
        message_bytes(turns.flat_map(|turn| &turn.messages))
    }

    /// The whole conversation of a run as its model reads it, after the given history, with unpruned results; `current` is
    /// the running turn.
    pub(crate) fn projected(
        &self,
        target: Target,
        given: &GivenHistory,
        current: &[Message],
    ) -> Vec<Message> {
        let mut projector = Projector::new(target);
        let mut projected = Vec::new();
        join(&mut projected, projector.project_flat(given.iter()));
        for turn in self.summary.iter().chain(&self.turns) {
            join(&mut projected, projector.project_history(turn));
        }
        join(&mut projected, projector.project_current(current));
        projected
    }
}
