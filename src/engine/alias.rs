//! The session that a run's label names (docs/rules/sessions-and-ledger.md#aliases): from here on the run is one of that session.
//!
//! It must never hold one session's queue while it waits for another's: two runs could wait for each other.

use super::driver::Run;
use super::opening::{broken, interrupted};
use super::sessions::Place;
use turn::machine::Event;

impl Run {
    /// Follows an alias, in the order in which runs were started on it. The event is what the run ends with instead.
    pub(crate) async fn follow_alias(
        &mut self,
        place: Option<Place>,
    ) -> Result<Option<Place>, Box<Event>> {
        let (Some(journal), Some(place)) = (&self.core.journal, place) else { return Ok(None) };
        if self.resumes {
            // It is a turn of a session, whatever its label names by now.
            return Ok(Some(place));
        }
        let entered = self.guard(place.enter()).await;
        // Also for a run that ended while it waited: its turn stands beside the session's thread, not beside the alias.
        let named = journal.session_named(&self.context.session_label).await;
        let label = named.map_err(broken)?;
        let lane = if label == self.context.session_label {
            entered.map(Place::from)
        } else {
            // Queued before the alias is free for the next run, so that it comes after this one.
            let place = self.core.sessions.queue(&label);
            self.context.session_label = label;
            self.template.session_is(&self.context);
            entered.map(|_| place)
        };
        lane.map(Some).map_err(interrupted)
    }
}
