//! Counts the tokens of a context without running it: by estimate, or by the provider.
//!
//! It must never write, start a run, or return an estimate as a count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Dismissed, Ending, HookHost, ModelCall, PromptSize, call, request};
use super::context::{
    Conversation, GivenConversations, Joining, convert, join, message_bytes, settle_choice,
    tools_tokens,
};
use super::failover::{FailoverOptions, blame, candidate};
use super::limits::priority_of;
use super::providers::ProviderEntry;
use super::shared::{EngineShared, engine_closed};
use super::state::{Bounds, ModelTarget, RequestTemplate};
use base::error::EngineError;
use model::{
    AssembledContext, CallPurpose, Failure, FailureKind, GivenHistory, HistoryTurn, Journal,
    Message, ModelInfo, StorageError, TokenCount,
};
use provider::ModelRequest;
use tools::ToolSet;
use turn::fallback::Candidate;
use turn::machine::Interrupt;
use turn::prune::Pruned;
use turn::{estimate, retry};

/// The history before the current message.
enum Before {
    FromHost(GivenHistory),
    Turns(Vec<HistoryTurn>),
}

/// A context to count, and its model.
pub(crate) struct CountParts {
    context: AssembledContext,
    target: ModelTarget,
    candidate: Candidate,
    tool_set: Arc<ToolSet>,
    template: RequestTemplate,
}

impl CountParts {
    /// A count of `context` for `model` of `entry`.
    pub(crate) fn new(
        failover: &FailoverOptions,
        entry: &ProviderEntry,
        model: Arc<ModelInfo>,
        context: AssembledContext,
        tool_set: Arc<ToolSet>,
        template: RequestTemplate,
    ) -> Self {
        let target = ModelTarget {
            provider_name: context.provider.clone(),
            model_name: context.model.clone(),
            provider: Arc::clone(&entry.provider),
            model,
        };
        let pin = context.auth_profile_id.as_deref();
        let candidate = candidate(failover, &target, entry, pin);
        Self { context, target, candidate, tool_set, template }
    }
}

/// Counts the tokens of the first call of a run, with the tools that join it; with `exact` the provider counts, where its API supports
/// that.
pub(crate) async fn count(
    shared: Arc<EngineShared>,
    mut parts: CountParts,
    joining: Option<Joining>,
    exact: bool,
) -> Result<TokenCount, EngineError> {
    if let Some(joining) = joining {
        let bounds = bounds(&shared, &parts.context);
        // What is missing is in no result: `mcp.servers()` has the reasons.
        let CountParts { context, tool_set, .. } = &mut parts;
        join(context, tool_set, joining, &bounds, &mut HashMap::new()).await;
        settle_choice(&mut parts.context, &mut parts.template);
    }
    let CountParts { context, target, tool_set, template, .. } = &parts;
    let before = before(shared.journal.as_deref(), context).await?;
    shared.calibrations.refresh().await;
    let ratio = shared.calibrations.of(&context.provider, &context.model);
    let tools = tool_set.tools();
    let system_tokens = ratio.apply(estimate::text_tokens(&context.system_prompt));
    let tool_tokens = ratio.apply(tools_tokens(tools, context));
    let conversation = conversation(&shared.given, before, context, target).await;
    let message_tokens = ratio.apply(conversation.tokens());
    let estimated = TokenCount {
        tokens: system_tokens.saturating_add(tool_tokens).saturating_add(message_tokens),
        exact: false,
        system_tokens,
        tool_tokens,
        message_tokens,
        window: target.model.context_window,
        prompt_limit: target.model.prompt_limit(),
    };
    if !exact {
        return Ok(estimated);
    }
    conversation.sendable().map_err(|error| error.to_failure())?;
    let request = request(template, context, tools, target, &conversation, false);
    Ok(match count_exactly(&shared, &parts, request).await? {
        Some(tokens) => TokenCount { tokens, exact: true, ..estimated },
        None => estimated,
    })
}

/// A count ends with the context's time, or with the engine.
fn bounds(shared: &EngineShared, context: &AssembledContext) -> Bounds {
    let limit = Duration::from_millis(context.timeout_ms);
    Bounds { abort: shared.closing.clone(), deadline: shared.clock.instant() + limit, run: None }
}

/// Sends one request to the provider; it ends with the context's time, or with the engine.
async fn count_exactly(
    shared: &EngineShared,
    parts: &CountParts,
    request: ModelRequest,
) -> Result<Option<u64>, EngineError> {
    let CountParts { context, target, candidate, template, .. } = parts;
    let bounds = bounds(shared, context);
    let mut held = Duration::ZERO;
    let (profile, called) = loop {
        let profile = shared.keys.any(candidate.clone()).await?;
        let next = ModelCall {
            purpose: CallPurpose::Count,
            target,
            profile: profile.as_deref(),
            request: request.clone(),
            // It counts as a request, but its tokens are not processed.
            prompt: PromptSize::default(),
            number: 1,
            claim: priority_of(&context.session_label).into(),
            payer: None,
            hook: template.hook.as_ref().map(|host| HookHost { host, run_id: &context.run_id }),
            bounds: &bounds,
            events: None,
            held,
        };
        match call(shared, next).await {
            Ok(called) => break (profile, called),
            Err(Dismissed { held: so_far }) => held = so_far,
        }
    };
    match called.ending {
        Ending::Counted(tokens) => Ok(tokens),
        Ending::Completed(_) | Ending::Embedded(_) => Ok(None),
        Ending::Failed(failure) => {
            let failure = retry::judged(&failure).into_owned();
            if let Some(profile) = profile {
                blame(&shared.keys, &shared.governor, &profile, &context.model, &failure).await;
            }
            Err(failure.into())
        }
        Ending::Interrupted(Interrupt::Abort) => Err(engine_closed()),
        Ending::Interrupted(Interrupt::Timeout | Interrupt::Expired) => {
            let limit = context.timeout_ms;
            let message = format!("the provider did not count within `{limit}` ms");
            Err(Failure::new(FailureKind::Timeout, "timeout", message).into())
        }
    }
}

async fn before(
    journal: Option<&dyn Journal>,
    context: &AssembledContext,
) -> Result<Before, StorageError> {
    if let Some(history) = &context.history {
        return Ok(Before::FromHost(history.clone()));
    }
    let Some(journal) = journal else { return Ok(Before::FromHost(GivenHistory::default())) };
    let label = &journal.session_named(&context.session_label).await?;
    let mut history = journal.history(label, None, None).await?;
    if history.head.is_none()
        && let Some(parent) = &context.parent_turn_id
    {
        // A new session that begins at a turn of another one.
        history = journal.history(label, Some(parent), None).await?;
    }
    Ok(Before::Turns(history.turns))
}

/// The conversation that the first call of a run would send.
async fn conversation(
    given: &GivenConversations,
    before: Before,
    context: &AssembledContext,
    target: &ModelTarget,
) -> Conversation {
    let (transcript, provider) = (target.transcript(), Arc::clone(&target.provider));
    let mut conversation = match before {
        Before::FromHost(history) => {
            given.prepare(&history, transcript, provider, Pruned::new()).await
        }
        Before::Turns(turns) => {
            let bytes = message_bytes(turns.iter().flat_map(|turn| &turn.messages));
            convert(bytes, move || {
                let mut conversation = Conversation::new(transcript);
                turns.iter().for_each(|turn| conversation.push_turn(turn, provider.as_ref()));
                conversation
            })
            .await
        }
    };
    let current: Vec<Message> =
        context.current_turn.iter().chain([&context.current_message]).cloned().collect();
    conversation.push_current(&current, target.provider.as_ref());
    conversation
}
