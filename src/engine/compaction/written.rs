//! The summary of one compaction of a running turn, and its record: who pays for it, and where it is written.
//!
//! It must never write after an abort.

use super::super::call::RunUsage;
use super::super::driver::Run;
use super::super::record::Writing;
use super::super::session::Session;
use super::options::Strategy;
use super::plan::{Scope, left_out};
use super::question::Requester;
use super::summarise::{Summariser, Unwritten, Work};
use super::{Compactor, Stopped};
use model::{CompactionResult, CompactionStep, CompactionUsage, Message};
use turn::compact::Cut;
use turn::machine::Interrupt;

impl Run {
    /// The text that stands for what is cut, and what it cost to make. Its error is why there is none.
    pub(super) async fn summary(
        &self,
        compactor: &Compactor,
        strategy: Strategy,
        spent: &mut RunUsage,
        (scope, cut, current): (&Scope, Cut, &[Message]),
        stays: &str,
    ) -> Result<Result<(String, CompactionUsage), String>, Stopped> {
        let previous = scope.previous();
        match strategy {
            Strategy::Summary => {}
            Strategy::SlidingWindow | Strategy::HardClear | Strategy::ToolResultTruncation => {
                let previous = previous.filter(|_| strategy == Strategy::SlidingWindow);
                let text = left_out(cut.turns, previous.as_deref());
                return Ok(Ok((text, CompactionUsage::free())));
            }
        }
        let turns = scope.turns.get(..cut.turns).unwrap_or_default();
        let messages: Vec<Message> =
            turns.iter().flat_map(|turn| &turn.messages).chain(current).cloned().collect();
        let work = Work {
            messages: &messages,
            previous: previous.as_deref(),
            asks: stays,
            instructions: compactor.options.instructions.as_deref(),
        };
        let by = Requester {
            core: &self.core,
            payer: self.payer(),
            hook: self.hook(),
            bounds: self.bounds.clone(),
            events: Some(&self.queue),
            first_attempt: spent.next_attempt(),
            failed_calls: spent.failed(),
        };
        let mut summariser = Summariser::new(compactor, by);
        let written = summariser.run(&work).await;
        let mut used = summariser.into_usage();
        spent.attempts.append(&mut used.attempts);
        if written.is_err() {
            spent.add(used.cost);
            spent.count_unseen(used.tokens, used.estimated);
        }
        match written {
            Ok(text) => Ok(Ok((text, used))),
            Err(Unwritten::Failed(why)) => Ok(Err(why)),
            Err(Unwritten::Interrupted(cause)) => Err(Stopped::Interrupted(cause)),
        }
    }

    /// Writes the compaction, from where on the session's head is it; false where it has no turn of its own.
    pub(super) async fn write(
        &self,
        session: &mut Session,
        id: &str,
        result: &CompactionResult,
        used: &CompactionUsage,
    ) -> Result<bool, Stopped> {
        let Some(journal) = &self.core.journal else { return Ok(false) };
        if self.control.abort_token().is_cancelled() {
            return Err(Stopped::Interrupted(Interrupt::Abort));
        }
        let mut turn = self.opening().turn;
        turn.parent_turn_id.clone_from(&session.parent_turn_id);
        turn.expected_head.clone_from(&session.expected_head);
        turn.epoch = match &session.writing {
            Writing::Open(recorder) => Some(recorder.epoch()),
            Writing::AtEnd => None,
            // The ledger takes nothing of this run; its answer still reaches its reader.
            Writing::Refused(_) => return Ok(false),
        };
        turn.completed_at = self.core.clock.now_ms();
        let step = CompactionStep {
            id: id.to_owned(),
            turn,
            compaction: result.clone(),
            usage: used.clone(),
        };
        // Not under the guard: handed over, it is written.
        journal.compact(Box::new(step)).await.map_err(|error| Stopped::Failed(error.message))?;
        session.parent_turn_id = Some(id.to_owned());
        session.expected_head = Some(id.to_owned());
        Ok(true)
    }
}
