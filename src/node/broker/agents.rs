//! Messages between agents for JavaScript: JSON of a message in, its dispatch out. It must never decide what is admitted.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::json;

use super::super::errors::js_error;
use super::super::reply::json as json_of;
use super::dispatch::{NativeBroker, checked};
use base::error::EngineError;
use model::{
    AgentSent, AgentTask, DispatchCancel, DispatchFilter, DispatchKind, NewAgentMessage, QueueMode,
    SpendingLimits, SubagentLimits, TurnBudget, from_json,
};

/// A message of an agent, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sent {
    id: String,
    from_session: String,
    from_turn: String,
    from_agent: String,
    to_session: String,
    to_agent: String,
    mode: QueueMode,
    message: String,
    #[serde(default)]
    task: Option<Task>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Task {
    kind: DispatchKind,
    limits: SubagentLimits,
    is_new: bool,
    is_fork: bool,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    timeout_ms: Option<i64>,
    is_detached: bool,
    #[serde(default)]
    budget: Option<Limits>,
    #[serde(default)]
    parent_budget: Option<ParentBudget>,
}

/// The budget of an agent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_cost: Option<f64>,
}

/// The budget of the turn that gives a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ParentBudget {
    account: String,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_cost: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Filter {
    #[serde(default)]
    parent_session: Option<String>,
    #[serde(default)]
    session_label: Option<String>,
}

#[napi]
impl NativeBroker {
    /// Sends a message from one agent to another one; answers request `id` with its session, or why it is refused.
    #[napi(catch_unwind)]
    pub fn send_agent(&self, id: u32, args: String) -> Result<()> {
        let sent: Sent = from_json(&args).map_err(|error| js_error(&EngineError::option(error)))?;
        checked(&sent.to_session)?;
        let description = sent.message.clone();
        let task = sent.task.map(|task| AgentTask {
            kind: task.kind,
            description,
            limits: task.limits,
            is_new: task.is_new,
            is_fork: task.is_fork,
            model: task.model,
            timeout_ms: task.timeout_ms,
            is_detached: task.is_detached,
            limits_of_agent: task.budget.map_or_else(SpendingLimits::default, |it| {
                SpendingLimits::of(it.max_tokens, it.max_cost)
            }),
            parent_budget: task.parent_budget.map(|it| TurnBudget {
                account: it.account,
                limits: SpendingLimits::of(it.max_tokens, it.max_cost),
            }),
        });
        let message = NewAgentMessage {
            id: sent.id,
            from_session: sent.from_session,
            from_turn: sent.from_turn,
            from_agent: sent.from_agent,
            to_session: sent.to_session,
            to_agent: sent.to_agent,
            mode: sent.mode,
            message: sent.message,
            task,
        };
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let answer = match dispatcher.send_agent(message).await? {
                AgentSent::Stored { session_label, .. } => json!({ "sessionLabel": session_label }),
                AgentSent::Refused(why) => json!({ "refused": why }),
            };
            Ok(answer.to_string())
        });
        Ok(())
    }

    /// Waits for the end of a dispatch, for a turn of a session; answers request `id` with it, or with null.
    #[napi(catch_unwind)]
    pub fn await_dispatch(
        &self,
        id: u32,
        dispatch: String,
        session_label: String,
        turn_id: String,
    ) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let ended = dispatcher.await_dispatch(&dispatch, &session_label, &turn_id).await?;
            json_of(&ended)
        });
    }

    /// Cancels a dispatch; answers request `id` with it, or with null.
    #[napi(catch_unwind)]
    pub fn cancel_dispatch(&self, id: u32, dispatch: String) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let why = DispatchCancel::Requested;
            json_of(&dispatcher.cancel_dispatch(&dispatch, why).await?)
        });
    }

    /// Answers request `id` with the dispatch, or with null.
    #[napi(catch_unwind)]
    pub fn dispatch(&self, id: u32, dispatch: String) {
        let store = Arc::clone(self.dispatcher.dispatches());
        self.answer(id, async move { json_of(&store.dispatch(&dispatch).await?) });
    }

    /// Answers request `id` with the newest dispatches that a session has made, or has.
    #[napi(catch_unwind)]
    pub fn dispatches(&self, id: u32, args: String) -> Result<()> {
        let Filter { parent_session, session_label } =
            from_json(&args).map_err(|error| js_error(&EngineError::option(error)))?;
        let store = Arc::clone(self.dispatcher.dispatches());
        self.answer(id, async move {
            let filter = DispatchFilter { parent_session, session_label };
            json_of(&store.dispatches(filter).await?)
        });
        Ok(())
    }

    /// Answers request `id` with the dispatch for which a session was made, or with null.
    #[napi(catch_unwind)]
    pub fn spawned(&self, id: u32, session_label: String) {
        let store = Arc::clone(self.dispatcher.dispatches());
        self.answer(id, async move { json_of(&store.spawned(&session_label).await?) });
    }
}
