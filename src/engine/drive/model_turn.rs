//! The model call of a run's machine: with a compaction before it if needed, and again after a refused prompt.
//!
//! It must never decide what follows a failure: `attempt` does.

use std::sync::Arc;

use super::attempt_outcome::AttemptOutcome;
use super::driver::Driver;
use crate::engine::active_run::ActiveRun;
use crate::engine::call::{
    Called, Dismissed, Ending, ModelCall, PromptSize, call, request, run_hook, unsupported,
};
use crate::engine::compaction::{Compacted, compaction_failure, make_room, prune, recover};
use crate::engine::context::{
    AnsweredCall, CompactionInput, Conversation, InputPosition, Session, convert, max_tokens,
    storage_error,
};
use crate::engine::limits::{Prepayment, RateKey, SpendingRecord, WorstCase, priority_of};
use crate::engine::state::{Run, RunUsage, Unfinished};
use base::telemetry;
use model::{
    CacheBreak, CacheChange, CachePart, CallPurpose, FailureKind, RequestOptions, StorageError,
    StreamEvent, ToolChoice,
};
use turn::fallback::Choice;
use turn::governor::Claim;
use turn::machine::{Interrupt, Machine, Reply};
use turn::transcript::Dropped;
use turn::usage::Estimated;

/// The result of calling the model.
pub(super) enum ModelTurn {
    /// Model and profile must be chosen again.
    ChooseAgain,
    Called(Box<Called>),
    /// The event that ends the run instead of a call.
    Ended(Box<AttemptOutcome>),
}

/// Calls the model. `tools_answered`: the run has a tool result already.
pub(super) async fn call_model(
    driver: &mut Driver,
    machine: &Machine,
    session: &mut Session,
    tools_answered: bool,
    usage: &mut RunUsage,
) -> ModelTurn {
    let mut seen = usage.compacted;
    let (active, pruning) = (&driver.active, driver.pruning);
    let compactor = driver.compactor.clone();
    let compactor = compactor.as_deref();
    session.size.ratio = active.ratio();
    if let Err(cause) = prune(active, pruning, machine, session, usage).await {
        return ModelTurn::interrupted(cause);
    }
    match make_room(active, compactor, machine, session, usage).await {
        Ok(()) => {}
        Err(Unfinished::Interrupted(cause)) => return ModelTurn::interrupted(cause),
        Err(Unfinished::Failed(error)) => {
            return ModelTurn::Ended(Box::new(AttemptOutcome::Broken(*error)));
        }
    }
    loop {
        if usage.compacted != seen {
            seen = usage.compacted;
            match Box::pin(renew_prompt(&mut driver.active, session)).await {
                Ok(()) => choose_after_compaction(&mut driver.active, session),
                Err(Unfinished::Interrupted(cause)) => return ModelTurn::interrupted(cause),
                Err(Unfinished::Failed(error)) => {
                    let broken = AttemptOutcome::Broken(storage_error(&error));
                    return ModelTurn::Ended(Box::new(broken));
                }
            }
        }
        let active = &driver.active;
        if let Err(error) = session.conversation.sendable() {
            let unsent = Called::unsent(Ending::Failed(error.to_failure()));
            return ModelTurn::Called(Box::new(unsent));
        }
        let sent_at = active.shared.clock.now_ms();
        let next = model_call(active, session, tools_answered, usage);
        let called = match call(&active.shared, next).await {
            Ok(called) => called,
            Err(Dismissed { held }) => {
                usage.held = held;
                return ModelTurn::ChooseAgain;
            }
        };
        if let Some(attempt) = &called.attempt {
            usage.record(attempt.clone(), called.cost);
        }
        match (&called.ending, &called.reply) {
            (Ending::Completed(_), Some(reply)) => {
                learn(active, reply, session);
                session.size.replied(reply, &session.conversation);
                let answered = AnsweredCall {
                    run: &active.run,
                    conversation: &session.conversation,
                    reply,
                    tools_answered,
                    sent_at,
                };
                let reprojections = session.size.reprojections();
                if let Some(broken) = session.watch.observe(&answered, reprojections) {
                    let attempt = usage.attempts.len();
                    Box::pin(report_break(active, machine, session, broken, attempt)).await;
                }
                return ModelTurn::Called(Box::new(called));
            }
            (Ending::Failed(failure), _)
                if failure.kind == FailureKind::ContextOverflow && !called.emitted => {}
            (
                Ending::Completed(_)
                | Ending::Counted(_)
                | Ending::Embedded(_)
                | Ending::Failed(_)
                | Ending::Interrupted(_),
                _,
            ) => return ModelTurn::Called(Box::new(called)),
        }
        match Box::pin(recover(active, compactor, machine, session, usage)).await {
            Ok(Compacted::Done) => usage.count_unseen(called.tokens(), called.is_estimated()),
            Ok(Compacted::Nothing) => return ModelTurn::Called(Box::new(called)),
            Err(Unfinished::Interrupted(cause)) => return ModelTurn::interrupted(cause),
            // A larger window needs no summary.
            Err(Unfinished::Failed(_)) if active.run.plan.has_larger() => {
                return ModelTurn::Called(Box::new(called));
            }
            Err(Unfinished::Failed(why)) => {
                let broken = AttemptOutcome::Broken(compaction_failure(&why));
                return ModelTurn::Ended(Box::new(broken));
            }
        }
    }
}

impl ModelTurn {
    fn interrupted(cause: Interrupt) -> Self {
        Self::Ended(Box::new(AttemptOutcome::interrupted(cause)))
    }
}

/// The plan's next step. A session without a profile gets one whose rate limits admit the call, if there is one.
pub(super) fn choose(active: &ActiveRun, session: &Session) -> Choice {
    let (shared, target) = (&active.shared, &active.run.target);
    let tokens = session.size.estimate(&session.conversation);
    let busy = |id: &str| {
        let key = RateKey::new(&target.provider_name, Some(id), &target.model_name);
        shared.governor.is_busy(&key, tokens)
    };
    shared.keys.choose(&active.run.plan, active.remaining(), &busy)
}

/// Prepares the reservation of the next call of the model that is tried first, for the write before it. `opens`: the turn is about to
/// begin with these messages of a queue. What waits first, or is compacted first, is not reserved ahead.
pub(super) async fn prepay<'a>(
    active: &'a ActiveRun,
    session: &mut Session,
    opens: Option<&[String]>,
) -> Option<Prepayment<'a>> {
    let (shared, run) = (&active.shared, &active.run);
    session.size.ratio = active.ratio();
    session.size.overhead(&run.context, run.tools());
    let needed = session.size.needed(&session.conversation);
    let Choice::Use(profile) = choose(active, session) else { return None };
    let (provider, model) = (&run.target.provider_name, &run.target.model_name);
    let key = RateKey::new(provider, profile.as_deref(), model);
    if needed > active.window_budget().limit() || shared.governor.is_busy(&key, needed) {
        return None;
    }
    let worst = WorstCase {
        prompt_tokens: session.size.worst(&session.conversation),
        answer_tokens: max_tokens(&run.context, &run.target.model),
    };
    let record = SpendingRecord { journal: shared.journal.as_ref(), clock: &shared.clock };
    shared.budgets.prepay(record, &active.payer(), &run.target.model, worst, opens).await
}

/// Sets the profile in use.
pub(super) fn use_profile(active: &mut ActiveRun, profile: Option<String>) {
    let run = &mut active.run;
    if let Some(id) = profile.as_deref().filter(|_| run.profile != profile) {
        active.shared.keys.picked(id);
    }
    run.plan.using(profile.as_deref());
    run.profile = profile;
}

/// The history was compacted: the cached prefix is useless now, so that the system prompt may change as well. What a tool has
/// changed in this turn is in it, and the next turn begins with the same prompt.
async fn renew_prompt(
    active: &mut ActiveRun,
    session: &mut Session,
) -> Result<(), Unfinished<StorageError>> {
    let Run { queued, bounds, context, .. } = &mut active.run;
    let Some(source) = queued.as_mut().and_then(|it| it.prompt.as_mut()) else { return Ok(()) };
    if let Some(prompt) = bounds.try_guard(source.renewed()).await? {
        context.system_prompt = prompt;
        session.size.prompt_changed();
    }
    Ok(())
}

/// The history was compacted: the profile may be another one, because its provider has no prefix of the session any more.
fn choose_after_compaction(active: &mut ActiveRun, session: &Session) {
    let run = &mut active.run;
    run.plan.compacted();
    active.shared.keys.stick(&run.context.session_label, &run.target.provider_name, None);
    if let Choice::Use(profile) = choose(active, session) {
        use_profile(active, profile);
    }
}

/// Builds the next call; options that the request cannot express become warnings of the run.
fn model_call<'a>(
    active: &'a ActiveRun,
    session: &Session,
    tools_answered: bool,
    usage: &mut RunUsage,
) -> ModelCall<'a> {
    let Session { conversation, size, .. } = session;
    let run = &active.run;
    let tools = run.tools();
    let mut request =
        request(&run.template, &run.context, tools, &run.target, conversation, tools_answered);
    if let Some(choice) = &run.step.tool_choice {
        request.forces_tool = matches!(choice, ToolChoice::Required | ToolChoice::Tool { .. });
        let tool_choice = Some(choice.clone());
        request.options =
            Arc::new(RequestOptions { tool_choice, ..request.options.as_ref().clone() });
    }
    if usage.warnings.is_none() {
        usage.warnings = Some(unsupported(run, &request));
    }
    report_dropped(conversation);
    ModelCall {
        purpose: CallPurpose::Run,
        target: &run.target,
        profile: run.profile.as_deref(),
        request,
        prompt: PromptSize {
            needed: size.needed(conversation),
            worst: size.worst(conversation),
            estimate: Estimated {
                tokens: size.ratio.apply(size.prompt(conversation)),
                text: size.prompt_text(conversation),
            },
        },
        number: usage.next_attempt(),
        claim: Claim {
            priority: priority_of(&run.context.session_label),
            last: run.plan.is_last_request(),
        },
        payer: Some(active.payer()),
        hook: run_hook(run),
        bounds: &run.bounds,
        events: Some(&active.queue),
        held: usage.held,
    }
}

/// Calibrates the model's token count from an answer: its reported prompt tokens, compared with the estimate.
fn learn(active: &ActiveRun, reply: &Reply, session: &mut Session) {
    // Tokens that provider-run tools read are in the provider's count, but not in the estimate.
    if reply.usage_estimated || !active.run.context.request.provider_tools.is_empty() {
        return;
    }
    let reported = reply.usage.prompt_tokens();
    let estimated = session.size.prompt(&session.conversation);
    let target = &active.run.target;
    let calibrations = &active.shared.calibrations;
    calibrations.learn(&target.provider_name, &target.model_name, reported, estimated);
    session.size.ratio = active.ratio();
}

/// Emits the break of the prompt cache, with the id of the message.
async fn report_break(
    active: &ActiveRun,
    machine: &Machine,
    session: &mut Session,
    mut broken: CacheBreak,
    attempt: usize,
) {
    broken.attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
    let is_there =
        broken.part == Some(CachePart::Message) && broken.change != Some(CacheChange::Removed);
    if let Some(at) = broken.index.filter(|_| is_there) {
        let shared = &active.shared;
        let (now, position) = (shared.clock.now_ms(), InputPosition::of(session));
        let journal = shared.journal.as_ref();
        let input = CompactionInput::read(&active.run, journal, position, now).await;
        // If the history cannot be read now, the id is null; the index is still set.
        if let Ok(input) = input {
            let given = active.run.context.history.clone().unwrap_or_default();
            let (target, current) = (active.run.target.transcript(), machine.messages().to_vec());
            let bytes = given.bytes().saturating_add(input.bytes());
            broken.message_id = convert(bytes, move || {
                let messages = input.projected(target, &given, &current);
                let message = messages.get(usize::try_from(at).ok()?)?;
                Some(message.id.clone())
            })
            .await;
        }
    }
    telemetry::cache_broke(&active.run.turn_id, &broken);
    let cache_break = Box::new(broken.clone());
    active.queue.event(|seq| StreamEvent::CacheBreak { cache_break, seq });
    session.watch.add_break(broken);
}

fn report_dropped(conversation: &Conversation) {
    let Dropped { thinking, opaque, calls, results, other: _ } = conversation.dropped();
    if thinking + opaque + calls + results > 0 {
        telemetry::left_out(thinking, opaque, calls, results);
    }
}
