//! How full a run's window is: the budget, and the estimate of what the next call sends (docs/rules/compaction.md#context-size).
//!
//! It must never pass an estimate for what a provider has reported: the two are added, never mixed.

use super::super::call::request::max_tokens;
use super::super::conversation::Conversation;
use super::super::count::tools_tokens;
use super::super::driver::Run;
use model::{Message, Role, TokenBudget};
use turn::calibration::Ratio;
use turn::compact::{Budget, share, truncate_results};
use turn::estimate;
use turn::machine::Reply;

/// The margin of an estimate that is compared with a limit, in percent.
pub(super) const MARGIN: u64 = 120;

/// What a run knows of its context's size, and what it has done for it.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    /// The system prompt and the tools.
    overhead: Option<u64>,
    /// What the last call reported, and the estimate of the conversation with its answer.
    last: Option<(u64, u64)>,
    /// No compaction is tried again in this run; the reason where one failed.
    pub(super) gave_up: Option<Option<String>>,
    pub(super) recoveries: u32,
    /// Tool results of at least so many tokens are cut short.
    pub(super) truncate: Option<u64>,
    /// So many messages of the running turn are in the summary, its question aside.
    pub(super) summarised: usize,
    /// The summary, where a part of the running turn is in it.
    pub(super) summary: Option<String>,
    pub(super) warned: bool,
    /// How often the conversation was told anew.
    retold: u32,
    /// How the run's model counts.
    pub(crate) ratio: Ratio,
}

impl Fit {
    /// A call was answered with `reply`.
    pub(crate) fn replied(&mut self, reply: &Reply, conversation: &Conversation) {
        let known = !reply.usage_estimated && reply.usage.total_tokens > 0;
        let told = conversation.tokens().saturating_add(estimate::block_tokens(&reply.blocks));
        self.last = known.then_some((reply.usage.total_tokens, told));
    }

    /// Another model reads it: what did not fit one may fit it, and may not fit where it did.
    pub(crate) fn moved(&mut self) {
        self.last = None;
        self.gave_up = None;
        self.recoveries = 0;
        self.warned = false;
    }

    /// The conversation is another one: what was reported of the old one says nothing of it.
    pub(super) fn rebuilt(&mut self) {
        self.last = None;
        self.retold += 1;
    }

    pub(crate) fn retold(&self) -> u32 {
        self.retold
    }

    /// Some old results are told shorter from here on.
    pub(crate) fn pruned(&mut self) {
        self.last = None;
    }

    /// Whether something is told otherwise than a later run will tell it.
    pub(crate) fn shortened(&self) -> bool {
        self.truncate.is_some() || self.summary.is_some()
    }

    fn sum(&self, conversation: &Conversation, margin: u64, ratio: Ratio) -> u64 {
        match self.last {
            Some((reported, told)) => {
                let appended = conversation.tokens().saturating_sub(told);
                reported.saturating_add(share(ratio.apply(appended), margin))
            }
            None => share(ratio.apply(self.prompt(conversation)), margin),
        }
    }

    /// The estimate of a whole prompt, as our count has it.
    pub(crate) fn prompt(&self, conversation: &Conversation) -> u64 {
        self.overhead.unwrap_or_default().saturating_add(conversation.tokens())
    }

    /// The same without what servers count each in its own way.
    pub(crate) fn prompt_text(&self, conversation: &Conversation) -> u64 {
        self.overhead.unwrap_or_default().saturating_add(conversation.text_tokens())
    }

    /// About what the next call sends.
    pub(crate) fn estimate(&self, conversation: &Conversation) -> u64 {
        self.sum(conversation, 100, self.ratio)
    }

    /// What the next call sends, as it is compared with a limit.
    pub(crate) fn needed(&self, conversation: &Conversation) -> u64 {
        self.sum(conversation, MARGIN, self.ratio)
    }

    /// The worst that the next call sends: what was learnt of a model makes it more, never less.
    pub(crate) fn worst(&self, conversation: &Conversation) -> u64 {
        self.needed(conversation).max(self.sum(conversation, MARGIN, Ratio::UNKNOWN))
    }

    /// A message as it is told: whole, or with its large tool results cut short.
    pub(super) fn told(&self, message: &Message) -> Message {
        match self.truncate {
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
pub(super) fn without_margin(tokens: u64) -> u64 {
    share(tokens, 100 * 100 / MARGIN)
}

impl Run {
    /// The room of the run's model.
    pub(crate) fn budget(&self) -> Budget {
        let asked = &self.context.token_budget;
        let model = &self.model;
        let window = model.context_window.min(asked.model_limit.unwrap_or(u64::MAX));
        let most = self.core.guard.hard_limit.unwrap_or(u64::MAX).min(model.prompt_limit());
        let reserve = asked
            .reserve_response
            .unwrap_or_else(|| max_tokens(&self.context, model).min(window / 4))
            .max(self.core.guard.min_available)
            .max(window.saturating_sub(most));
        Budget {
            window,
            reserve_response: reserve,
            reserve_tools: asked.reserve_tools.unwrap_or_default(),
        }
    }

    /// What of a request is no conversation.
    pub(crate) fn overhead(&self, fit: &mut Fit) -> u64 {
        *fit.overhead.get_or_insert_with(|| {
            estimate::text_tokens(&self.context.system_prompt)
                .saturating_add(tools_tokens(self.tool_set.tools(), &self.context))
        })
    }
}

/// The budget with what the context uses.
pub(super) fn token_budget(budget: Budget, used: u64) -> TokenBudget {
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

/// The budget of the last call, with what the provider reported of it where it did.
pub(crate) fn settled(budget: TokenBudget, reported: Option<u64>) -> TokenBudget {
    let Some(used) = reported else { return budget };
    let remaining = budget.available.map(|available| available.saturating_sub(used));
    TokenBudget { used: Some(used), remaining, ..budget }
}
