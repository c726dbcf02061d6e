//! One run: its parameters, and the model it calls now.
//!
//! It must never act: other modules read it, and `drive` changes it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::bounds::Bounds;
use super::control::RunControl;
use super::request_template::RequestTemplate;
use super::session_head::SessionHead;
use super::target::ModelTarget;
use model::{
    Approval, AssembledContext, Message, PortFuture, RunWarning, ToolChoice, ToolDefinition,
    TurnBudget, TurnHeader, TurnOpening, TurnSettings,
};
use tools::ToolSet;
use turn::fallback::Plan;

/// Makes the system prompt of a turn again when its history was compacted, because the provider's cache is lost then anyway.
pub(crate) trait PromptSource: Send + Sync {
    /// The prompt from now on; `None` where it stays as it was. It is stored: the next turn of the session begins with it.
    fn renewed(&mut self) -> PortFuture<'_, Option<String>>;
}

/// The part of a queue that a turn has.
pub(crate) struct TurnItems {
    /// The messages that it takes as it begins.
    pub(crate) items: Vec<String>,
    /// The dropped messages that it names.
    pub(crate) named: Vec<String>,
    /// The user messages before the context's current one.
    pub(crate) earlier: Vec<Message>,
    /// The head of the session that the turn does not follow.
    pub(crate) leaves: Option<String>,
    /// The system prompt after a compaction.
    pub(crate) prompt: Option<Box<dyn PromptSource>>,
    /// What it may spend.
    pub(crate) budget: Option<TurnBudget>,
}

/// What the host changes for one call of the model.
#[derive(Default)]
pub(crate) struct StepChanges {
    /// The tools on offer, if not all.
    pub(crate) tools: Option<Arc<[ToolDefinition]>>,
    pub(crate) tool_choice: Option<ToolChoice>,
}

/// The data of one run.
pub(crate) struct Run {
    pub(crate) turn_id: String,
    /// True where the turn is an interrupted one that is resumed.
    pub(crate) resumes: bool,
    /// Its `provider` and `model` are always those of `target`.
    pub(crate) context: AssembledContext,
    pub(crate) tool_set: Arc<ToolSet>,
    /// `server__name` of each tool of a server that has another name in this run, by that name.
    pub(crate) own_names: HashMap<String, String>,
    pub(crate) template: RequestTemplate,
    /// The current model.
    pub(crate) target: ModelTarget,
    /// The profile in use.
    pub(crate) profile: Option<String>,
    /// What the host changed for the next call.
    pub(crate) step: StepChanges,
    /// The failover plan of the run.
    pub(crate) plan: Plan,
    pub(crate) control: Arc<RunControl>,
    /// The approvals of its calls as they were when the turn was taken over; empty in a run that has never waited.
    pub(crate) approvals: Vec<Approval>,
    /// Its abort and its deadline.
    pub(crate) bounds: Bounds,
    /// The messages of its session's queue that its turn takes; `None` for a run that no queue has started.
    pub(crate) queued: Option<TurnItems>,
    /// If the session's head is this turn, the run's turn starts a thread of its own under the same label.
    pub(crate) leaves: Option<String>,
    pub(crate) started: Instant,
    pub(crate) started_ms: i64,
}

impl Run {
    /// What its turn may spend, where its queue has set that.
    pub(crate) fn budget(&self) -> Option<&TurnBudget> {
        self.queued.as_ref()?.budget.as_ref()
    }

    /// The tools that the next call offers.
    pub(crate) fn tools(&self) -> &Arc<[ToolDefinition]> {
        self.step.tools.as_ref().unwrap_or_else(|| self.tool_set.tools())
    }

    /// Switches to another model. Returns warnings for the fields of the request that were meant only for the previous provider.
    pub(crate) fn move_to(&mut self, target: ModelTarget) -> Vec<RunWarning> {
        let mut left_out = Vec::new();
        if self.context.provider != target.provider_name {
            left_out = self.template.elsewhere(&mut self.context, &target.provider_name);
        }
        self.context.provider.clone_from(&target.provider_name);
        self.context.model.clone_from(&target.model_name);
        self.target = target;
        // The host calculated its budget for the requested model.
        let budget = &mut self.context.token_budget;
        (budget.model_limit, budget.available) = (None, None);
        (budget.used, budget.remaining) = (None, None);
        left_out
    }

    /// The messages with which its turn begins: users', or those of a turn whose tools the host runs.
    pub(crate) fn queries(&self) -> Vec<Message> {
        let current = self.context.current_message.clone();
        let earlier = match &self.queued {
            None => &self.context.current_turn,
            Some(queued) => &queued.earlier,
        };
        earlier
            .iter()
            .cloned()
            .chain([current])
            .zip(0..)
            .map(|(message, sequence)| Message { sequence, ..message })
            .collect()
    }

    /// Whether its turn follows none, where `head` is the head of its session. A resumed turn stays what it was.
    pub(crate) fn starts_thread(&self, head: Option<&str>) -> bool {
        self.leaves.is_some() && (self.resumes || self.leaves.as_deref() == head)
    }

    /// The header of its turn, which follows `head`.
    pub(crate) fn header(&self, head: &SessionHead) -> TurnHeader {
        TurnHeader {
            parent_turn_id: head.parent_turn_id.clone(),
            expected_head: head.expected_head.clone(),
            ..TurnHeader::new(&self.context, self.started_ms)
        }
    }

    /// The turn as it is written before its first request (W0).
    pub(crate) fn opening(&self, head: &SessionHead) -> TurnOpening {
        TurnOpening {
            turn_id: self.turn_id.clone(),
            header: self.header(head),
            settings: TurnSettings::new(&self.context),
            messages: self.queries(),
            items: self.queued.as_ref().map(|queued| queued.items.clone()).unwrap_or_default(),
            named: self.queued.as_ref().map(|queued| queued.named.clone()).unwrap_or_default(),
            context: self.context.stored_json(),
            target: self.context.target.as_ref().map(|target| target.get().to_owned()),
        }
    }
}
