//! The context size of a run: the budget, and the estimate of the next request (docs/rules/compaction.md#context-size).
//!
//! It must never treat an estimate as a reported size: the two are added, but stored separately.

use super::conversation::Conversation;
use super::guard::ContextGuard;
use model::{AssembledContext, Message, ModelInfo, Role, TokenBudget, ToolDefinition};
use turn::calibration::Ratio;
use turn::compact::{Budget, share, truncate_results};
use turn::estimate;
use turn::machine::Reply;

/// The margin of an estimate that is compared with a limit, in percent.
pub(crate) const MARGIN: u64 = 120;

/// Whether a run still attempts to compact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// It attempts to compact.
    #[default]
    No,
    /// Nothing is left that could be compacted.
    NothingLeft,
    /// A compaction has failed, for this reason.
    Failed(String),
}

/// The last call whose provider has reported a size.
#[derive(Debug, Clone, Copy)]
struct Reported {
    /// The tokens of the prompt and the answer.
    tokens: u64,
    /// The estimate of the conversation with the answer.
    estimated: u64,
}

/// The size of a run's context, and the reductions of it.
#[derive(Debug, Default)]
pub(crate) struct ContextSize {
    /// The system prompt and the tools.
    overhead: Option<u64>,
    last: Option<Reported>,
    pub(crate) gave_up: GaveUp,
    /// The number of compactions after a refused prompt.
    pub(crate) recoveries: u32,
    /// The size in tokens from which tool results are truncated.
    pub(crate) truncate: Option<u64>,
    /// The number of messages of the running turn in the summary, without its question.
    pub(crate) summarised: usize,
    /// The summary, if it covers a part of the running turn.
    pub(crate) summary: Option<String>,
    /// The guard has warned.
    pub(crate) warned: bool,
    /// How often the conversation was projected again.
    reprojections: u32,
    /// The ratio of the run's model.
    pub(crate) ratio: Ratio,
}

impl ContextSize {
    /// Records the sizes of a call that was answered with `reply`.
    pub(crate) fn replied(&mut self, reply: &Reply, conversation: &Conversation) {
        let known = !reply.usage_estimated && reply.usage.total_tokens > 0;
        let answer = estimate::block_tokens(&reply.blocks);
        self.last = known.then(|| Reported {
            tokens: reply.usage.total_tokens,
            estimated: conversation.tokens().saturating_add(answer),
        });
    }

    /// Switches to another model with its window.
    pub(crate) fn moved(&mut self) {
        self.last = None;
        self.gave_up = GaveUp::No;
        self.recoveries = 0;
        self.warned = false;
    }

    /// Records that the conversation was projected again: the reported size of the old one no longer applies.
    pub(crate) fn reprojected(&mut self) {
        self.last = None;
        self.reprojections += 1;
    }

    pub(crate) fn reprojections(&self) -> u32 {
        self.reprojections
    }

    /// The system prompt is another one.
    pub(crate) fn prompt_changed(&mut self) {
        self.last = None;
        self.overhead = None;
    }

    /// Records that some old results were shortened.
    pub(crate) fn pruned(&mut self) {
        self.last = None;
    }

    /// Whether the projection differs from that of a later run.
    pub(crate) fn shortened(&self) -> bool {
        self.truncate.is_some() || self.summary.is_some()
    }

    /// The part of a request outside the conversation.
    pub(crate) fn overhead(&mut self, context: &AssembledContext, tools: &[ToolDefinition]) -> u64 {
        *self.overhead.get_or_insert_with(|| {
            estimate::text_tokens(&context.system_prompt)
                .saturating_add(tools_tokens(tools, context))
        })
    }

    fn sum(&self, conversation: &Conversation, margin: u64, ratio: Ratio) -> u64 {
        match self.last {
            Some(Reported { tokens, estimated }) => {
                let appended = conversation.tokens().saturating_sub(estimated);
                tokens.saturating_add(share(ratio.apply(appended), margin))
            }
            None => share(ratio.apply(self.prompt(conversation)), margin),
        }
    }

    /// The estimate of a whole prompt, without the learnt ratio of the model.
    pub(crate) fn prompt(&self, conversation: &Conversation) -> u64 {
        self.overhead.unwrap_or_default().saturating_add(conversation.tokens())
    }

    /// The same without the parts that servers count differently.
    pub(crate) fn prompt_text(&self, conversation: &Conversation) -> u64 {
        self.overhead.unwrap_or_default().saturating_add(conversation.text_tokens())
    }

    /// The approximate size of the next request.
    pub(crate) fn estimate(&self, conversation: &Conversation) -> u64 {
        self.sum(conversation, 100, self.ratio)
    }

    /// The size of the next request for a comparison with a limit.
    pub(crate) fn needed(&self, conversation: &Conversation) -> u64 {
        self.sum(conversation, MARGIN, self.ratio)
    }

    /// An upper estimate of the next request: the learnt ratio of a model can only increase it.
    pub(crate) fn worst(&self, conversation: &Conversation) -> u64 {
        self.needed(conversation).max(self.sum(conversation, MARGIN, Ratio::UNKNOWN))
    }

    /// The projection of messages: whole, or with truncated large tool results.
    pub(crate) fn truncation(&self) -> Truncation {
        Truncation(self.truncate)
    }
}

/// The truncation of a projection's messages.
#[derive(Clone, Copy)]
pub(crate) struct Truncation(Option<u64>);

impl Truncation {
    /// The messages with their too large results truncated.
    pub(crate) fn of<'a>(self, messages: impl IntoIterator<Item = &'a Message>) -> Vec<Message> {
        messages.into_iter().map(|message| self.message(message)).collect()
    }

    fn message(self, message: &Message) -> Message {
        match self.0 {
            Some(least)
                if message.role == Role::Tool
                    && estimate::block_tokens(&message.blocks) >= least =>
            {
                truncate_results(message)
            }
            Some(_) | None => message.clone(),
        }
    }
}

/// An estimate without its margin.
pub(crate) fn without_margin(tokens: u64) -> u64 {
    share(tokens, 100 * 100 / MARGIN)
}

/// The most tokens that a call requests for its answer.
pub(crate) fn max_tokens(context: &AssembledContext, model: &ModelInfo) -> u64 {
    /// The default cap: long answers are rare, and the reservation counts against limits.
    const DEFAULT_CAP: u64 = 32_000;
    context.max_response_tokens.unwrap_or(DEFAULT_CAP).min(model.max_output_tokens).max(1)
}

/// An estimate of the tool definitions of a request.
pub(crate) fn tools_tokens(tools: &[ToolDefinition], context: &AssembledContext) -> u64 {
    let ours = tools.iter().map(|tool| {
        let parts = [tool.name.as_str(), &tool.description, tool.parameters.get()];
        parts.into_iter().map(estimate::text_tokens).sum::<u64>()
    });
    let theirs =
        context.request.provider_tools.iter().map(|tool| estimate::text_tokens(tool.get()));
    ours.chain(theirs).sum()
}

/// The division of `model`'s window for a run.
pub(crate) fn window_budget(
    context: &AssembledContext,
    model: &ModelInfo,
    guard: &ContextGuard,
) -> Budget {
    let token_budget = &context.token_budget;
    let window = model.context_window.min(token_budget.model_limit.unwrap_or(u64::MAX));
    let most = guard.hard_limit.unwrap_or(u64::MAX).min(model.prompt_limit());
    let reserve = token_budget
        .reserve_response
        .unwrap_or_else(|| max_tokens(context, model).min(window / 4))
        .max(guard.min_available)
        .max(window.saturating_sub(most));
    Budget {
        window,
        reserve_response: reserve,
        reserve_tools: token_budget.reserve_tools.unwrap_or_default(),
    }
}

/// The budget with the used part of the context.
pub(crate) fn token_budget(budget: Budget, used: u64) -> TokenBudget {
    let Budget { window, reserve_response, reserve_tools } = budget;
    let available = budget.available();
    TokenBudget {
        model_limit: Some(window),
        reserve_response: Some(reserve_response),
        reserve_tools: Some(reserve_tools),
        available: Some(available),
        used: Some(used),
        remaining: Some(available.saturating_sub(used)),
    }
}

/// The budget of the last call, with the provider's reported size if there is one.
pub(crate) fn settled_budget(budget: TokenBudget, reported: Option<u64>) -> TokenBudget {
    let Some(used) = reported else { return budget };
    let remaining = budget.available.map(|available| available.saturating_sub(used));
    TokenBudget { used: Some(used), remaining, ..budget }
}
