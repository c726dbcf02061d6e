//! Switches a run to another model: recomputes its budget and its transcript.
//!
//! It must never send the new provider a field that was meant only for the previous one.

use super::attempt_outcome::AttemptOutcome;
use super::driver::{Driver, Fallback};
use crate::engine::compaction::reproject;
use crate::engine::context::Session;
use crate::engine::state::{RunUsage, Unfinished};
use model::{Failure, FailureKind, StreamEvent};
use turn::machine::Machine;

/// A switch to another model of the run.
pub(super) struct Switch {
    /// Its number.
    pub(super) to: usize,
    /// The failure of the model before; `None` if the host chose the model.
    pub(super) reason: Option<FailureKind>,
}

/// Switches to another model. The error is the event that ends the run.
pub(super) async fn switch(
    driver: &mut Driver,
    Switch { to, reason }: Switch,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Result<(), Box<AttemptOutcome>> {
    let Some(fallback) = driver.fallbacks.get(to) else { return Ok(()) };
    let Fallback { target, compactor } = fallback.clone();
    let (run, shared) = (&mut driver.active.run, &driver.active.shared);
    let from = run.target.name();
    run.plan.switched(to);
    let provider = target.provider_name.as_str();
    let sticky = shared.keys.sticky(&run.context.session_label, provider);
    if run.target.provider_name != provider {
        run.plan.using(sticky.as_deref());
    }
    usage.notes.extend(run.move_to(target));
    usage.moved_to(&run.target.model, machine);
    driver.compactor = compactor;
    // Options that the new API cannot express become warnings as well.
    usage.notes.extend(usage.warnings.take().into_iter().flatten());
    let to = run.target.name();
    driver.active.queue.event(|seq| StreamEvent::ModelSwitch { from, to, reason, seq });
    session.size.moved();
    match reproject(&driver.active, machine, session).await {
        Ok(()) => Ok(()),
        Err(Unfinished::Interrupted(cause)) => Err(Box::new(AttemptOutcome::interrupted(cause))),
        Err(Unfinished::Failed(why)) => {
            let model = &driver.active.run.target.model_name;
            let message = format!("the history could not be read for `{model}`: {why}");
            let failure = Failure::new(FailureKind::Storage, "history", message);
            Err(Box::new(AttemptOutcome::unsent(failure)))
        }
    }
}
