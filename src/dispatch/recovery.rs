//! Turns of processes that have ended: each is resumed, or closed, before the session's next turn.
//!
//! It must never touch a turn that runs, here or elsewhere.

use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::state::ActiveTurn;
use model::{ItemStatus, StorageError};

impl Dispatcher {
    /// Has an interrupted turn of the session resumed.
    pub(super) async fn take_over(
        self: &Arc<Self>,
        label: &str,
        turn_id: &str,
    ) -> Result<(), StorageError> {
        // One that the host resumes is not interrupted, and a parked one waits for a decision; the next pulse looks again.
        let found = self.parts.journal.interrupted(Some(turn_id)).await?.pop();
        if found.is_none_or(|turn| turn.parked) {
            return Ok(());
        }
        let waiting = self.parts.store.waiting_items(label).await?;
        let taken: Vec<_> =
            waiting.iter().filter(|it| it.status == ItemStatus::Processing).collect();
        let active = ActiveTurn::new(
            turn_id.to_owned(),
            taken.first().map(|it| it.item.principal.clone()).unwrap_or_default(),
            taken.iter().map(|it| (it.item.id.clone(), it.item.tries)).collect(),
        );
        {
            let mut state = self.lock();
            if state.refuses(label) || !state.lanes.enter(label) {
                return Ok(());
            }
            state.session(label).turn = Some(active);
        }
        self.parts.host.resume(turn_id, label);
        Ok(())
    }
}
