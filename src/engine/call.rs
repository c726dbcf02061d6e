//! One call of the model: the request, the attempt, and what came of it.
//!
//! It must never try again: whether and when is the machine's.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::conversation::Conversation;
use super::driver::Run;
use super::governor::{Pass, priority_of};
use super::outcome::millis;
use crate::model::{
    Attempt as AttemptRow, CompactionResult, FailureKind, ModelInfo, Progress, Provenance,
    ReportedUsage, RunWarning, Stop, TokenBudget,
};
use crate::telemetry::{self, Instrument as _};
use crate::turn::machine::{Event, Interrupt, Machine, Reply};
use crate::turn::transcript::Dropped;
use crate::turn::{estimate, retry};

/// What the calls of a run have cost, and how each attempt went.
pub(crate) struct Spent {
    pub(crate) attempts: Vec<AttemptRow>,
    /// US dollars over all calls; `None` once a price was unknown. Prices go by call, so it is the sum of the calls' costs.
    pub(crate) cost: Option<f64>,
    /// What the requests could not say; `None` before the first.
    pub(crate) warnings: Option<Vec<RunWarning>>,
    /// What the guard and a failed compaction have to say.
    pub(crate) notes: Vec<RunWarning>,
    /// The last compaction.
    pub(crate) compaction: Option<CompactionResult>,
    /// Compactions so far.
    pub(crate) compacted: u32,
    /// How long the next call was held back.
    pub(crate) held: Duration,
    /// The budget of the last call.
    pub(crate) budget: Option<TokenBudget>,
}

impl Spent {
    pub(crate) fn of(model: &ModelInfo) -> Self {
        Self {
            attempts: Vec::new(),
            cost: model.cost.as_ref().map(|_| 0.0),
            warnings: None,
            notes: Vec::new(),
            compaction: None,
            compacted: 0,
            held: Duration::ZERO,
            budget: None,
        }
    }

    /// What an interrupted turn had cost.
    pub(crate) fn restore(&mut self, progress: &Progress) {
        self.cost = self.cost.zip(progress.cost).map(|(sum, before)| sum + before);
        self.attempts.clone_from(&progress.attempts);
    }

    /// What the run has counted so far.
    pub(crate) fn progress(&self, machine: &Machine) -> Progress {
        Progress { cost: self.cost, attempts: self.attempts.clone(), ..machine.progress() }
    }

    pub(crate) fn add(&mut self, call: Option<f64>) {
        self.cost = self.cost.zip(call).map(|(sum, call)| sum + call);
    }
}

impl Run {
    /// Waits until the rate limits have room for a call of about `input` tokens. `None`: its profile is to be chosen anew.
    pub(crate) async fn pass(
        &self,
        input: u64,
        spent: &mut Spent,
    ) -> Result<Option<Pass>, Interrupt> {
        let began = self.core.clock.instant();
        let who = (&*self.context.provider, self.profile.as_deref(), &*self.context.model);
        let priority = priority_of(&self.context.session_label);
        let pass = self.guard(self.core.governor.pass(who, priority, input)).await?;
        let held = match &pass {
            Some(pass) => pass.held,
            None => self.core.clock.instant().saturating_duration_since(began),
        };
        spent.held = spent.held.saturating_add(held);
        Ok(pass)
    }

    /// One attempt at the model; `called` says whether a tool of this run has answered.
    pub(crate) async fn call_model(
        &self,
        conversation: &Conversation,
        called: bool,
        spent: &mut Spent,
        mut pass: Pass,
    ) -> Event {
        let unasked =
            |failure| Event::AttemptFailed { failure, partial: None, emitted: false, again: None };
        let credential = match &self.profile {
            None => None,
            Some(id) => match self.guard(self.core.keys.credential(id)).await {
                Ok(Ok(credential)) => Some(credential),
                Ok(Err(failure)) => return unasked(failure),
                Err(cause) => return Event::Interrupted { cause, partial: None },
            },
        };
        let credential = credential.as_deref();
        if let Err(error) = conversation.sendable() {
            return unasked(error.to_failure());
        }
        let Dropped { thinking, opaque, calls, results, other: _ } = conversation.dropped();
        if thinking + opaque + calls + results > 0 {
            telemetry::left_out(thinking, opaque, calls, results);
        }
        let attempt = u32::try_from(spent.attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
        let request = self.request(conversation, called, attempt);
        if spent.warnings.is_none() {
            spent.warnings = Some(self.warnings(&request));
        }
        let message_id = self.core.clock.new_id();
        pass.sent();
        let (queue, clock) = (Arc::clone(&self.queue), self.core.clock.clone());
        let mut sink = Attempt::new(queue, clock, message_id.clone(), pass);
        let began = self.core.clock.instant();
        let span = telemetry::call_span(&self.context.provider, &self.context.model, attempt);
        let call = self.provider.stream(&request, credential, &mut sink).instrument(span);
        let answer = self.guard(call).await;
        let ms = millis(self.core.clock.instant().saturating_duration_since(began));
        let emitted = sink.emitted();
        let (accumulator, pass) = sink.into_parts();
        let accumulated = accumulator.finish();
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
            Ok(Ok(completion)) => {
                let refused = matches!(completion.stop, Stop::Refusal | Stop::ContentFilter);
                (Some(completion.status), refused.then_some(FailureKind::Refusal))
            }
            Ok(Err(failure)) => {
                let code = failure.code.as_deref().unwrap_or_default();
                let kind = failure.kind.as_str();
                telemetry::call_failed(&self.context.provider, kind, code, failure.status);
                (failure.status, Some(failure.kind))
            }
            Err(Interrupt::Abort) => (None, Some(FailureKind::Aborted)),
            Err(Interrupt::Timeout) => (None, Some(FailureKind::Timeout)),
        };
        let cost = self.model.cost_of(&usage.into(), usage.cache_write_hour);
        let used = usage != ReportedUsage::default();
        spent.add(cost);
        if let Ok(Err(failure)) = &answer {
            pass.failed(&retry::judged(failure), credential.is_some());
        }
        let told = !estimated && reply.usage.total_tokens > 0;
        pass.settle(told.then_some((reply.usage.prompt_tokens(), reply.usage.output_tokens)));
        let held = millis(std::mem::take(&mut spent.held));
        spent.attempts.push(AttemptRow {
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
            profile_id: credential.map(|credential| credential.profile_id.clone()),
            ok: ended,
            status,
            reason,
            ms,
            usage: used.then(|| usage.into()),
            cost: cost.filter(|_| used),
            held_ms: (held > 0).then_some(held),
        });
        match answer {
            Ok(Ok(completion)) => {
                Event::Replied { reply, stop: completion.stop, stop_raw: completion.stop_raw }
            }
            Ok(Err(failure)) => {
                Event::AttemptFailed { failure, partial: Some(reply), emitted, again: None }
            }
            Err(cause) => Event::Interrupted { cause, partial: Some(reply) },
        }
    }
}
