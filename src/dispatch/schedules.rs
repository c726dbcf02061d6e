//! The schedules in this process: looks for due times, and queues the messages for them. It must never compute a time: the host
//! does.

use std::sync::Arc;
use std::time::Duration;

use super::dispatcher::Dispatcher;
use super::ends::EndWatch;
use super::sending::Receipt;
use model::{Firing, StorageError, StoredSchedule};

impl Dispatcher {
    /// Hands the host what is due. Returns how long to wait for the next due time, at most a pulse.
    pub(super) async fn check_schedules(self: &Arc<Self>) -> Duration {
        let pulse = self.parts.pulse;
        match self.parts.schedules.due().await {
            Ok((due, next_at)) => {
                if !due.is_empty() {
                    self.parts.host.due(due);
                }
                let wait = next_at.map(|at| at.saturating_sub(self.now()).max(0));
                let wait =
                    wait.and_then(|wait| u64::try_from(wait).ok()).map(Duration::from_millis);
                wait.map_or(pulse, |wait| wait.min(pulse))
            }
            Err(error) => {
                self.report(&error);
                pulse
            }
        }
    }

    /// Defines a schedule.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn schedule(
        &self,
        id: String,
        spec: String,
        item: String,
        next_at: Option<i64>,
    ) -> Result<StoredSchedule, StorageError> {
        let stored = self.parts.schedules.put(id, spec, item, next_at).await?;
        self.schedules_changed.notify_one();
        Ok(stored)
    }

    /// Removes a schedule; false where there is none.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn unschedule(&self, id: String) -> Result<bool, StorageError> {
        self.parts.schedules.remove(id).await
    }

    /// All schedules.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn schedules(&self) -> Result<Vec<StoredSchedule>, StorageError> {
        self.parts.schedules.schedules().await
    }

    /// Takes a due time, and queues its message. `None` where another process has, or it has no message.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn fire(
        self: &Arc<Self>,
        firing: Firing,
    ) -> Result<Option<Receipt>, StorageError> {
        let item = firing.message.as_ref().map(|(new, _)| (new.item.id.clone(), new.item.mode));
        let arriving = item.as_ref().map(|(id, _)| EndWatch::of_arriving(self, id));
        let enqueued = self.parts.schedules.fire(firing, self.parts.limits).await?;
        self.schedules_changed.notify_one();
        match enqueued.zip(item).zip(arriving) {
            Some(((enqueued, (id, mode)), watch)) => {
                Ok(Some(self.queued(id, mode, enqueued, watch).await))
            }
            None => Ok(None),
        }
    }
}
