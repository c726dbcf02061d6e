//! Turns of processes that have ended: each is resumed, or closed, before the session's next turn.
//!
//! It must never touch a turn that runs, here or elsewhere.

use std::sync::Arc;

use super::dispatcher::{Dispatcher, millis};
use super::state::ActiveTurn;
use super::turns::OpenEnd;
use model::{Approval, ApprovalStatus, ItemStatus, StorageError, StoredItem};

impl Dispatcher {
    /// Has an interrupted turn of the session resumed, as soon as it has a slot, or aborted where its task is cancelled; false where something else comes first.
    pub(super) async fn take_over(
        self: &Arc<Self>,
        label: &str,
        turn_id: &str,
    ) -> Result<bool, StorageError> {
        // The queue may have been read before the end of a turn that another dispatcher runs: that one wakes this one.
        if self.is_at_peer(label, turn_id) {
            return Ok(false);
        }
        // One that the host resumes is not interrupted; the next pulse looks again.
        let Some(turn) = self.parts.journal.interrupted(Some(turn_id)).await?.pop() else {
            return Ok(false);
        };
        let waiting = self.parts.store.waiting_items(label).await?;
        let is_taken = |it: &StoredItem| it.status == ItemStatus::Processing;
        let taken: Vec<StoredItem> = waiting.into_iter().filter(is_taken).collect();
        // Nothing of it runs any more, nor does a call about which somebody decides now.
        let is_cancelled = self.is_cancelled(&taken).await?;
        let mut parked_ms = 0;
        if turn.parked && !is_cancelled {
            let now = self.now();
            let Some(decided) = decided_at(&turn.approvals, now) else { return Ok(false) };
            // Where the process that has parked it lives, the turn goes on there at once.
            let due = decided.saturating_add(millis(self.parts.pulse));
            if due > now {
                self.wake_at(label, due);
                return Ok(false);
            }
            // Its clock has stood still meanwhile.
            let parked_at = turn.approvals.iter().map(|it| it.created_at).min();
            parked_ms = decided.saturating_sub(parked_at.unwrap_or(decided)).max(0);
        }
        let limits = self.limits_of(&taken, parked_ms).await?;
        let active = ActiveTurn::new(
            turn_id.to_owned(),
            taken.first().map(|it| it.item.principal.clone()).unwrap_or_default(),
            taken.iter().map(|it| (it.item.id.clone(), it.item.tries)).collect(),
        );
        {
            let mut state = self.lock();
            if state.refuses(label) || !state.lanes.enter(label) {
                return Ok(true);
            }
            state.session(label).turn = Some(active);
        }
        if is_cancelled {
            self.end_open(label, turn_id, OpenEnd::Abort);
        } else {
            self.parts.host.resume(turn_id, label, limits);
        }
        Ok(true)
    }
}

/// When the last of a parked turn's calls was decided about; `None` while one of them waits.
fn decided_at(approvals: &[Approval], now: i64) -> Option<i64> {
    let times = approvals.iter().map(|approval| {
        let approval = approval.clone().at(now);
        let is_decided = approval.status != ApprovalStatus::Pending;
        is_decided.then(|| approval.decided_at.or(approval.expires_at).unwrap_or_default())
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}
