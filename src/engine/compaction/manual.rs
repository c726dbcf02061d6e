//! A compaction that a host requests: of a session, between its turns.
//!
//! It waits for the session's lane in this process and writes without a lease: a run of another process that began before
//! it continues after it (docs/rules/sessions-and-ledger.md#pointer-write). It must never write after it was cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::compactor::Compactor;
use super::options::{CompactionOptions, Strategy};
use super::plan::{CutSizes, cut_by, left_out, seed_trigger};
use super::summarise::{Unwritten, Work, summarise, user_requests};
use super::summariser::{Requester, Summariser};
use crate::engine::call::HookHost;
use crate::engine::context::{CompactionInput, summary_turn};
use crate::engine::failover::{FailoverOptions, candidate};
use crate::engine::limits::Payer;
use crate::engine::providers::Providers;
use crate::engine::shared::EngineShared;
use crate::engine::state::{Bounds, ModelTarget, millis};
use base::error::{EngineError, ErrorCode};
use model::{
    AgentRole, CompactionCommit, CompactionResult, CompactionUsage, HistoryTurn, Message,
    StorageError, StorageErrorKind, TurnHeader, summary_text,
};
use provider::RequestHost;
use turn::calibration::Ratio;
use turn::compact::{Budget, Cut, Trigger};
use turn::estimate;

/// The parameters of the host.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManualCompaction {
    /// The session.
    pub session_label: String,
    /// Instructions for the summariser; those of the options where `None`.
    pub instructions: Option<String>,
    /// The summariser's provider.
    pub provider: Option<String>,
    /// Its model. Default of both: the options, or the session's last answer.
    pub model: Option<String>,
}

/// The ids of a compaction.
#[derive(Clone, Copy)]
struct Names<'a> {
    /// The ULID of its turn.
    id: &'a str,
    run_id: &'a str,
    label: &'a str,
    /// Its parent.
    head: &'a str,
}

/// A compaction that reached its target.
struct ManualSummary {
    cut: Cut,
    strategy: Strategy,
    text: String,
    used: CompactionUsage,
    took: Duration,
}

/// The parts that a manual compaction uses.
#[derive(Clone, Copy)]
pub(crate) struct ManualParts<'a> {
    pub(crate) shared: &'a EngineShared,
    pub(crate) providers: &'a Providers,
    pub(crate) options: Option<&'a CompactionOptions>,
    pub(crate) failover: &'a FailoverOptions,
}

/// Compacts a session now. `None` where there is nothing to summarise, or `cancel` came first. `host` inspects the
/// summariser's requests before they are sent.
///
/// # Errors
/// The session, the provider or the model is unknown; the summariser failed; the ledger failed. The history is unchanged.
pub(crate) async fn compact_session(
    parts: ManualParts<'_>,
    request: ManualCompaction,
    cancel: CancellationToken,
    host: Option<Arc<dyn RequestHost>>,
) -> Result<Option<CompactionResult>, EngineError> {
    let shared = parts.shared;
    let journal = shared.journal.as_ref().ok_or_else(|| {
        EngineError::new(ErrorCode::NoLedger, "the engine has no ledger to compact")
    })?;
    let label = journal.session_named(&request.session_label).await?;
    let label = label.as_str();
    let entering = async {
        let lane = shared.lanes.queue(label).enter().await;
        Ok::<_, StorageError>((lane, journal.history(label, None, None).await?))
    };
    let (lane, history) = tokio::select! {
        biased;
        () = cancel.cancelled() => return Ok(None),
        entered = entering => entered?,
    };
    if !history.exists {
        let message = format!("`{label}` is no session of the ledger");
        return Err(StorageError::new(StorageErrorKind::UnknownSession, message).into());
    }
    let Some(head) = history.head.clone() else { return Ok(None) };
    let input = CompactionInput::of(history.summarised, history.turns);
    let Some(compactor) = manual_compactor(parts, &request, &input)? else { return Ok(None) };
    let id = shared.clock.new_id();
    let names = Names { id: &id, run_id: &format!("compact-{id}"), label, head: &head };
    let outcome = manual_plan(shared, &compactor, &input, names, &cancel, host).await?;
    let Some(outcome) = outcome else { return Ok(None) };
    let commit = manual_commit(shared, names, &compactor, &input, outcome);
    let result = commit.compaction.clone();
    journal.compact(Box::new(commit)).await?;
    drop(lane);
    Ok(Some(result))
}

/// The summariser; `None` for a session without an answer, which has nothing to summarise.
fn manual_compactor(
    parts: ManualParts<'_>,
    request: &ManualCompaction,
    input: &CompactionInput,
) -> Result<Option<Compactor>, EngineError> {
    let mut options = parts.options.cloned().unwrap_or_default();
    if request.instructions.is_some() {
        options.instructions.clone_from(&request.instructions);
    }
    let messages = || input.turns.iter().rev().flat_map(|turn| turn.messages.iter().rev());
    let Some(last) = messages().find_map(|message| message.provenance.as_ref()) else {
        return Ok(None);
    };
    let first = |requested: &Option<String>, set: &Option<String>, last: &str| {
        requested.clone().or_else(|| set.clone()).unwrap_or_else(|| last.to_owned())
    };
    let provider_name = first(&request.provider, &options.provider, &last.provider);
    let model_name = first(&request.model, &options.model, &last.model);
    let entry = parts.providers.named(&provider_name)?;
    let model = parts.providers.model(&provider_name, &model_name, entry.provider.api())?;
    let provider = Arc::clone(&entry.provider);
    let target = ModelTarget { provider_name, model_name, provider, model };
    let candidate = candidate(parts.failover, &target, entry, None);
    Ok(Some(Compactor { options, target, candidate, retries: parts.failover.max_retries }))
}

/// The calibration of the summariser's model, because the model of the next run is unknown.
fn ratio_of(shared: &EngineShared, compactor: &Compactor) -> Ratio {
    let ModelTarget { provider_name, model_name, .. } = &compactor.target;
    shared.calibrations.of(provider_name, model_name)
}

async fn manual_plan(
    shared: &EngineShared,
    compactor: &Compactor,
    input: &CompactionInput,
    names: Names<'_>,
    cancel: &CancellationToken,
    host: Option<Arc<dyn RequestHost>>,
) -> Result<Option<ManualSummary>, EngineError> {
    let window = compactor.target.model.context_window;
    let reserve_response = compactor.target.model.max_output_tokens.min(window / 4);
    let budget = Budget { window, reserve_response, reserve_tools: 0 };
    shared.calibrations.refresh().await;
    let ratio = ratio_of(shared, compactor);
    let CompactionOptions { strategies, preset, instructions, .. } = &compactor.options;
    let mut failed = None;
    // The usage of the strategies that failed before the successful one.
    let mut before = CompactionUsage::free();
    for strategy in strategies {
        // The host requested it, so a history that would fit is cut too, down to the minimum.
        let cut = [budget.target(Trigger::Manual), 0]
            .into_iter()
            .find_map(|target| {
                let sizes = CutSizes {
                    fixed: 0,
                    target: ratio.undo(target),
                    limit: ratio.undo(budget.limit()),
                };
                cut_by(*strategy, *preset, input, &[], sizes)
            })
            .filter(|cut| cut.turns > 0);
        let Some(cut) = cut else { continue };
        let began = shared.clock.instant();
        let (summarised, remaining) = input.turns.split_at_checked(cut.turns).unwrap_or((&[], &[]));
        let previous = input.previous();
        let (text, used) = if *strategy == Strategy::Summary {
            let messages: Vec<Message> =
                summarised.iter().flat_map(|turn| &turn.messages).cloned().collect();
            let user_requests = user_requests(remaining.iter().flat_map(|turn| &turn.messages));
            let work = Work {
                messages: &messages,
                previous: previous.as_deref(),
                user_requests: &user_requests,
                instructions: instructions.as_deref(),
            };
            let limit = Duration::from_millis(compactor.options.timeout_ms);
            let by = Requester {
                shared,
                payer: Payer {
                    turn_id: None,
                    session_label: names.label,
                    follows: None,
                    budget: None,
                },
                hook: host.as_ref().map(|host| HookHost { host, run_id: names.run_id }),
                // Never reached: the limit of the compaction ends first.
                bounds: Bounds {
                    abort: cancel.clone(),
                    deadline: began + limit.saturating_mul(2),
                    run: None,
                },
                events: None,
                first_attempt: 1,
                failed_calls: 0,
            };
            let mut summariser = Summariser::new(compactor, by);
            match summarise(&mut summariser, &work).await {
                Ok(text) => (text, summariser.into_usage()),
                Err(Unwritten::Interrupted(_)) => return Ok(None),
                Err(Unwritten::Failed(why)) => {
                    before = before.plus(summariser.into_usage());
                    failed = Some(why);
                    continue;
                }
            }
        } else {
            let previous = previous.filter(|_| *strategy == Strategy::SlidingWindow);
            (left_out(cut.turns, previous.as_deref()), CompactionUsage::free())
        };
        let took = shared.clock.instant().saturating_duration_since(began);
        let used = before.plus(used);
        return Ok(Some(ManualSummary { cut, strategy: *strategy, text, used, took }));
    }
    failed.map_or(Ok(None), |why| {
        let message = format!("the session is unchanged: {why}");
        Err(EngineError::new(ErrorCode::CompactionFailed, message))
    })
}

fn manual_commit(
    shared: &EngineShared,
    names: Names<'_>,
    compactor: &Compactor,
    input: &CompactionInput,
    outcome: ManualSummary,
) -> CompactionCommit {
    let ManualSummary { cut, strategy, text: summary, used, took } = outcome;
    let (id, head) = (names.id.to_owned(), names.head.to_owned());
    let now = shared.clock.now_ms();
    let text = summary_text(&summary);
    let summary_turn = summary_turn(&id, &text, now);
    let (summarised, remaining) = input.turns.split_at_checked(cut.turns).unwrap_or((&[], &[]));
    let ratio = ratio_of(shared, compactor);
    let tokens = |turn: &HistoryTurn| ratio.apply(estimate::message_tokens(&turn.messages));
    let remaining_tokens: u64 = remaining.iter().map(tokens).sum();
    let summarised_tokens: u64 = summarised.iter().chain(&input.summary).map(tokens).sum();
    let summary_tokens = tokens(&summary_turn);
    let compaction = CompactionResult {
        summary,
        summarized_through_turn_id: summarised
            .last()
            .map_or_else(|| head.clone(), |turn| turn.id.clone()),
        first_kept_turn_id: remaining.first().map_or_else(|| id.clone(), |turn| turn.id.clone()),
        turns_summarized: u64::try_from(summarised.len()).unwrap_or(u64::MAX),
        model: compactor.target.model_name.clone(),
        provider: compactor.target.provider_name.clone(),
        tokens_before: remaining_tokens.saturating_add(summarised_tokens),
        tokens_after: remaining_tokens.saturating_add(summary_tokens),
        summary_tokens,
        summarization_input_tokens: used.tokens.prompt_tokens(),
        summarization_output_tokens: used.tokens.output_tokens,
        duration_ms: millis(took),
        trigger: seed_trigger(Trigger::Manual).to_owned(),
        compaction_type: strategy.as_str().to_owned(),
    };
    // It belongs to no run: it has no role, no tools and no workspace.
    let header = TurnHeader {
        run_id: names.run_id.to_owned(),
        session_label: names.label.to_owned(),
        parent_turn_id: Some(head.clone()),
        expected_head: Some(head),
        started_at: now.saturating_sub_unsigned(millis(took)),
        role: AgentRole::Unified,
        toolset_name: String::new(),
        source_event_id: None,
        workspace_path: String::new(),
    };
    CompactionCommit { id, header, open_turn: None, completed_at: now, compaction, usage: used }
}
