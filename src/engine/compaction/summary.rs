//! The summary of one compaction of a running turn, and its record: how it is charged, and where it is written.
//!
//! It must never write after an abort.

use super::compactor::Compactor;
use super::options::Strategy;
use super::plan::left_out;
use super::summarise::{Unwritten, Work, summarise};
use super::summariser::{Requester, Summariser};
use crate::engine::active_run::ActiveRun;
use crate::engine::call::run_hook;
use crate::engine::context::{CompactionInput, Session};
use crate::engine::state::{JournalState, RunUsage, Unfinished};
use model::{CompactionCommit, CompactionResult, CompactionUsage, Message, TurnLease};
use turn::machine::Interrupt;

/// The part of the history that a compaction cuts.
#[derive(Clone, Copy)]
pub(super) struct CutOff<'a> {
    pub(super) input: &'a CompactionInput,
    /// The number of turns of the input, from the first.
    pub(super) turns: usize,
    /// Messages of the running turn.
    pub(super) current: &'a [Message],
    /// The user's messages that stay.
    pub(super) user_requests: &'a str,
}

/// The text in place of the cut part.
pub(super) enum SummaryOutcome {
    Written {
        text: String,
        usage: CompactionUsage,
    },
    /// Why there is none.
    Failed(String),
}

/// Makes the text in place of the cut part.
pub(super) async fn summary(
    active: &ActiveRun,
    compactor: &Compactor,
    strategy: Strategy,
    usage: &mut RunUsage,
    cut_off: CutOff<'_>,
) -> Result<SummaryOutcome, Unfinished> {
    let CutOff { input, turns, current, user_requests } = cut_off;
    let previous = input.previous();
    match strategy {
        Strategy::Summary => {}
        Strategy::SlidingWindow | Strategy::HardClear | Strategy::ToolResultTruncation => {
            let previous = previous.filter(|_| strategy == Strategy::SlidingWindow);
            let text = left_out(turns, previous.as_deref());
            return Ok(SummaryOutcome::Written { text, usage: CompactionUsage::free() });
        }
    }
    let summarised = input.turns.get(..turns).unwrap_or_default();
    let messages: Vec<Message> =
        summarised.iter().flat_map(|turn| &turn.messages).chain(current).cloned().collect();
    let work = Work {
        messages: &messages,
        previous: previous.as_deref(),
        user_requests,
        instructions: compactor.options.instructions.as_deref(),
    };
    let by = Requester {
        shared: &active.shared,
        payer: active.payer(),
        hook: run_hook(&active.run),
        bounds: active.run.bounds.clone(),
        events: Some(&active.queue),
        first_attempt: usage.next_attempt(),
        failed_calls: usage.failed(),
    };
    let mut summariser = Summariser::new(compactor, by);
    let written = summarise(&mut summariser, &work).await;
    let mut used = summariser.into_usage();
    usage.attempts.append(&mut used.attempts);
    if written.is_err() {
        usage.add(used.cost);
        usage.count_unseen(used.tokens, used.estimated);
    }
    match written {
        Ok(text) => Ok(SummaryOutcome::Written { text, usage: used }),
        Err(Unwritten::Failed(why)) => Ok(SummaryOutcome::Failed(why)),
        Err(Unwritten::Interrupted(cause)) => Err(Unfinished::Interrupted(cause)),
    }
}

/// A compaction to record.
#[derive(Clone, Copy)]
pub(super) struct WrittenCompaction<'a> {
    pub(super) id: &'a str,
    pub(super) result: &'a CompactionResult,
    pub(super) usage: &'a CompactionUsage,
}

/// Records the compaction, which becomes the session's head; false where it gets no turn of its own.
pub(super) async fn write(
    active: &ActiveRun,
    session: &mut Session,
    compaction: WrittenCompaction<'_>,
) -> Result<bool, Unfinished> {
    let Some(journal) = &active.shared.journal else { return Ok(false) };
    if active.run.bounds.abort.is_cancelled() {
        return Err(Unfinished::Interrupted(Interrupt::Abort));
    }
    let WrittenCompaction { id, result, usage } = compaction;
    let head = &mut session.head;
    let open_turn = match &head.journal {
        JournalState::Open(recorder) => {
            Some(TurnLease { turn_id: active.run.turn_id.clone(), epoch: recorder.epoch() })
        }
        JournalState::AtEnd => None,
        // The ledger refuses writes of this run; its answer is still delivered.
        JournalState::Refused(_) => return Ok(false),
    };
    let commit = CompactionCommit {
        id: id.to_owned(),
        header: active.run.header(head),
        open_turn,
        completed_at: active.shared.clock.now_ms(),
        compaction: result.clone(),
        usage: usage.clone(),
    };
    // Not under the guard: a submitted commit is always completed.
    journal.compact(Box::new(commit)).await.map_err(|error| Unfinished::Failed(error.message))?;
    head.parent_turn_id = Some(id.to_owned());
    head.expected_head = Some(id.to_owned());
    Ok(true)
}
