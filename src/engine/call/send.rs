//! Sends one request: rate limits, key, budget, request hook, span, usage, cost and attempt row.
//!
//! It must never retry.

use std::sync::Arc;
use std::time::Duration;

use super::called::{Called, Dismissed, Ending, Verdict};
use super::deltas::{CallDeltas, Reader};
use super::model_call::ModelCall;
use super::waits::{announce_usage, announce_wait};
use crate::engine::limits::{RateKey, RatePermit, SpendingRecord, WorstCase};
use crate::engine::shared::EngineShared;
use crate::engine::state::{ModelTarget, Unfinished, millis};
use base::clock::Clock;
use base::telemetry::{self, Instrument as _};
use model::{
    Attempt as AttemptRow, CallPurpose, DeltaSink as _, Failure, FailureKind, Provenance,
    RateLimits, ReportedUsage, TokenUsage,
};
use provider::{Credential, ModelRequest};
use turn::machine::{Interrupt, Reply};
use turn::usage::{Ended, Estimated, Judged, judge};
use turn::{Accumulated, estimate, retry};

/// Calls a model once.
pub(crate) async fn call(shared: &EngineShared, call: ModelCall<'_>) -> Result<Called, Dismissed> {
    let (permit, held) = match admit(shared, &call).await {
        Admission::Admitted { permit, held } => (permit, held),
        Admission::Dismissed(dismissed) => return Err(dismissed),
        Admission::Interrupted(cause) => return Ok(Called::unsent(Ending::Interrupted(cause))),
    };
    let credential = match call.profile {
        None => None,
        Some(id) => match call.bounds.try_guard(shared.keys.credential(id)).await {
            Ok(credential) => Some(credential),
            Err(Unfinished::Failed(failure)) => {
                return Ok(Called::unsent(Ending::Failed(failure)));
            }
            Err(Unfinished::Interrupted(cause)) => {
                return Ok(Called::unsent(Ending::Interrupted(cause)));
            }
        },
    };
    let hold = match &call.payer {
        None => None,
        Some(payer) => {
            let worst = WorstCase {
                prompt_tokens: call.prompt.worst,
                answer_tokens: call.request.max_tokens,
            };
            let record = SpendingRecord { journal: shared.journal.as_ref(), clock: &shared.clock };
            match shared.budgets.hold(record, payer, &call.target.model, worst).await {
                Ok(hold) => hold,
                Err(failure) => return Ok(Called::unsent(Ending::Failed(failure))),
            }
        }
    };
    // Boxed, so that the futures of runs, compactions and counts, which contain it, stay small.
    let (events, number) = (call.events, call.number);
    let called = Box::pin(send(&shared.clock, call, credential.as_deref(), permit, held)).await;
    if let Some(events) = events {
        announce_usage(events, &called, number);
    }
    if let Some(hold) = hold {
        hold.settle(called.tokens().total_tokens, called.cost);
    }
    Ok(called)
}

/// The decision of the rate limits.
enum Admission {
    Admitted { permit: RatePermit, held: Duration },
    Dismissed(Dismissed),
    Interrupted(Interrupt),
}

/// Waits until the rate limits admit the call.
async fn admit(shared: &EngineShared, call: &ModelCall<'_>) -> Admission {
    let ModelTarget { provider_name, model_name, .. } = call.target;
    let began = shared.clock.instant();
    let key = RateKey::new(provider_name, call.profile, model_name);
    let waits = || {
        if let Some(events) = call.events {
            let now = shared.clock.now_ms();
            announce_wait(events, call.next(), FailureKind::RateLimit, None, now);
        }
    };
    let waiting = shared.governor.permit(key, call.claim, call.prompt.needed, waits);
    let permit = match call.bounds.guard(waiting).await {
        Ok(permit) => permit,
        Err(cause) => return Admission::Interrupted(cause),
    };
    match permit {
        Some(permit) => {
            let held = call.held.saturating_add(permit.held);
            Admission::Admitted { permit, held }
        }
        None => {
            let held = shared.clock.instant().saturating_duration_since(began);
            Admission::Dismissed(Dismissed { held: call.held.saturating_add(held) })
        }
    }
}

/// Sends the request, and collects the outcome: reply, usage, cost and attempt row.
async fn send(
    clock: &Clock,
    call: ModelCall<'_>,
    credential: Option<&Credential>,
    mut permit: RatePermit,
    held: Duration,
) -> Called {
    let target = call.target;
    let request = ModelRequest { hook: call.request_hook(), ..call.request };
    let message_id = clock.new_id();
    let streamed = call.events.filter(|_| call.purpose == CallPurpose::Run);
    let reader = streamed.map(|queue| Reader {
        queue: Arc::clone(queue),
        clock: clock.clone(),
        message_id: message_id.clone(),
        run: call.bounds.run.clone(),
    });
    permit.sent();
    let mut sink = CallDeltas::new(reader, permit);
    let began = clock.instant();
    let span = telemetry::call_span(
        call.purpose.as_str(),
        &target.provider_name,
        &target.model_name,
        call.number,
    );
    let calling = async {
        match call.purpose {
            CallPurpose::Run | CallPurpose::Summary | CallPurpose::Plan | CallPurpose::Extract => {
                let streamed = target.provider.stream(&request, credential, &mut sink).await;
                streamed.map_or_else(Ending::Failed, Ending::Completed)
            }
            CallPurpose::Count => {
                let counted = target.provider.count(&request, credential).await;
                if counted.is_ok() {
                    sink.answered(200, &RateLimits::default());
                }
                counted.map_or_else(Ending::Failed, Ending::Counted)
            }
            CallPurpose::Embed => match target.provider.embed(&request, credential).await {
                Ok(Some(answer)) => {
                    sink.answered(200, &RateLimits::default());
                    Ending::Embedded(answer)
                }
                Ok(None) => Ending::Failed(no_embeddings(&target.provider_name)),
                Err(failure) => Ending::Failed(failure),
            },
        }
    };
    let ended = call.bounds.guard(calling.instrument(span.clone())).await;
    let mut ending = ended.unwrap_or_else(Ending::Interrupted);
    if let Ending::Failed(failure) = &mut ending {
        let (prompt, window) = (call.prompt.estimate.tokens, target.model.context_window);
        retry::presume_overflow(failure, prompt, window);
    }
    let ms = millis(clock.instant().saturating_duration_since(began));
    let emitted = sink.emitted();
    if let Some(run) = call.bounds.run.as_ref().filter(|_| emitted) {
        run.set_answering(false);
    }
    let (accumulator, permit) = sink.into_parts();
    let received = accumulator.finish();
    let Judged { usage, estimated } = match call.purpose {
        CallPurpose::Count => Judged::default(),
        CallPurpose::Embed => embedded(call.prompt.estimate, &ending),
        CallPurpose::Run | CallPurpose::Summary | CallPurpose::Plan | CallPurpose::Extract => {
            used(&received, call.prompt.estimate, &ending)
        }
    };
    let tokens = TokenUsage::from(usage);
    let cost = target.model.cost_of(&tokens, usage.cache_write_hour);
    let was_used = tokens != TokenUsage::default();
    if let Ending::Failed(failure) = &ending {
        permit.failed(&retry::judged(failure), credential.is_some());
    }
    let reported = was_used && !estimated;
    permit.settle(reported.then_some((tokens.prompt_tokens(), tokens.output_tokens)));
    let Verdict { ok, status, reason } = ending.verdict();
    span.in_scope(|| {
        if let Ending::Failed(failure) = &ending {
            let code = failure.code.as_deref().unwrap_or_default();
            let kind = failure.kind.as_str();
            telemetry::call_failed(&target.provider_name, kind, code, failure.status);
        }
        telemetry::call_ended(call.purpose.as_str(), call.number, ok, ms, tokens.total_tokens);
    });
    let held = millis(held);
    let attempt = AttemptRow {
        purpose: call.purpose,
        provider: target.provider_name.clone(),
        model: target.model_name.clone(),
        profile_id: credential.map(|credential| credential.profile_id.clone()),
        ok,
        status,
        reason,
        ms,
        usage: was_used.then_some(tokens),
        usage_estimated: estimated,
        cost: cost.filter(|_| was_used),
        held_ms: (held > 0).then_some(held),
        plan: None,
    };
    let reply = Reply {
        message_id,
        blocks: received.blocks,
        provenance: Provenance {
            provider: target.provider_name.clone(),
            api: target.provider.api().as_str().to_owned(),
            model: target.model_name.clone(),
            response_id: received.response_id,
        },
        usage: tokens,
        usage_estimated: estimated,
    };
    Called { ending, reply: Some(reply), emitted, attempt: Some(attempt), cost }
}

/// The usage of a call for vectors, reported or estimated.
fn embedded(prompt: Estimated, ending: &Ending) -> Judged {
    match ending {
        Ending::Embedded(answer) => {
            let input = answer.tokens.unwrap_or(prompt.tokens);
            let usage = ReportedUsage { input, ..ReportedUsage::default() };
            Judged { usage, estimated: answer.tokens.is_none() }
        }
        Ending::Completed(_) | Ending::Counted(_) | Ending::Failed(_) | Ending::Interrupted(_) => {
            Judged::default()
        }
    }
}

fn no_embeddings(provider: &str) -> Failure {
    let message = format!("the API of `{provider}` has no embeddings; name another provider");
    Failure::new(FailureKind::ModelNotFound, "no_embeddings", message)
}

/// The usage of a call, reported or estimated.
fn used(received: &Accumulated, prompt: Estimated, ending: &Ending) -> Judged {
    let tokens = estimate::block_tokens(&received.blocks);
    let text = tokens.saturating_sub(estimate::uncertain_tokens(&received.blocks));
    let ended = match ending {
        Ending::Completed(_) | Ending::Counted(_) | Ending::Embedded(_) => Ended::Whole,
        Ending::Failed(_) | Ending::Interrupted(_) => Ended::Cut,
    };
    judge(received.usage, prompt, Estimated { tokens, text }, ended)
}
