//! Counting the tokens of a context without running it: by estimate, or by asking the provider.
//!
//! It must never write, start a run, or pass an estimate for a count.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::call::RequestTemplate;
use super::call::{Bounds, Dismissed, Ending, HookHost, ModelCall, ModelTarget, PromptSize};
use super::conversation::Conversation;
use super::governor::priority_of;
use super::{Core, Engine, Resolved, closed};
use base::error::EngineError;
use model::{
    AssembledContext, CallPurpose, Failure, FailureKind, HistoryTurn, Journal, Message, ModelInfo,
    StorageError, TokenCount, ToolDefinition,
};
use provider::{ModelRequest, Provider, RequestHost};
use turn::fallback::Seat;
use turn::machine::Interrupt;
use turn::transcript::{Projector, Target};
use turn::{estimate, retry};

/// What stands before the current message.
enum Before {
    Given(Vec<Message>),
    Turns(Vec<HistoryTurn>),
}

impl Engine {
    /// Counts what a run of `context` would send with its first call, from the session's history as it is now: a running
    /// turn of the session is not waited for. With `exact` the provider is asked where its API has a way, and `hook` looks
    /// at that request.
    ///
    /// # Errors
    /// As [`Engine::start`]; the future's: the ledger failed, or the provider did.
    pub fn count_tokens(
        &self,
        mut context: AssembledContext,
        exact: bool,
        hook: Option<Arc<dyn RequestHost>>,
    ) -> Result<impl Future<Output = Result<TokenCount, EngineError>> + Send + use<>, EngineError>
    {
        self.core.offer_recall(&mut context)?;
        let Resolved { entry, model, tool_set, headers } = self.resolve(&context)?;
        let provider = Arc::clone(&entry.provider);
        let pin = context.auth_profile_id.as_deref();
        let seat = self.seat(&context.provider, &model, &context.model, entry, pin);
        let core = Arc::clone(&self.core);
        Ok(async move {
            let before = before(core.journal.as_deref(), &context).await?;
            let target = || Target {
                api: provider.api(),
                provider: context.provider.clone(),
                model: context.model.clone(),
                rules: provider.transcript_rules(),
            };
            core.calibrations.look().await;
            let ratio = core.calibrations.of(&context.provider, &context.model);
            let system_tokens = ratio.apply(estimate::text_tokens(&context.system_prompt));
            let tool_tokens = ratio.apply(tools_tokens(tool_set.tools(), &context));
            let messages = messages_tokens(Projector::new(target()), &before, &context);
            let message_tokens = ratio.apply(messages);
            let estimated = TokenCount {
                tokens: system_tokens.saturating_add(tool_tokens).saturating_add(message_tokens),
                exact: false,
                system_tokens,
                tool_tokens,
                message_tokens,
                window: model.context_window,
                prompt_limit: model.prompt_limit(),
            };
            if !exact {
                return Ok(estimated);
            }
            let mut conversation = Conversation::new(target());
            match &before {
                Before::Given(messages) => conversation.push_flat(messages, provider.as_ref()),
                Before::Turns(turns) => {
                    turns.iter().for_each(|turn| conversation.push_turn(turn, provider.as_ref()));
                }
            }
            let current = std::slice::from_ref(&context.current_message);
            conversation.push_current(current, provider.as_ref());
            conversation.sendable().map_err(|error| error.to_failure())?;
            let template = RequestTemplate::of(&context, headers, None);
            let tools = tool_set.tools();
            let provider = provider.as_ref();
            let request = template.request(&context, tools, &model, &conversation, provider, false);
            let asked = Exact { context: &context, provider, model: &model, hook: hook.as_ref() };
            Ok(match core.count_exactly(asked, seat, request).await? {
                Some(tokens) => TokenCount { tokens, exact: true, ..estimated },
                None => estimated,
            })
        })
    }
}

/// Whom an exact count asks, and for what.
struct Exact<'a> {
    context: &'a AssembledContext,
    provider: &'a dyn Provider,
    model: &'a ModelInfo,
    hook: Option<&'a Arc<dyn RequestHost>>,
}

impl Core {
    /// Asks the provider once; it ends with the context's time, or with the engine.
    async fn count_exactly(
        &self,
        Exact { context, provider, model, hook }: Exact<'_>,
        seat: Seat,
        request: ModelRequest,
    ) -> Result<Option<u64>, EngineError> {
        let limit = Duration::from_millis(context.timeout_ms);
        let bounds = Bounds { abort: self.closing.clone(), deadline: self.clock.instant() + limit };
        let mut held = Duration::ZERO;
        let (profile, called) = loop {
            let profile = self.keys.any(seat.clone()).await?;
            let call = ModelCall {
                purpose: CallPurpose::Count,
                target: ModelTarget {
                    provider,
                    provider_name: &context.provider,
                    model_name: &context.model,
                    model,
                    profile: profile.as_deref(),
                },
                request: request.clone(),
                // It is a request, and its tokens are not processed.
                prompt: PromptSize::default(),
                number: 1,
                claim: priority_of(&context.session_label).into(),
                payer: None,
                hook: hook.map(|host| HookHost { host, run_id: &context.run_id }),
                bounds: &bounds,
                events: None,
                held,
            };
            match self.call(call).await {
                Ok(called) => break (profile, called),
                Err(Dismissed { held: so_far }) => held = so_far,
            }
        };
        match called.ending {
            Ending::Counted(tokens) => Ok(tokens),
            Ending::Completed(_) => Ok(None),
            Ending::Failed(failure) => {
                let failure = retry::judged(&failure).into_owned();
                if let Some(profile) = profile {
                    self.blame(&profile, &context.model, &failure).await;
                }
                Err(failure.into())
            }
            Ending::Interrupted(Interrupt::Abort) => Err(closed()),
            Ending::Interrupted(Interrupt::Timeout) => {
                let limit = context.timeout_ms;
                let message = format!("the provider did not count within `{limit}` ms");
                Err(Failure::new(FailureKind::Timeout, "timeout", message).into())
            }
        }
    }
}

async fn before(
    journal: Option<&dyn Journal>,
    context: &AssembledContext,
) -> Result<Before, StorageError> {
    if let Some(history) = &context.history {
        return Ok(Before::Given(history.clone()));
    }
    let Some(journal) = journal else { return Ok(Before::Given(Vec::new())) };
    let label = &journal.session_named(&context.session_label).await?;
    let mut history = journal.history(label, None, None).await?;
    if history.head.is_none()
        && let Some(parent) = &context.parent_turn_id
    {
        // A session that begins at a turn of another one.
        history = journal.history(label, Some(parent), None).await?;
    }
    Ok(Before::Turns(history.turns))
}

fn messages_tokens(mut projector: Projector, before: &Before, context: &AssembledContext) -> u64 {
    let tokens = |messages: Vec<Message>| estimate::message_tokens(&messages);
    let history: u64 = match before {
        Before::Given(messages) => tokens(projector.project_flat(messages)),
        Before::Turns(turns) => {
            turns.iter().map(|turn| tokens(projector.project_history(turn))).sum()
        }
    };
    let current = std::slice::from_ref(&context.current_message);
    history.saturating_add(tokens(projector.project_current(current)))
}

pub(crate) fn tools_tokens(tools: &[ToolDefinition], context: &AssembledContext) -> u64 {
    let ours = tools.iter().map(|tool| {
        let parts = [tool.name.as_str(), &tool.description, tool.parameters.get()];
        parts.into_iter().map(estimate::text_tokens).sum::<u64>()
    });
    let theirs =
        context.request.provider_tools.iter().map(|tool| estimate::text_tokens(tool.get()));
    ours.chain(theirs).sum()
}
