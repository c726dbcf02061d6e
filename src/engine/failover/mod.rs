//! Who is asked: a model of the chain with one of its profiles, and another when that fails.
//!
//! It does what the plan says. It must never go on after a token, an abort, or the end of the run's time.

mod keys;
mod options;

use std::time::Duration;

use super::Core;
use super::call::{Asked, Called, Ending, NextCall, RunUsage, announce_wait};
use super::compaction::Stopped;
use super::driver::Run;
use super::session::Session;
use base::telemetry;
use model::{CallPurpose, Failure, FailureKind, ModelName, Stop, StreamEvent};
use turn::fallback::{Choice, Plan};
use turn::machine::{Event, Interrupt, Machine};
use turn::retry;

pub(crate) use keys::Keyring;
pub(crate) use options::{Chain, Chair};
pub use options::{FailoverOptions, Ladder};

impl Run {
    /// One attempt at the model that answers: what came of it, and whether another is made.
    pub(super) async fn attempt(
        &mut self,
        machine: &Machine,
        session: &mut Session,
        called: bool,
        spent: &mut RunUsage,
    ) -> Event {
        if let Err(cause) = self.guard(self.core.calibrations.look()).await {
            return Event::Interrupted { cause, partial: None };
        }
        if let Err(cause) = self.remember(session.parent_turn_id.as_deref()).await {
            return Event::Interrupted { cause, partial: None };
        }
        loop {
            if let Some(event) = self.settle_on_one(machine, session, spent).await {
                return event;
            }
            match self.ask(machine, session, called, spent).await {
                // A call that was held back for a profile that has cooled since asks another.
                Asked::Anew => {}
                Asked::Called(done) => {
                    self.plan.has_failed(spent.failed().saturating_sub(1));
                    return self.judge(*done).await;
                }
                Asked::Ended(event) => return *event,
            }
        }
    }

    /// A session that this engine has not answered goes on with the profile of its last turn: that provider may have its
    /// prompt in the cache. A compaction has none.
    async fn remember(&mut self, last_turn: Option<&str>) -> Result<(), Interrupt> {
        if self.profile.is_some() || !self.plan.has_choice() {
            return Ok(());
        }
        let (Some(journal), Some(turn)) = (&self.core.journal, last_turn) else {
            return Ok(());
        };
        match self.guard(journal.answered_with(turn, &self.context.provider)).await? {
            Ok(Some(profile)) => self.plan.using(Some(&profile)),
            Ok(None) => {}
            Err(error) => telemetry::storage_failed(error.kind.code()),
        }
        Ok(())
    }

    /// Chooses model and profile; waits, and goes to the next model, where the plan says so.
    async fn settle_on_one(
        &mut self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Option<Event> {
        loop {
            if let Err(cause) = self.guard(self.core.keys.look()).await {
                return Some(Event::Interrupted { cause, partial: None });
            }
            match self.choose(session) {
                Choice::Use(profile) => {
                    self.take(profile);
                    return None;
                }
                Choice::Wait(pause) => {
                    // A wall clock that is read in whole milliseconds is up to one behind.
                    let wait = pause.length.saturating_add(Duration::from_millis(1));
                    let next = NextCall {
                        purpose: CallPurpose::Run,
                        provider: &self.context.provider,
                        model: &self.context.model,
                        profile: pause.profile.as_deref(),
                        attempt: spent.next_attempt(),
                    };
                    let now = self.core.clock.now_ms();
                    announce_wait(&self.queue, next, pause.reason, Some(wait), now);
                    if let Err(cause) = self.guard(tokio::time::sleep(wait)).await {
                        return Some(Event::Interrupted { cause, partial: None });
                    }
                    self.plan.waited();
                }
                Choice::Switch { to, reason } => {
                    if let Some(event) = self.switch(to, reason, machine, session, spent).await {
                        return Some(event);
                    }
                }
                Choice::Fail(failure) => return Some(ended(failure)),
            }
        }
    }

    /// What the plan does next. A session that has no profile yet gets one whose rate limits have room, where there is one.
    fn choose(&self, session: &Session) -> Choice {
        let (provider, model) = (&self.context.provider, &self.context.model);
        let tokens = session.fit.estimate(&session.conversation);
        let busy = |id: &str| self.core.governor.is_busy(provider, id, model, tokens);
        self.core.keys.choose(&self.plan, self.remaining(), &busy)
    }

    fn take(&mut self, profile: Option<String>) {
        if let Some(id) = profile.as_deref().filter(|_| self.profile != profile) {
            self.core.keys.picked(id);
        }
        self.plan.using(profile.as_deref());
        self.profile = profile;
    }

    /// The history was compacted: what a profile's provider had kept of it is of no more use.
    pub(super) fn choose_anew(&mut self, session: &Session) {
        self.plan.compacted();
        self.core.keys.stick(&self.context.session_label, &self.context.provider, None);
        if let Choice::Use(profile) = self.choose(session) {
            self.take(profile);
        }
    }

    /// Goes to another model: its budget, its transcript, and no more of the one before.
    async fn switch(
        &mut self,
        to: usize,
        reason: FailureKind,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Option<Event> {
        let chair = self.chain.get(to)?.clone();
        let name = |run: &Self| ModelName {
            provider: Some(run.context.provider.clone()),
            model: run.context.model.clone(),
        };
        let from = name(self);
        self.plan.switched(to);
        let sticky = self.core.keys.sticky(&self.context.session_label, &chair.provider_name);
        if self.context.provider != chair.provider_name {
            self.plan.using(sticky.as_deref());
            let left_out = self.template.elsewhere(&mut self.context, &chair.provider_name);
            spent.notes.extend(left_out);
        }
        self.context.provider = chair.provider_name;
        self.context.model = chair.model_name;
        self.provider = chair.provider;
        self.model = chair.model;
        self.compactor = chair.compactor;
        // What the host has calculated was for the model it asked for.
        let budget = &mut self.context.token_budget;
        (budget.model_limit, budget.available) = (None, None);
        (budget.used, budget.remaining) = (None, None);
        spent.moved_to(&self.model, machine);
        // The new API is asked otherwise: what it cannot say is told as well.
        spent.notes.extend(spent.warnings.take().into_iter().flatten());
        let to = name(self);
        self.queue.event(|seq| StreamEvent::ModelSwitch { from, to, reason, seq });
        session.fit.moved();
        match self.retell(machine, session).await {
            Ok(()) => None,
            Err(Stopped::Interrupted(cause)) => Some(Event::Interrupted { cause, partial: None }),
            Err(Stopped::Failed(why)) => {
                let message =
                    format!("the history could not be read for `{}`: {why}", self.context.model);
                Some(ended(Failure::new(FailureKind::Storage, "history", message)))
            }
        }
    }

    /// What a call's end means for the plan and the book, and whether another one is made.
    async fn judge(&mut self, mut done: Called) -> Event {
        match &done.ending {
            Ending::Completed(completion) => {
                let refused = matches!(completion.stop, Stop::Refusal | Stop::ContentFilter);
                let silent = done.reply.as_ref().is_some_and(|reply| reply.blocks.is_empty());
                if refused && silent {
                    let failure = Failure::new(
                        FailureKind::Refusal,
                        &completion.stop_raw,
                        "the model refused",
                    );
                    let keys = &self.core.keys;
                    let remaining = self.bounds.remaining(&self.core.clock);
                    if keys.spent(&mut self.plan, &failure, false, remaining).is_ok() {
                        done.ending = Ending::Failed(failure);
                        return done.into_event(Some(Duration::ZERO));
                    }
                }
                self.plan.answered();
                if let Some(id) = &self.profile {
                    self.core.keys.answered(id);
                    let (label, provider) = (&self.context.session_label, &self.context.provider);
                    self.core.keys.stick(label, provider, Some(id));
                }
                done.into_event(None)
            }
            Ending::Failed(failure) => {
                let failure = retry::judged(failure).into_owned();
                let asked = (self.profile.as_deref(), self.context.model.as_str());
                let (emitted, remaining) = (done.emitted, self.remaining());
                let core = std::sync::Arc::clone(&self.core);
                let after =
                    core.after_failure(&mut self.plan, asked, &failure, emitted, remaining).await;
                let (failure, again) = match after {
                    Ok(delay) => (failure, Some(delay)),
                    Err(failure) => (failure, None),
                };
                done.ending = Ending::Failed(failure);
                done.into_event(again)
            }
            Ending::Counted(_) | Ending::Interrupted(_) => done.into_event(None),
        }
    }
}

impl Core {
    /// What a failed call means for its plan, its profile and the rate limits: after how long another one is made, or the
    /// failure that it ends with.
    pub(crate) async fn after_failure(
        &self,
        plan: &mut Plan,
        (profile, model): (Option<&str>, &str),
        failure: &Failure,
        emitted: bool,
        remaining: Duration,
    ) -> Result<Duration, Failure> {
        let first = plan.is_first_failure();
        if let Some(delay) = self.keys.retry(plan, failure, emitted, remaining) {
            return Ok(delay);
        }
        if let Some(id) = profile {
            if first && !emitted && self.keys.renews(id, failure.kind).await {
                return Ok(Duration::ZERO);
            }
            self.blame(id, model, failure).await;
        }
        self.keys.spent(plan, failure, emitted, remaining)?;
        Ok(Duration::ZERO)
    }

    /// A profile has failed with `model`: it cools down, and whoever waits for it chooses anew.
    pub(crate) async fn blame(&self, profile: &str, model: &str, failure: &Failure) {
        self.keys.failed(profile, model, failure).await;
        self.governor.dismiss(profile, model, failure.kind);
    }
}

/// The end of a run for want of anybody to ask.
fn ended(failure: Failure) -> Event {
    Event::AttemptFailed { failure, partial: None, emitted: false, again: None }
}
