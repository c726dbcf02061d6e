//! One compaction of a running turn: the cut, the summary, the record, and the new conversation.
//!
//! In this order: the summary is checked, then recorded, and only then the summarised messages are left out. It must never
//! write after an abort.

use std::ops::Range;

use super::compactor::Compactor;
use super::plan::{CutSizes, cut_by, seed_trigger, size};
use super::reproject::{RunningTurn, projected, rebuild};
use super::summarise::user_requests;
use super::summary::{CutOff, SummaryOutcome, WrittenCompaction, summary, write};
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{CompactionInput, Session, summary_turn, without_margin};
use crate::engine::state::{JournalState, RunUsage, Unfinished, millis};
use model::{
    AgentPhase, CompactionPhase, CompactionResult, CompactionTrigger, HistoryTurn, Message,
    StreamEvent, summary_text,
};
use turn::compact::{Size, Trigger, share};
use turn::estimate;
use turn::machine::Machine;

/// The outcome of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compacted {
    Done,
    /// There was nothing to compact.
    Nothing,
}

/// Tries the strategies in order, until the context fits.
pub(super) async fn compact_running(
    active: &ActiveRun,
    compactor: &Compactor,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
    trigger: Trigger,
    mut input: CompactionInput,
) -> Result<Compacted, Unfinished> {
    let (run, clock) = (&active.run, &active.shared.clock);
    let began = clock.instant();
    let before = session.size.estimate(&session.conversation);
    let limit = without_margin(active.window_budget().limit());
    let (target, limit) = match trigger {
        Trigger::ContextLimit | Trigger::Manual => {
            (without_margin(active.window_budget().target(trigger)), limit)
        }
        // The provider's refusal is more reliable than the estimate: the limit is below the refused size.
        Trigger::Overflow => (
            without_margin(active.window_budget().target(trigger)).min(share(before, 50)),
            limit.min(share(before, 80)),
        ),
    };
    let mut failed = None;
    for strategy in &compactor.options.strategies {
        let RunningTurn { question, groups } = RunningTurn::of(machine, session);
        let group_sizes: Vec<Size> = groups.iter().map(|at| size(slice(machine, at))).collect();
        let fixed = fixed(active, session, question);
        // Converted from the model's count to estimated tokens.
        let ratio = session.size.ratio;
        let sizes = CutSizes { fixed, target: ratio.undo(target), limit: ratio.undo(limit) };
        let preset = compactor.options.preset;
        let Some(cut) = cut_by(*strategy, preset, &input, &group_sizes, sizes) else {
            continue;
        };
        if !run.control.is_compacting() {
            run.control.set_compacting(true);
            active.queue.phase(AgentPhase::CompactionStart, clock.now_ms());
            active.queue.event(|seq| StreamEvent::Compaction {
                phase: CompactionPhase::Start,
                trigger: event_trigger(trigger),
                tokens_before: before,
                tokens_after: None,
                seq,
            });
        }
        let earlier = session.size.truncate;
        if cut.truncate {
            session.size.truncate = Some(0);
        }
        let summarised = cut.groups.checked_sub(1).and_then(|last| groups.get(last));
        let first = groups.first().map_or(0, |range| range.start);
        let current = summarised.map_or(&[][..], |last| slice(machine, &(first..last.end)));
        if cut.turns == 0 && current.is_empty() {
            rebuild(run, machine, session, &mut input).await;
            let now = session.size.estimate(&session.conversation);
            if now <= limit && now < before {
                return Ok(Compacted::Done);
            }
            continue;
        }
        let user_requests = user_requests(
            input
                .turns
                .get(cut.turns..)
                .unwrap_or_default()
                .iter()
                .flat_map(|turn| &turn.messages)
                .chain(question),
        );
        let cut_off =
            CutOff { input: &input, turns: cut.turns, current, user_requests: &user_requests };
        let (summary, used) = match summary(active, compactor, *strategy, usage, cut_off).await? {
            SummaryOutcome::Written { text, usage } => (text, usage),
            SummaryOutcome::Failed(why) => {
                session.size.truncate = earlier;
                failed = Some(why);
                continue;
            }
        };
        let text = summary_text(&summary);
        let id = clock.new_id();
        let through = input
            .turns
            .get(cut.turns.saturating_sub(1))
            .map_or_else(|| run.turn_id.clone(), |turn| turn.id.clone());
        let open = matches!(session.head.journal, JournalState::Open(_));
        let first_kept = match input.turns.get(cut.turns) {
            Some(turn) => turn.id.clone(),
            // The running turn, or its parent, if the turn is not stored yet.
            None if open || active.shared.journal.is_none() => run.turn_id.clone(),
            None => id.clone(),
        };
        let summarised: Vec<HistoryTurn> = input.turns.drain(..cut.turns).collect();
        input.summary = Some(summary_turn(&id, &text, clock.now_ms()));
        let known = (session.size.summarised, session.size.summary.clone());
        session.size.summarised = session.size.summarised.saturating_add(current.len());
        if !current.is_empty() {
            session.size.summary = Some(summary.clone());
        }
        for turn in &mut input.turns {
            turn.edited = true;
        }
        let mut result = CompactionResult {
            summary_tokens: estimate::text_tokens(&text),
            summary,
            summarized_through_turn_id: through,
            first_kept_turn_id: first_kept,
            turns_summarized: u64::try_from(summarised.len()).unwrap_or(u64::MAX),
            model: compactor.target.model_name.clone(),
            provider: compactor.target.provider_name.clone(),
            tokens_before: before,
            tokens_after: 0,
            summarization_input_tokens: used.tokens.prompt_tokens(),
            summarization_output_tokens: used.tokens.output_tokens,
            duration_ms: millis(clock.instant().saturating_duration_since(began)),
            trigger: seed_trigger(trigger).to_owned(),
            compaction_type: strategy.as_str().to_owned(),
        };
        // The new size is computed before the compaction is written; the run's conversation is replaced after.
        let after = projected(run, machine, session, &mut input).await;
        let overhead = session.size.overhead(&run.context, run.tools());
        result.tokens_after = session.size.ratio.apply(overhead.saturating_add(after.tokens()));
        let step = WrittenCompaction { id: &id, result: &result, usage: &used };
        let written = match summarised.is_empty() {
            true => Ok(false),
            false => write(active, session, step).await,
        };
        // A compaction without a turn of its own counts in the run's usage.
        if !matches!(written, Ok(true)) {
            usage.add(used.cost);
            usage.count_unseen(used.tokens, used.estimated);
        }
        if let Err(unfinished) = written {
            (session.size.summarised, session.size.summary) = known;
            session.size.truncate = earlier;
            return Err(unfinished);
        }
        session.conversation = after;
        session.size.reprojected();
        usage.compaction = Some(result);
        usage.compacted += 1;
        return Ok(Compacted::Done);
    }
    failed.map_or(Ok(Compacted::Nothing), |why| Err(Unfinished::Failed(why)))
}

/// The reason of a compaction in its event.
pub(super) fn event_trigger(trigger: Trigger) -> CompactionTrigger {
    match trigger {
        Trigger::ContextLimit | Trigger::Manual => CompactionTrigger::ContextLimit,
        Trigger::Overflow => CompactionTrigger::Overflow,
    }
}

/// The part that no cut makes smaller: system prompt, tools, the question, the host's history, and the future summary.
fn fixed(active: &ActiveRun, session: &mut Session, question: &[Message]) -> u64 {
    let run = &active.run;
    /// The maximum estimate of a summary before it exists.
    const SUMMARY: u64 = 2_000;
    let summary = SUMMARY.min(share(active.window_budget().available(), 10));
    session
        .size
        .overhead(&run.context, run.tools())
        .saturating_add(estimate::message_tokens(question))
        .saturating_add(estimate::message_tokens(run.context.given_messages()))
        .saturating_add(summary)
}

fn slice<'a>(machine: &'a Machine, range: &Range<usize>) -> &'a [Message] {
    machine.messages().get(range.clone()).unwrap_or_default()
}
