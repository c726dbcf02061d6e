//! The sums over the answers of a turn: tokens, cost, model, and the turn's outcome.
//!
//! It must never count an answer without a usage.

use serde_json::Value;

use super::messages::EntryMessage;
use model::{Role, TokenUsage, TurnError};

/// The sums over the answers of a turn.
#[derive(Default)]
pub(super) struct Sums<'a> {
    input: u64,
    output: u64,
    cached: u64,
    written: u64,
    pub(super) cost: Option<f64>,
    pub(super) context: Option<i64>,
    pub(super) model: Option<&'a str>,
    pub(super) provider: Option<&'a str>,
    stop: Option<&'a str>,
    message: Option<&'a str>,
}

impl<'a> Sums<'a> {
    pub(super) fn add(&mut self, message: &'a EntryMessage) {
        if message.message.role != Role::Assistant {
            return;
        }
        let Some(Value::Object(raw)) = message.entry.get("message") else { return };
        let text = |name: &str| raw.get(name).and_then(Value::as_str);
        (self.model, self.provider) = (text("model"), text("provider"));
        (self.stop, self.message) = (text("stopReason"), text("errorMessage"));
        let Some(usage) = raw.get("usage") else { return };
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let call = [count("input"), count("output"), count("cacheRead"), count("cacheWrite")];
        let [input, output, cached, written] = call;
        self.input += input;
        self.output += output;
        self.cached += cached;
        self.written += written;
        let context = call.iter().sum::<u64>();
        if context > 0 {
            self.context = i64::try_from(context).ok();
        }
        let cost = usage.get("cost").and_then(|cost| cost.get("total")?.as_f64());
        if let Some(cost) = cost {
            *self.cost.get_or_insert_default() += cost;
        }
    }

    pub(super) fn usage(&self) -> TokenUsage {
        TokenUsage::new(self.input, self.output, self.cached, self.written, 0)
    }

    /// The stop reason and the status of the turn.
    pub(super) fn ending(&self) -> (&'static str, &'static str) {
        match self.stop {
            Some("length") => ("max_tokens", "completed"),
            Some("toolUse") => ("tool_use", "completed"),
            Some("error") => ("error", "failed"),
            Some("aborted") => ("aborted", "aborted"),
            _ => ("end_turn", "completed"),
        }
    }

    pub(super) fn error(&self) -> Option<TurnError> {
        (self.stop == Some("error")).then(|| TurnError {
            kind: "unknown".to_owned(),
            message: self.message.unwrap_or("the provider failed").to_owned(),
            retryable: false,
            code: None,
        })
    }
}
