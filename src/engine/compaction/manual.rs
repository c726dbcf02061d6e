//! A compaction that somebody asks for: of a session, between its turns.
//!
//! It waits for the session's turn in this process and writes under no lease: a run of another process that began before
//! goes on after it (RULES §5). It must never write after it was cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::Engine;
use super::super::budgets::Payer;
use super::super::outcome::millis;
use super::plan::{Scope, cut_by, left_out, seed_trigger, summary_turn};
use super::summarise::{Summariser, Summary, Work, asks};
use super::{CompactionOptions, Compactor, Strategy};
use crate::error::{EngineError, ErrorCode};
use crate::model::{
    AgentRole, CompactionResult, CompactionStep, HistoryTurn, Message, OnStaleHead, StopReason,
    StorageError, StorageErrorKind, TokenUsage, TurnCommit, TurnStatus, summary_text,
};
use crate::turn::compact::{Budget, Cut, Trigger};
use crate::turn::estimate;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct ManualCompaction {
    /// The session.
    pub session_label: String,
    /// What the summariser should mind; the options' where `None`.
    pub instructions: Option<String>,
    /// The summariser's provider.
    pub provider: Option<String>,
    /// Its model. Where neither is given: the options', or those of the session's last answer.
    pub model: Option<String>,
}

impl Engine {
    /// Compacts a session now. `None` where there is nothing to summarise, or `cancel` came first.
    ///
    /// # Errors
    /// The session, the provider or the model is unknown; the summariser failed; the ledger did. The history is as it was.
    pub async fn compact(
        &self,
        asked: ManualCompaction,
        cancel: CancellationToken,
    ) -> Result<Option<CompactionResult>, EngineError> {
        let core = &self.core;
        let journal = core.journal.as_ref().ok_or_else(|| {
            EngineError::new(ErrorCode::NoLedger, "the engine has no ledger to compact")
        })?;
        let label = journal.session_named(&asked.session_label).await?;
        let label = label.as_str();
        let work = async {
            let lane = core.sessions.queue(label).enter().await;
            let history = journal.history(label, None, None).await?;
            if !history.exists {
                return Err(StorageError::new(
                    StorageErrorKind::UnknownSession,
                    format!("`{label}` is no session of the ledger"),
                )
                .into());
            }
            let head = history.head.clone();
            let scope = Scope::of(history.summarised, history.turns);
            let Some(compactor) = self.summariser_of(&asked, &scope)? else { return Ok(None) };
            let found = self.manual_plan(&compactor, &scope, label).await?;
            Ok::<_, EngineError>(found.zip(head).map(|found| (lane, scope, compactor, found)))
        };
        let found = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(None),
            found = work => found?,
        };
        let Some((lane, scope, compactor, ((cut, strategy, summary, took), head))) = found else {
            return Ok(None);
        };
        let step =
            self.manual_step(label, &compactor, &scope, (cut, strategy), summary, took, head);
        let result = step.compaction.clone();
        journal.compact(Box::new(step)).await?;
        drop(lane);
        Ok(Some(result))
    }

    /// Who summarises; `None` for a session without an answer, which has nothing to summarise.
    fn summariser_of(
        &self,
        asked: &ManualCompaction,
        scope: &Scope,
    ) -> Result<Option<Compactor>, EngineError> {
        let mut options = self.core.compaction.clone().unwrap_or_default();
        if asked.instructions.is_some() {
            options.instructions.clone_from(&asked.instructions);
        }
        let messages = || scope.turns.iter().rev().flat_map(|turn| turn.messages.iter().rev());
        let Some(last) = messages().find_map(|message| message.provenance.as_ref()) else {
            return Ok(None);
        };
        let first = |asked: &Option<String>, set: &Option<String>, last: &str| {
            asked.clone().or_else(|| set.clone()).unwrap_or_else(|| last.to_owned())
        };
        let provider_name = first(&asked.provider, &options.provider, &last.provider);
        let model_name = first(&asked.model, &options.model, &last.model);
        let entry = self.provider_named(&provider_name)?;
        let model = self.model_named(&provider_name, &model_name, entry.provider.api())?;
        Ok(Some(Compactor {
            options,
            provider: Arc::clone(&entry.provider),
            keys: Arc::clone(&self.core.keys),
            seat: self.seat(&provider_name, &model, &model_name, entry, None),
            provider_name,
            model_name,
            model,
        }))
    }

    async fn manual_plan(
        &self,
        compactor: &Compactor,
        scope: &Scope,
        label: &str,
    ) -> Result<Option<(Cut, Strategy, Summary, Duration)>, EngineError> {
        let window = compactor.model.context_window;
        let reserve_response = compactor.model.max_output_tokens.min(window / 4);
        let budget = Budget { window, reserve_response, reserve_tools: 0 };
        let CompactionOptions { strategies, preset, instructions, .. } = &compactor.options;
        let mut failed = None;
        for strategy in strategies {
            // Asked for, so that what would fit is cut too, down to the least that stays.
            let cut = [budget.target(Trigger::Manual), 0]
                .into_iter()
                .find_map(|target| {
                    cut_by(*strategy, *preset, scope, &[], (0, target, budget.limit()))
                })
                .filter(|cut| cut.turns > 0);
            let Some(cut) = cut else { continue };
            let began = self.core.clock.instant();
            let (gone, kept) = scope.turns.split_at_checked(cut.turns).unwrap_or((&[], &[]));
            let previous = scope.previous();
            let summary = if *strategy == Strategy::Summary {
                let messages: Vec<Message> =
                    gone.iter().flat_map(|turn| &turn.messages).cloned().collect();
                let stays = asks(kept.iter().flat_map(|turn| &turn.messages));
                let work = Work {
                    messages: &messages,
                    previous: previous.as_deref(),
                    asks: &stays,
                    instructions: instructions.as_deref(),
                };
                let payer = Payer { turn_id: None, session_label: label, follows: None };
                let mut summariser = Summariser::new(compactor, &self.core, payer);
                match summariser.run(&work).await {
                    Ok(text) => Summary { text, ..summariser.spent() },
                    Err(why) => {
                        failed = Some(why);
                        continue;
                    }
                }
            } else {
                let previous = previous.filter(|_| *strategy == Strategy::SlidingWindow);
                Summary { text: left_out(cut.turns, previous.as_deref()), ..Summary::default() }
            };
            let took = self.core.clock.instant().saturating_duration_since(began);
            return Ok(Some((cut, *strategy, summary, took)));
        }
        failed.map_or(Ok(None), |why| {
            let message = format!("the session is as it was: {why}");
            Err(EngineError::new(ErrorCode::CompactionFailed, message))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one compaction, used once")]
    fn manual_step(
        &self,
        label: &str,
        compactor: &Compactor,
        scope: &Scope,
        (cut, strategy): (Cut, Strategy),
        summary: Summary,
        took: Duration,
        head: String,
    ) -> CompactionStep {
        let clock = &self.core.clock;
        let id = clock.new_id();
        let now = clock.now_ms();
        let text = summary_text(&summary.text);
        let told = summary_turn(&id, &text, now);
        let (gone, kept) = scope.turns.split_at_checked(cut.turns).unwrap_or((&[], &[]));
        let tokens = |turn: &HistoryTurn| estimate::message_tokens(&turn.messages);
        let kept_tokens: u64 = kept.iter().map(tokens).sum();
        let gone_tokens: u64 = gone.iter().chain(&scope.summary).map(tokens).sum();
        let summary_tokens = tokens(&told);
        let compaction = CompactionResult {
            summary: summary.text,
            summarized_through_turn_id: gone
                .last()
                .map_or_else(|| head.clone(), |turn| turn.id.clone()),
            first_kept_turn_id: kept.first().map_or_else(|| id.clone(), |turn| turn.id.clone()),
            turns_summarized: u64::try_from(gone.len()).unwrap_or(u64::MAX),
            model: compactor.model_name.clone(),
            provider: compactor.provider_name.clone(),
            tokens_before: kept_tokens.saturating_add(gone_tokens),
            tokens_after: kept_tokens.saturating_add(summary_tokens),
            summary_tokens,
            summarization_input_tokens: summary.input_tokens,
            summarization_output_tokens: summary.output_tokens,
            duration_ms: millis(took),
            trigger: seed_trigger(Trigger::Manual).to_owned(),
            compaction_type: strategy.as_str().to_owned(),
        };
        let turn = TurnCommit {
            turn_id: id.clone(),
            run_id: format!("compact-{id}"),
            session_label: label.to_owned(),
            parent_turn_id: Some(head.clone()),
            expected_head: Some(head),
            move_pointer: true,
            status: TurnStatus::Completed,
            stop_reason: StopReason::EndTurn,
            started_at: now.saturating_sub_unsigned(millis(took)),
            completed_at: now,
            provider: compactor.provider_name.clone(),
            model: compactor.model_name.clone(),
            role: AgentRole::Unified,
            toolset_name: String::new(),
            tools_available: Vec::new(),
            permissions_granted: "[]".to_owned(),
            usage: TokenUsage::default(),
            usage_estimated: false,
            context_tokens: None,
            cost: None,
            query_message_ids: Vec::new(),
            response_message_id: None,
            source_event_id: None,
            workspace_path: String::new(),
            error: None,
            attempts: Vec::new(),
            messages: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_count: 0,
            compaction: None,
            epoch: None,
            on_stale_head: OnStaleHead::Refuse,
            last_event: None,
            cache: None,
        };
        CompactionStep { id, turn, compaction }
    }
}
