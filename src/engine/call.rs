//! One call of the model: the request, the attempt, and what came of it.
//!
//! It must never try again: whether and when is the machine's.

use std::sync::Arc;

use super::attempt::Attempt;
use super::conversation::Conversation;
use super::driver::Run;
use super::outcome::millis;
use crate::model::{Attempt as AttemptRow, FailureKind, ModelInfo, Provenance, ReportedUsage};
use crate::provider::ModelRequest;
use crate::telemetry::{self, Instrument as _};
use crate::turn::estimate;
use crate::turn::machine::{Event, Interrupt, Reply};

/// What the calls of a run have cost, and how each attempt went.
pub(crate) struct Spent {
    pub(crate) attempts: Vec<AttemptRow>,
    /// US dollars over all calls; `None` once a price was unknown. Prices go by call, so it is the sum of the calls' costs.
    pub(crate) cost: Option<f64>,
}

impl Spent {
    pub(crate) fn of(model: &ModelInfo) -> Self {
        Self { attempts: Vec::new(), cost: model.cost.as_ref().map(|_| 0.0) }
    }

    fn add(&mut self, call: Option<f64>) {
        self.cost = self.cost.zip(call).map(|(sum, call)| sum + call);
    }
}

impl Run {
    /// One attempt at the model.
    pub(crate) async fn call_model(&self, conversation: &Conversation, spent: &mut Spent) -> Event {
        let credential = match &self.credential {
            Ok(credential) => credential.as_deref(),
            Err(failure) => {
                return Event::AttemptFailed {
                    failure: failure.clone(),
                    partial: None,
                    emitted: false,
                };
            }
        };
        if let Err(error) = conversation.sendable() {
            return Event::AttemptFailed {
                failure: error.to_failure(),
                partial: None,
                emitted: false,
            };
        }
        let max_tokens = self.max_tokens();
        let thinking = self.context.thinking_config.as_ref();
        let request = ModelRequest {
            model: self.context.model.clone(),
            system: self.context.system_prompt.clone(),
            tools: Arc::clone(self.tool_set.tools()),
            messages: conversation.pieces(self.provider.as_ref()),
            max_tokens,
            temperature: self.context.temperature.filter(|_| self.model.temperature),
            thinking: thinking.and_then(|asked| self.model.thinking_for(asked, max_tokens)),
            reasoning_model: self.model.reasoning,
        };
        let message_id = self.core.clock.new_id();
        let mut sink =
            Attempt::new(Arc::clone(&self.queue), self.core.clock.clone(), message_id.clone());
        let began = self.core.clock.instant();
        let attempt = u32::try_from(spent.attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
        let span = telemetry::call_span(&self.context.provider, &self.context.model, attempt);
        let call = self.provider.stream(&request, credential, &mut sink).instrument(span);
        let answer = self.guard(call).await;
        let ms = millis(self.core.clock.instant().saturating_duration_since(began));
        let emitted = sink.emitted();
        let accumulated = sink.into_accumulator().finish();
        let ended = matches!(answer, Ok(Ok(_)));
        let estimated = accumulated.usage.is_none();
        let usage = accumulated.usage.unwrap_or_else(|| {
            if ended || !accumulated.blocks.is_empty() {
                ReportedUsage {
                    input: request.messages.iter().map(|piece| piece.len() as u64 / 4).sum(),
                    output: estimate::block_tokens(&accumulated.blocks),
                    ..ReportedUsage::default()
                }
            } else {
                ReportedUsage::default()
            }
        });
        let reply = Reply {
            message_id,
            blocks: accumulated.blocks,
            provenance: Provenance {
                provider: self.context.provider.clone(),
                api: self.provider.api().as_str().to_owned(),
                model: self.context.model.clone(),
                response_id: accumulated.response_id,
            },
            usage: usage.into(),
            usage_estimated: estimated && usage != ReportedUsage::default(),
        };
        let (status, reason) = match &answer {
            Ok(Ok(completion)) => (Some(completion.status), None),
            Ok(Err(failure)) => {
                let code = failure.code.as_deref().unwrap_or_default();
                let kind = failure.kind.as_str();
                telemetry::call_failed(&self.context.provider, kind, code, failure.status);
                (failure.status, Some(failure.kind))
            }
            Err(Interrupt::Abort) => (None, Some(FailureKind::Aborted)),
            Err(Interrupt::Timeout) => (None, Some(FailureKind::Timeout)),
        };
        spent.add(self.model.cost_of(&usage.into(), 0));
        spent.attempts.push(AttemptRow {
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
            profile_id: credential.map(|credential| credential.profile_id.clone()),
            ok: ended,
            status,
            reason,
            ms,
        });
        match answer {
            Ok(Ok(completion)) => {
                Event::Replied { reply, stop: completion.stop, stop_raw: completion.stop_raw }
            }
            Ok(Err(failure)) => Event::AttemptFailed { failure, partial: Some(reply), emitted },
            Err(cause) => Event::Interrupted { cause, partial: Some(reply) },
        }
    }

    fn max_tokens(&self) -> u64 {
        /// What is asked for where the host names no cap: long answers are rare, and the reservation counts against limits.
        const DEFAULT_CAP: u64 = 32_000;
        self.context
            .max_response_tokens
            .unwrap_or(DEFAULT_CAP)
            .min(self.model.max_output_tokens)
            .max(1)
    }
}
