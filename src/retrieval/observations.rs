//! What tools have observed, as facts: the entity is the tool, and the content its parameters and its result. It must never store a failed
//! call.

use serde_json::json;
use serde_json::value::RawValue;

use super::facts::input;
use super::service::Memory;
use memory::chunk::excerpt;
use model::{AgentToolCall, FactInput, FactSource, MemoryFact, PendingTurn, ToolCallStatus};

/// The most characters of a result.
const RESULT: usize = 4_000;
/// The most characters of parameters.
const PARAMS: usize = 1_000;
/// The type of these facts.
pub(super) const OBSERVATION: &str = "tool_observation";

impl Memory {
    /// The facts that a turn's calls have observed.
    pub(super) fn observed(&self, turn: &PendingTurn) -> Vec<FactInput> {
        let names = &self.parts.options.observations;
        let observed = turn.calls.iter().filter(|call| {
            call.status == ToolCallStatus::Completed
                && names.iter().any(|name| is_named(name, &call.tool_name))
        });
        observed.filter_map(|call| self.observation(turn, call)).collect()
    }

    fn observation(&self, turn: &PendingTurn, call: &AgentToolCall) -> Option<FactInput> {
        let result = call.result.as_ref()?;
        let content = json!({
            "params": bounded(&call.params, PARAMS),
            "result": bounded(result, RESULT),
        });
        let at = call.completed_at.unwrap_or(call.started_at);
        let fact = MemoryFact {
            id: self.parts.clock.new_id(),
            entity: call.tool_name.clone(),
            r#type: OBSERVATION.to_owned(),
            content: RawValue::from_string(content.to_string()).ok()?,
            scope: self.parts.options.scopes.scope_of(&turn.identity),
            source: FactSource {
                turn_id: Some(turn.turn_id.clone()),
                call_id: Some(call.call_id.clone()),
            },
            confidence: 1.0,
            valid_from: at,
            valid_to: None,
            superseded_by: None,
            created_at: at,
        };
        Some(input(self.without_keys(fact)))
    }
}

/// The value, or the beginning of its text where it is long.
fn bounded(value: &RawValue, most: usize) -> serde_json::Value {
    if value.get().chars().nth(most).is_none() {
        serde_json::from_str(value.get()).unwrap_or_default()
    } else {
        excerpt(value.get(), most).into()
    }
}

fn is_named(name: &str, tool: &str) -> bool {
    match name.strip_suffix('*') {
        Some(prefix) => tool.starts_with(prefix),
        None => tool == name,
    }
}
