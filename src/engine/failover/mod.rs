//! Who is asked: a model of the chain with one of its profiles, and another when that fails (RULES §2).
//!
//! It does what the plan says. It must never go on after a token, an abort, or the end of the run's time.

mod keys;
mod options;

use super::call::Spent;
use super::compaction::Stopped;
use super::driver::Run;
use super::session::Session;
use crate::model::{Failure, FailureKind, ModelName, Stop, StreamEvent};
use crate::telemetry;
use crate::turn::fallback::Choice;
use crate::turn::machine::{Event, Interrupt, Machine};
use crate::turn::retry;

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
        spent: &mut Spent,
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
            // A call that was held back for a profile that has cooled since asks another.
            if let Some(event) = self.ask(machine, session, called, spent).await {
                return self.judge(event).await;
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
        spent: &mut Spent,
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
                Choice::Wait(wait) => {
                    // A wall clock that is read in whole milliseconds is up to one behind.
                    let wait = wait.saturating_add(std::time::Duration::from_millis(1));
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
        spent: &mut Spent,
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
            let left_out = self.asks.elsewhere(&mut self.context, &chair.provider_name);
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
        if machine.usage().0.total_tokens == 0 {
            spent.cost = self.model.cost.as_ref().map(|_| 0.0);
        }
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

    /// What an event means for the plan and the book, and whether another attempt is made.
    async fn judge(&mut self, event: Event) -> Event {
        match event {
            Event::Replied { reply, stop, stop_raw } => {
                let refused = matches!(stop, Stop::Refusal | Stop::ContentFilter);
                if refused && reply.blocks.is_empty() {
                    let failure =
                        Failure::new(FailureKind::Refusal, &stop_raw, "the model refused");
                    if self.goes_on(&failure, false).is_ok() {
                        return Event::AttemptFailed {
                            failure,
                            partial: Some(reply),
                            emitted: false,
                            again: Some(std::time::Duration::ZERO),
                        };
                    }
                }
                self.plan.answered();
                if let Some(id) = &self.profile {
                    self.core.keys.answered(id);
                    let (label, provider) = (&self.context.session_label, &self.context.provider);
                    self.core.keys.stick(label, provider, Some(id));
                }
                Event::Replied { reply, stop, stop_raw }
            }
            Event::AttemptFailed { failure, partial, emitted, again: _ } => {
                let failure = retry::judged(&failure).into_owned();
                let (remaining, dice) = (self.remaining(), self.core.clock.dice());
                let first = self.plan.is_first_failure();
                if let Some(delay) = self.plan.retry(&failure, emitted, remaining, dice) {
                    return Event::AttemptFailed { failure, partial, emitted, again: Some(delay) };
                }
                if let Some(id) = self.profile.clone() {
                    if first && !emitted && self.core.keys.renews(&id, failure.kind).await {
                        let again = Some(std::time::Duration::ZERO);
                        return Event::AttemptFailed { failure, partial, emitted, again };
                    }
                    self.core.keys.failed(&id, &self.context.model, &failure).await;
                    self.core.governor.dismiss(&id, &self.context.model, failure.kind);
                }
                match self.goes_on(&failure, emitted) {
                    Ok(()) => {
                        let again = Some(std::time::Duration::ZERO);
                        Event::AttemptFailed { failure, partial, emitted, again }
                    }
                    Err(failure) => Event::AttemptFailed { failure, partial, emitted, again: None },
                }
            }
            other @ (Event::Waited
            | Event::ToolStarted { .. }
            | Event::ToolFinished { .. }
            | Event::Steered(_)
            | Event::Interrupted { .. }
            | Event::Broken(_)) => other,
        }
    }

    fn goes_on(&mut self, failure: &Failure, emitted: bool) -> Result<(), Failure> {
        let remaining = self.remaining();
        self.core.keys.spent(&mut self.plan, failure, emitted, remaining)
    }
}

/// The end of a run for want of anybody to ask.
fn ended(failure: Failure) -> Event {
    Event::AttemptFailed { failure, partial: None, emitted: false, again: None }
}
