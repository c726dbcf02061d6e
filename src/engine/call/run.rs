//! The call that a run's machine asks for: with room made before it, and once more after a prompt that was refused.
//!
//! It must never choose whom to ask, or decide what becomes of a failure: that is `failover`'s.

use super::super::budgets::Payer;
use super::super::compaction::{Room, Stopped, compaction_failure};
use super::super::conversation::Conversation;
use super::super::driver::Run;
use super::super::governor::priority_of;
use super::super::session::Session;
use super::{Called, Dismissed, Ending, ModelCall, ModelTarget, PromptSize, RunUsage};
use base::telemetry;
use model::{CallPurpose, FailureKind};
use turn::calibration::Ratio;
use turn::governor::Claim;
use turn::machine::{Event, Machine, Reply};
use turn::transcript::Dropped;
use turn::usage::Estimated;

/// What came of asking.
pub(crate) enum Asked {
    /// Whom to ask is to be chosen anew.
    Anew,
    Called(Box<Called>),
    /// What the run ends with instead of a call.
    Ended(Box<Event>),
}

impl Run {
    /// Asks the model; `called` says whether a tool of this run has answered.
    pub(crate) async fn ask(
        &mut self,
        machine: &Machine,
        session: &mut Session,
        called: bool,
        spent: &mut RunUsage,
    ) -> Asked {
        let before = spent.compacted;
        session.fit.ratio = self.ratio();
        if let Some(event) = self.prune(machine, session, spent).await {
            return Asked::Ended(Box::new(event));
        }
        if let Some(event) = self.make_room(machine, session, spent).await {
            return Asked::Ended(Box::new(event));
        }
        loop {
            if spent.compacted != before {
                self.choose_anew(session);
            }
            if let Err(error) = session.conversation.sendable() {
                let unsent = Called::unsent(Ending::Failed(error.to_failure()));
                return Asked::Called(Box::new(unsent));
            }
            let sent = self.core.clock.now_ms();
            let call = self.model_call(session, called, spent);
            let done = match self.core.call(call).await {
                Ok(done) => done,
                Err(Dismissed { held }) => {
                    spent.held = held;
                    return Asked::Anew;
                }
            };
            spent.record(&done);
            match (&done.ending, &done.reply) {
                (Ending::Completed(_), Some(reply)) => {
                    self.learn(reply, session);
                    session.fit.replied(reply, &session.conversation);
                    let call = (spent.attempts.len(), sent);
                    Box::pin(self.watch(machine, session, reply, called, call)).await;
                    return Asked::Called(Box::new(done));
                }
                (Ending::Failed(failure), _)
                    if failure.kind == FailureKind::ContextOverflow && !done.emitted => {}
                (
                    Ending::Completed(_)
                    | Ending::Counted(_)
                    | Ending::Failed(_)
                    | Ending::Interrupted(_),
                    _,
                ) => return Asked::Called(Box::new(done)),
            }
            match self.recover(machine, session, spent).await {
                Ok(Room::Made) => {
                    let (usage, estimated) = done.usage();
                    spent.count_unseen(usage, estimated);
                }
                Ok(Room::Nothing) => return Asked::Called(Box::new(done)),
                Err(Stopped::Interrupted(cause)) => {
                    return Asked::Ended(Box::new(Event::Interrupted { cause, partial: None }));
                }
                // A larger window needs no summary.
                Err(Stopped::Failed(_)) if self.plan.has_larger() => {
                    return Asked::Called(Box::new(done));
                }
                Err(Stopped::Failed(why)) => {
                    return Asked::Ended(Box::new(Event::Broken(compaction_failure(&why))));
                }
            }
        }
    }

    /// The next call; what the request cannot say becomes a warning of the run.
    fn model_call<'a>(
        &'a self,
        session: &Session,
        called: bool,
        spent: &mut RunUsage,
    ) -> ModelCall<'a> {
        let Session { conversation, fit, .. } = session;
        let request = self.request(conversation, called);
        if spent.warnings.is_none() {
            spent.warnings = Some(self.warnings(&request));
        }
        report_dropped(conversation);
        ModelCall {
            purpose: CallPurpose::Run,
            target: ModelTarget {
                provider: self.provider.as_ref(),
                provider_name: &self.context.provider,
                model_name: &self.context.model,
                model: &self.model,
                profile: self.profile.as_deref(),
            },
            request,
            prompt: PromptSize {
                needed: fit.needed(conversation),
                worst: fit.worst(conversation),
                estimate: Estimated {
                    tokens: fit.ratio.apply(fit.prompt(conversation)),
                    text: fit.prompt_text(conversation),
                },
            },
            number: spent.next_attempt(),
            claim: Claim {
                priority: priority_of(&self.context.session_label),
                last: self.plan.is_last_request(),
            },
            payer: Some(self.payer()),
            hook: self.hook(),
            bounds: &self.bounds,
            events: Some(&self.queue),
            held: spent.held,
        }
    }

    /// Who pays for its calls.
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer {
            turn_id: Some(&self.turn_id),
            session_label: &self.context.session_label,
            follows: self.context.parent_turn_id.as_deref(),
        }
    }

    /// How the run's model counts.
    pub(crate) fn ratio(&self) -> Ratio {
        self.core.calibrations.of(&self.context.provider, &self.context.model)
    }

    /// What an answer reports of its prompt, beside our estimate of that.
    fn learn(&self, reply: &Reply, session: &mut Session) {
        // What a provider's own tools read is in its count, and in none of ours.
        if reply.usage_estimated || !self.context.request.provider_tools.is_empty() {
            return;
        }
        let reported = reply.usage.prompt_tokens();
        let estimated = session.fit.prompt(&session.conversation);
        let (provider, model) = (&self.context.provider, &self.context.model);
        self.core.calibrations.learn(provider, model, reported, estimated);
        session.fit.ratio = self.ratio();
    }
}

fn report_dropped(conversation: &Conversation) {
    let Dropped { thinking, opaque, calls, results, other: _ } = conversation.dropped();
    if thinking + opaque + calls + results > 0 {
        telemetry::left_out(thinking, opaque, calls, results);
    }
}
