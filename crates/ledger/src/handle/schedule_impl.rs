//! The port `ScheduleStore` over the writer and the readers. It must never compute a time.

use crate::handle::ledger::Ledger;
use crate::queue::schedules;
use model::{Enqueued, Firing, PortFuture, QueueLimits, ScheduleStore, StoredSchedule};

impl ScheduleStore for Ledger {
    fn put(
        &self,
        id: String,
        spec: String,
        item: String,
        next_at: Option<i64>,
    ) -> PortFuture<'static, StoredSchedule> {
        self.change_queue(move |connection, claim| {
            schedules::put(connection, claim, (&id, &spec, &item), next_at)
        })
    }

    fn remove(&self, id: String) -> PortFuture<'static, bool> {
        self.change_queue(move |connection, _| schedules::remove(connection, &id))
    }

    fn schedules(&self) -> PortFuture<'_, Vec<StoredSchedule>> {
        self.read(schedules::all)
    }

    fn due(&self) -> PortFuture<'_, (Vec<StoredSchedule>, Option<i64>)> {
        let claim = self.core().map(|core| core.claim.clone());
        Box::pin(async move {
            let claim = claim?;
            self.read_small(move |connection| schedules::due(connection, &claim)).await
        })
    }

    fn fire(&self, firing: Firing, limits: QueueLimits) -> PortFuture<'static, Option<Enqueued>> {
        self.change_queue(move |connection, claim| {
            schedules::fire(connection, claim, &firing, limits)
        })
    }
}
