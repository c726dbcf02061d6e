//! One attempt at an answer: chooses model and profile, calls the model, and records the outcome in the plan.
//!
//! The plan decides. It must never continue after a token, an abort, or the end of the run's time.

use std::time::Duration;

use super::attempt_outcome::{AttemptOutcome, FailedAttempt};
use super::driver::Driver;
use super::model_turn::{ModelTurn, call_model, choose, use_profile};
use super::switch::{Switch, switch};
use crate::engine::call::{Called, Ending, NextCall, announce_wait};
use crate::engine::context::Session;
use crate::engine::failover::{FailedCall, after_failure};
use crate::engine::state::{RunUsage, Unfinished};
use base::telemetry;
use model::{CallPurpose, Failure, FailureKind, Stop};
use turn::fallback::Choice;
use turn::machine::{Interrupt, Machine};
use turn::retry;

/// One attempt at an answer. `tools_answered`: the run has a tool result already.
pub(super) async fn attempt(
    driver: &mut Driver,
    machine: &Machine,
    session: &mut Session,
    tools_answered: bool,
    usage: &mut RunUsage,
) -> AttemptOutcome {
    let refreshed = driver.active.guard(driver.active.shared.calibrations.refresh()).await;
    if let Err(cause) = refreshed {
        return AttemptOutcome::interrupted(cause);
    }
    let last_turn = session.head.parent_turn_id.as_deref();
    if let Err(cause) = use_last_profile(driver, last_turn).await {
        return AttemptOutcome::interrupted(cause);
    }
    loop {
        if let Some(outcome) = choose_target(driver, machine, session, usage).await {
            return outcome;
        }
        match call_model(driver, machine, session, tools_answered, usage).await {
            // The profile started to cool down while the call waited: another one is chosen.
            ModelTurn::ChooseAgain => {}
            ModelTurn::Called(called) => {
                driver.active.run.plan.has_failed(usage.failed().saturating_sub(1));
                return judge(driver, *called).await;
            }
            ModelTurn::Ended(outcome) => return *outcome,
        }
    }
}

/// A session without an answer in this engine continues with the profile of its last turn: that provider may have its
/// prompt in the cache. A compaction turn has no profile.
async fn use_last_profile(driver: &mut Driver, last_turn: Option<&str>) -> Result<(), Interrupt> {
    let active = &mut driver.active;
    if active.run.profile.is_some() || !active.run.plan.has_choice() {
        return Ok(());
    }
    let (Some(journal), Some(turn)) = (&active.shared.journal, last_turn) else {
        return Ok(());
    };
    let reading = journal.answered_with(turn, &active.run.target.provider_name);
    match active.try_guard(reading).await {
        Ok(Some(profile)) => active.run.plan.using(Some(&profile)),
        Ok(None) => {}
        Err(Unfinished::Failed(error)) => telemetry::storage_failed(error.kind.code()),
        Err(Unfinished::Interrupted(cause)) => return Err(cause),
    }
    Ok(())
}

/// Chooses model and profile; waits, or switches to the next model, as the plan decides.
async fn choose_target(
    driver: &mut Driver,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Option<AttemptOutcome> {
    loop {
        let active = &mut driver.active;
        if let Err(cause) = active.guard(active.shared.keys.refresh()).await {
            return Some(AttemptOutcome::interrupted(cause));
        }
        match choose(active, session) {
            Choice::Use(profile) => {
                use_profile(active, profile);
                return None;
            }
            Choice::Wait(pause) => {
                // The wall clock is read in whole milliseconds, so it is up to one behind.
                let wait = pause.length.saturating_add(Duration::from_millis(1));
                let next = NextCall {
                    purpose: CallPurpose::Run,
                    provider: &active.run.target.provider_name,
                    model: &active.run.target.model_name,
                    profile: pause.profile.as_deref(),
                    attempt: usage.next_attempt(),
                };
                let now = active.shared.clock.now_ms();
                announce_wait(&active.queue, next, pause.reason, Some(wait), now);
                if let Err(cause) = active.guard(tokio::time::sleep(wait)).await {
                    return Some(AttemptOutcome::interrupted(cause));
                }
                active.run.plan.waited();
            }
            Choice::Switch { to, reason } => {
                let switched = Box::pin(switch(
                    driver,
                    Switch { to, reason: Some(reason) },
                    machine,
                    session,
                    usage,
                ))
                .await;
                if let Err(outcome) = switched {
                    return Some(*outcome);
                }
            }
            Choice::Fail(failure) => return Some(AttemptOutcome::unsent(failure)),
        }
    }
}

/// Records the end of a call in the plan and the profiles, and returns whether another call follows.
async fn judge(driver: &mut Driver, called: Called) -> AttemptOutcome {
    let remaining = driver.active.remaining();
    let (run, shared) = (&mut driver.active.run, &driver.active.shared);
    match &called.ending {
        Ending::Completed(completion) => {
            let refused = matches!(completion.stop, Stop::Refusal | Stop::ContentFilter);
            let silent = called.reply.as_ref().is_some_and(|reply| reply.blocks.is_empty());
            if refused && silent {
                let raw = &completion.stop_raw;
                let failure = Failure::new(FailureKind::Refusal, raw, "the model refused");
                let plan = &mut run.plan;
                if shared.keys.give_up_profile(plan, &failure, false, remaining).is_ok() {
                    let Called { reply: partial, emitted, .. } = called;
                    let failed = FailedAttempt { failure, partial, emitted };
                    return AttemptOutcome::Retried { failed, delay: Duration::ZERO };
                }
            }
            run.plan.answered();
            if let Some(id) = &run.profile {
                shared.keys.answered(id);
                let (label, provider) = (&run.context.session_label, &run.target.provider_name);
                shared.keys.stick(label, provider, Some(id));
            }
            AttemptOutcome::of(called)
        }
        Ending::Failed(failure) => {
            let failure = retry::judged(failure).into_owned();
            let Called { reply: partial, emitted, .. } = called;
            let failed = FailedCall {
                profile: run.profile.as_deref(),
                model_name: &run.target.model_name,
                failure: &failure,
                emitted,
                remaining,
            };
            let plan = &mut run.plan;
            match after_failure(&shared.keys, &shared.governor, plan, failed).await {
                Ok(delay) => {
                    let failed = FailedAttempt { failure, partial, emitted };
                    AttemptOutcome::Retried { failed, delay }
                }
                Err(failure) => AttemptOutcome::Failed(FailedAttempt { failure, partial, emitted }),
            }
        }
        Ending::Counted(_) | Ending::Embedded(_) | Ending::Interrupted(_) => {
            AttemptOutcome::of(called)
        }
    }
}
