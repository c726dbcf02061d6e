//! Resolves the alias in a run's label (docs/rules/sessions-and-ledger.md#aliases): the run then belongs to that session.
//!
//! It must never hold one session's lane while it waits for another's: two runs could wait for each other.

use super::driver::Driver;
use super::opening::{broken, interrupted};
use crate::engine::state::LaneTicket;
use turn::machine::Event;

/// Follows an alias, in the order in which runs were started on it. The error is the event that ends the run.
pub(super) async fn follow_alias(
    driver: &mut Driver,
    ticket: Option<LaneTicket>,
) -> Result<Option<LaneTicket>, Box<Event>> {
    let active = &mut driver.active;
    let (Some(journal), Some(ticket)) = (&active.shared.journal, ticket) else { return Ok(None) };
    if active.run.resumes {
        // A resumed turn belongs to its session, even if the alias was changed.
        return Ok(Some(ticket));
    }
    let entered = active.guard(ticket.enter()).await;
    // Also for a run that ended while it waited: its turn is written to the session, not under the alias.
    let run = &active.run;
    let named = journal.session_of(&run.turn_id, &run.context.session_label).await;
    let label = named.map_err(broken)?;
    let ticket = if label == active.run.context.session_label {
        entered.map(LaneTicket::from)
    } else {
        // Queued before the alias is free for the next run, so that the next run follows this one.
        let ticket = active.shared.lanes.queue(&label);
        if let Some(registration) = &driver.registration {
            registration.waits(&ticket);
        }
        let run = &mut active.run;
        run.context.session_label = label;
        run.template.session_is(&run.context);
        entered.map(|_| ticket)
    };
    ticket.map(Some).map_err(interrupted)
}
