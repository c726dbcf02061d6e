//! One compaction of a running turn: what is cut, the summary, the record, and the conversation anew.
//!
//! The order is the promise: the summary is checked, then written down, and only then what it stands for is left out. It
//! must never write after an abort.

use std::ops::Range;

use super::super::call::RunUsage;
use super::super::conversation::Conversation;
use super::super::driver::Run;
use super::super::outcome::millis;
use super::super::record::Writing;
use super::super::session::Session;
use super::fit::without_margin;
use super::options::{Preset, Strategy};
use super::summarise::asks;
use super::{Room, Stopped};
use model::{
    AgentPhase, Block, CompactionResult, HistoryTurn, Message, Role, TurnStatus, summary_of,
    summary_text,
};
use turn::compact::{Cut, Size, Trigger, cut, groups, share, truncate_results};
use turn::estimate;
use turn::machine::Machine;
use turn::prefix;
use turn::prune::Pruned;

/// Messages that the simple form keeps.
const MYCLAW_KEPT: usize = 10;

/// What of a session can be compacted: its history after the last summary.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The summary's turn.
    pub(crate) summary: Option<HistoryTurn>,
    pub(crate) turns: Vec<HistoryTurn>,
}

impl Scope {
    pub(super) fn of(summarised: bool, mut turns: Vec<HistoryTurn>) -> Self {
        let summary = (summarised && !turns.is_empty()).then(|| turns.remove(0));
        Self { summary, turns }
    }

    /// The text of the last summary.
    pub(super) fn previous(&self) -> Option<String> {
        let message = self.summary.as_ref()?.messages.first()?;
        let Some(Block::Text { text, .. }) = message.blocks.first() else { return None };
        Some(summary_of(text).to_owned())
    }

    pub(super) fn sizes(&self) -> Vec<Size> {
        self.turns.iter().map(|turn| size(&turn.messages)).collect()
    }
}

/// How far the strategy cuts; `None` where it finds nothing.
pub(super) fn cut_by(
    strategy: Strategy,
    preset: Option<Preset>,
    scope: &Scope,
    group_sizes: &[Size],
    (fixed, target, limit): (u64, u64, u64),
) -> Option<Cut> {
    let turns = scope.sizes();
    let by_size = || cut(&turns, group_sizes, fixed, target, limit);
    match (strategy, preset) {
        (Strategy::ToolResultTruncation, _) => Some(Cut { turns: 0, groups: 0, truncate: true }),
        (Strategy::HardClear, _) if !turns.is_empty() => {
            Some(Cut { turns: turns.len(), groups: 0, truncate: false })
        }
        (Strategy::Summary, Some(Preset::Myclaw)) => {
            let mut kept = 0;
            let first = turns.len()
                - scope
                    .turns
                    .iter()
                    .rev()
                    .take_while(|turn| {
                        kept += turn.messages.len();
                        kept <= MYCLAW_KEPT
                    })
                    .count();
            let simple = Cut { turns: first, groups: 0, truncate: false };
            // What is too large even so is cut as ever.
            if first > 0 { Some(simple) } else { by_size() }
        }
        (Strategy::Summary | Strategy::SlidingWindow | Strategy::HardClear, _) => by_size(),
    }
}

/// What stands where turns were left out and nobody wrote down what they came to.
pub(super) fn left_out(turns: usize, previous: Option<&str>) -> String {
    let note = format!("({turns} earlier turns were left out here.)");
    match previous {
        Some(previous) => format!("{previous}\n\n{note}"),
        None => note,
    }
}

impl Run {
    /// Reads what can be compacted. A history that the host gave has no turns: only the running one can be cut.
    pub(crate) async fn scope(&self, session: &mut Session) -> Result<Scope, Stopped> {
        let summary = self.own_summary(session);
        let parent = session.parent_turn_id.clone();
        let (Some(journal), None, Some(parent)) =
            (&self.core.journal, &self.context.history, parent)
        else {
            return Ok(Scope { summary, ..Scope::default() });
        };
        let reading = journal.history(&self.context.session_label, Some(&parent), None);
        let read = self.guard(reading).await.map_err(Stopped::Interrupted)?;
        let history = read.map_err(|error| Stopped::Failed(error.message))?;
        let scope = Scope::of(history.summarised, history.turns);
        Ok(Scope { summary: summary.or(scope.summary), turns: scope.turns })
    }

    /// The summary that also stands for a part of the running turn: the ledger may not have it.
    fn own_summary(&self, session: &Session) -> Option<HistoryTurn> {
        let text = summary_text(session.fit.summary.as_deref()?);
        Some(summary_turn(&self.turn_id, &text, self.core.clock.now_ms()))
    }

    /// The strategies in order, until there is room.
    pub(super) async fn compacted(
        &self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
        trigger: Trigger,
        mut scope: Scope,
        told: &mut bool,
    ) -> Result<Room, Stopped> {
        let Some(compactor) = &self.compactor else { return Ok(Room::Nothing) };
        let began = self.core.clock.instant();
        let before = session.fit.estimate(&session.conversation);
        let limit = without_margin(self.budget().limit());
        let (target, limit) = match trigger {
            Trigger::ContextLimit | Trigger::Manual => {
                (without_margin(self.budget().target(trigger)), limit)
            }
            // The provider knows better than the estimate: less than what it has refused.
            Trigger::Overflow => (
                without_margin(self.budget().target(trigger)).min(share(before, 50)),
                limit.min(share(before, 80)),
            ),
        };
        let mut failed = None;
        for strategy in &compactor.options.strategies {
            let (question, kept) = self.running(machine, session);
            let group_sizes: Vec<Size> = kept.iter().map(|at| size(slice(machine, at))).collect();
            let fixed = self.fixed(session, question);
            // Our own count of what fits the model's.
            let ratio = session.fit.ratio;
            let measures = (fixed, ratio.undo(target), ratio.undo(limit));
            let preset = compactor.options.preset;
            let Some(cut) = cut_by(*strategy, preset, &scope, &group_sizes, measures) else {
                continue;
            };
            if !std::mem::replace(told, true) {
                self.control.compacting(true);
                self.queue.phase(AgentPhase::CompactionStart, self.core.clock.now_ms());
            }
            let earlier = session.fit.truncate;
            if cut.truncate {
                session.fit.truncate = Some(0);
            }
            let gone = cut.groups.checked_sub(1).and_then(|last| kept.get(last));
            let first = kept.first().map_or(0, |range| range.start);
            let current = gone.map_or(&[][..], |last| slice(machine, &(first..last.end)));
            if cut.turns == 0 && current.is_empty() {
                self.rebuild(machine, session, &scope);
                let now = session.fit.estimate(&session.conversation);
                if now <= limit && now < before {
                    return Ok(Room::Made);
                }
                continue;
            }
            let stays = asks(
                scope
                    .turns
                    .get(cut.turns..)
                    .unwrap_or_default()
                    .iter()
                    .flat_map(|turn| &turn.messages)
                    .chain(question),
            );
            let (summary, used) = match self
                .summary(compactor, *strategy, spent, (&scope, cut, current), &stays)
                .await?
            {
                Ok(written) => written,
                Err(why) => {
                    session.fit.truncate = earlier;
                    failed = Some(why);
                    continue;
                }
            };
            let text = summary_text(&summary);
            let id = self.core.clock.new_id();
            let through = scope
                .turns
                .get(cut.turns.saturating_sub(1))
                .map_or_else(|| self.turn_id.clone(), |turn| turn.id.clone());
            let open = matches!(session.writing, Writing::Open(_));
            let first_kept = match scope.turns.get(cut.turns) {
                Some(turn) => turn.id.clone(),
                // The running turn, or, where that is not on disk yet, what it will follow.
                None if open || self.core.journal.is_none() => self.turn_id.clone(),
                None => id.clone(),
            };
            let gone: Vec<HistoryTurn> = scope.turns.drain(..cut.turns).collect();
            scope.summary = Some(summary_turn(&id, &text, self.core.clock.now_ms()));
            let known = (session.fit.summarised, session.fit.summary.clone());
            session.fit.summarised = session.fit.summarised.saturating_add(current.len());
            if !current.is_empty() {
                session.fit.summary = Some(summary.clone());
            }
            for turn in &mut scope.turns {
                turn.edited = true;
            }
            let mut result = CompactionResult {
                summary_tokens: estimate::text_tokens(&text),
                summary,
                summarized_through_turn_id: through,
                first_kept_turn_id: first_kept,
                turns_summarized: u64::try_from(gone.len()).unwrap_or(u64::MAX),
                model: compactor.model_name.clone(),
                provider: compactor.provider_name.clone(),
                tokens_before: before,
                tokens_after: 0,
                summarization_input_tokens: used.tokens.prompt_tokens(),
                summarization_output_tokens: used.tokens.output_tokens,
                duration_ms: millis(self.core.clock.instant().saturating_duration_since(began)),
                trigger: seed_trigger(trigger).to_owned(),
                compaction_type: strategy.as_str().to_owned(),
            };
            // What it comes to is known before it is written; the run's own conversation is changed after.
            let after = self.told(machine, session, &scope);
            let overhead = self.overhead(&mut session.fit);
            result.tokens_after = session.fit.ratio.apply(overhead.saturating_add(after.tokens()));
            let written = match gone.is_empty() {
                true => Ok(false),
                false => self.write(session, &id, &result, &used).await,
            };
            // What has no turn of its own is paid by the run's.
            if !matches!(written, Ok(true)) {
                spent.add(used.cost);
                spent.count_unseen(used.tokens, used.estimated);
            }
            if let Err(stopped) = written {
                (session.fit.summarised, session.fit.summary) = known;
                session.fit.truncate = earlier;
                return Err(stopped);
            }
            session.conversation = after;
            session.fit.rebuilt();
            spent.compaction = Some(result);
            spent.compacted += 1;
            return Ok(Room::Made);
        }
        failed.map_or(Ok(Room::Nothing), |why| Err(Stopped::Failed(why)))
    }

    /// The running turn: what stands before its first answer, and the groups that no summary stands for.
    fn running<'a>(
        &self,
        machine: &'a Machine,
        session: &Session,
    ) -> (&'a [Message], Vec<Range<usize>>) {
        let messages = machine.messages();
        let groups = groups(messages);
        let question = groups.first().map_or(messages.len(), |first| first.start);
        let from = question.saturating_add(session.fit.summarised);
        (
            messages.get(..question).unwrap_or_default(),
            groups.into_iter().filter(|range| range.start >= from).collect(),
        )
    }

    /// What no cut makes smaller: system prompt, tools, the question, a given history, and the summary to come.
    fn fixed(&self, session: &mut Session, question: &[Message]) -> u64 {
        /// What a summary is taken for before it is there, at most.
        const SUMMARY: u64 = 2_000;
        let summary = SUMMARY.min(share(self.budget().available(), 10));
        let given = self.context.history.as_deref().unwrap_or_default();
        self.overhead(&mut session.fit)
            .saturating_add(estimate::message_tokens(question))
            .saturating_add(estimate::message_tokens(given))
            .saturating_add(summary)
    }

    /// The conversation as it is told from here on.
    fn told(&self, machine: &Machine, session: &Session, scope: &Scope) -> Conversation {
        let provider = self.provider.as_ref();
        let base = base_of(scope.summary.as_ref());
        let mut conversation = Conversation::pruned(self.target(), base, Pruned::new());
        let whole = |messages: &[Message]| -> Vec<Message> {
            messages.iter().map(|message| session.fit.told(message)).collect()
        };
        conversation
            .push_flat(&whole(self.context.history.as_deref().unwrap_or_default()), provider);
        for turn in scope.summary.iter().chain(&scope.turns) {
            let turn = HistoryTurn { messages: whole(&turn.messages), ..turn.clone() };
            conversation.push_turn(&turn, provider);
        }
        conversation.turn_begins();
        let (question, kept) = self.running(machine, session);
        let question = whole(question);
        let first = kept.first().map_or(machine.messages().len(), |range| range.start);
        let rest = whole(machine.messages().get(first..).unwrap_or_default());
        if rest.is_empty() {
            conversation.push_current(&question, provider);
        } else {
            conversation.push_edited(&[question, rest].concat(), provider);
        }
        conversation
    }

    pub(super) fn rebuild(&self, machine: &Machine, session: &mut Session, scope: &Scope) {
        session.conversation = self.told(machine, session, scope);
        session.fit.rebuilt();
    }
}

/// What a conversation is known by that begins with a summary.
pub(crate) fn base_of(summary: Option<&HistoryTurn>) -> u64 {
    summary.map_or(0, |summary| prefix::text(&summary.id))
}

/// A summary as the turn that the ledger will give.
pub(super) fn summary_turn(id: &str, text: &str, now: i64) -> HistoryTurn {
    let message = Message {
        id: id.to_owned(),
        role: Role::User,
        blocks: vec![Block::text(text)],
        sequence: 0,
        created_at: now,
        provenance: None,
        provider_stop_reason: None,
    };
    HistoryTurn {
        id: id.to_owned(),
        status: TurnStatus::Completed,
        edited: false,
        edited_messages: 0,
        messages: vec![message],
    }
}

/// The broker interface knows two words; one that somebody asked for was for the limit's sake.
pub(super) fn seed_trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::ContextLimit | Trigger::Manual => Trigger::ContextLimit.as_str(),
        Trigger::Overflow => Trigger::Overflow.as_str(),
    }
}

fn slice<'a>(machine: &'a Machine, range: &Range<usize>) -> &'a [Message] {
    machine.messages().get(range.clone()).unwrap_or_default()
}

fn size(messages: &[Message]) -> Size {
    let truncated: Vec<Message> = messages.iter().map(truncate_results).collect();
    Size {
        tokens: estimate::message_tokens(messages),
        truncated: estimate::message_tokens(&truncated),
    }
}
