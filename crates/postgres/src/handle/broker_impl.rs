//! The ports of a broker's queues, outbox, schedules and prompts over the statements. It must never decide what is admitted.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use base::clock::Clock;
use model::{
    ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStore, Enqueued, Firing, NewItem,
    PortFuture, PromptStore, QueueLimits, QueueStore, QueueTarget, QueueView, QueueWake,
    ScheduleStore, SessionQueue, StoredDelivery, StoredItem, StoredSchedule,
};

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::Server;
use crate::handle::postgres::Postgres;
use crate::queue::item_rows::{OF_ID, WAITING};
use crate::queue::transaction::{Transaction, transact};
use crate::queue::{changes, deliveries, enqueue, prompts, schedules};

impl Postgres {
    /// Submits a transaction at once: dropping its answer does not cancel it.
    pub(super) fn change<T: Send + 'static>(
        &self,
        key: Option<&str>,
        doing: &'static str,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> PortFuture<'static, T> {
        let clock = self.clock.clone();
        self.submit(
            key,
            move |server| async move { transact((&server, &clock), doing, work).await },
        )
    }

    /// Submits a statement with the time.
    fn at<T: Send + 'static, F: Future<Output = Stored<T>> + 'static>(
        &self,
        work: impl FnOnce(Rc<Server>, Clock) -> F + Send + 'static,
    ) -> PortFuture<'static, T> {
        let clock = self.clock.clone();
        self.submit(None, move |server| work(server, clock))
    }
}

impl QueueStore for Postgres {
    fn watch_queues(&self, wake: QueueWake) {
        self.live.watch_queues(wake);
        self.listen();
    }

    fn enqueue(&self, item: Box<NewItem>, limits: QueueLimits) -> PortFuture<'static, Enqueued> {
        let label = match &item.to {
            QueueTarget::Session(label) => Some(label.clone()),
            QueueTarget::Thread { .. } => None,
        };
        self.change(
            label.as_deref(),
            "queue a message",
            async move |transaction: &Transaction<'_>| {
                enqueue::enqueue(transaction, &item, limits).await
            },
        )
    }

    fn queue<'a>(
        &'a self,
        session_label: &'a str,
        view: QueueView,
    ) -> PortFuture<'a, SessionQueue> {
        let label = session_label.to_owned();
        self.submit(
            None,
            move |server| async move { changes::session(&server, &label, view).await },
        )
    }

    fn waiting_items<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Vec<StoredItem>> {
        let label = session_label.to_owned();
        self.submit(
            None,
            move |server| async move { changes::items(&server, WAITING, &label).await },
        )
    }

    fn queue_item<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<StoredItem>> {
        let id = id.to_owned();
        self.submit(None, move |server| async move {
            Ok(changes::items(&server, OF_ID, &id).await?.pop())
        })
    }

    fn waiting_sessions(&self) -> PortFuture<'_, Vec<String>> {
        self.submit(None, |server| async move { changes::waiting_sessions(&server).await })
    }

    fn offer(&self, ids: Vec<String>, turn_id: String) -> PortFuture<'static, Vec<String>> {
        self.change(None, "offer messages", async move |transaction: &Transaction<'_>| {
            changes::offer(transaction, &ids, &turn_id).await
        })
    }

    fn withdraw(&self, turn_id: String) -> PortFuture<'static, ()> {
        self.submit(None, move |server| async move { changes::withdraw(&server, &turn_id).await })
    }

    fn cancel(&self, id: String) -> PortFuture<'static, bool> {
        self.change(None, "cancel a message", async move |transaction: &Transaction<'_>| {
            changes::cancel(transaction, &id).await
        })
    }

    fn clear(&self, session_label: String) -> PortFuture<'static, Vec<String>> {
        let cancelled = RefCell::default();
        self.change(None, "cancel messages", async move |transaction: &Transaction<'_>| {
            changes::clear(transaction, &session_label, &cancelled).await
        })
    }

    fn refuse(&self, ids: Vec<String>, detail: String) -> PortFuture<'static, ()> {
        self.change(None, "end messages", async move |transaction: &Transaction<'_>| {
            changes::refuse(transaction, &ids, &detail).await
        })
    }

    fn suspend(&self, session_label: String, is_suspended: bool) -> PortFuture<'static, ()> {
        self.submit(Some(&session_label.clone()), move |server| async move {
            changes::suspend(&server, &session_label, is_suspended).await
        })
    }
}

impl DeliveryStore for Postgres {
    fn claim(&self, most: usize) -> PortFuture<'static, ClaimedDeliveries> {
        self.at(move |server, clock| async move {
            deliveries::claim(&server, most, clock.now_ms()).await
        })
    }

    fn renew(&self, claims: Vec<(String, i64)>) -> PortFuture<'static, ()> {
        self.submit(None, move |server| async move { deliveries::renew(&server, &claims).await })
    }

    fn end_claim(
        &self,
        turn_id: String,
        epoch: i64,
        outcome: DeliveryOutcome,
    ) -> PortFuture<'static, Option<StoredDelivery>> {
        self.change(None, "end a delivery", async move |transaction: &Transaction<'_>| {
            deliveries::end(transaction, (&turn_id, epoch), &outcome).await
        })
    }

    fn acknowledge(&self, turn_id: String) -> PortFuture<'static, bool> {
        self.at(move |server, clock| async move {
            deliveries::acknowledge(&server, &turn_id, clock.now_ms()).await
        })
    }

    fn hand_out_again(&self, turn_id: String) -> PortFuture<'static, bool> {
        self.at(move |server, clock| async move {
            deliveries::hand_out_again(&server, &turn_id, clock.now_ms()).await
        })
    }

    fn deliveries(&self, filter: DeliveryFilter) -> PortFuture<'_, Vec<StoredDelivery>> {
        self.submit(None, move |server| async move { deliveries::list(&server, &filter).await })
    }
}

impl ScheduleStore for Postgres {
    fn put(
        &self,
        id: String,
        spec: String,
        item: String,
        next_at: Option<i64>,
    ) -> PortFuture<'static, StoredSchedule> {
        self.change(None, "write a schedule", async move |transaction: &Transaction<'_>| {
            let put = schedules::put(transaction, (&id, &spec, &item), next_at).await?;
            put.ok_or_else(|| damaged("a schedule is not there after it was written").into())
        })
    }

    fn remove(&self, id: String) -> PortFuture<'static, bool> {
        self.submit(None, move |server| async move { schedules::remove(&server, &id).await })
    }

    fn schedules(&self) -> PortFuture<'_, Vec<StoredSchedule>> {
        self.submit(None, |server| async move { schedules::all(&server).await })
    }

    fn due(&self) -> PortFuture<'_, (Vec<StoredSchedule>, Option<i64>)> {
        self.at(|server, clock| async move { schedules::due(&server, clock.now_ms()).await })
    }

    fn fire(&self, firing: Firing, limits: QueueLimits) -> PortFuture<'static, Option<Enqueued>> {
        self.change(None, "take a due time", async move |transaction: &Transaction<'_>| {
            schedules::fire(transaction, &firing, limits).await
        })
    }
}

impl PromptStore for Postgres {
    fn prompt_files<'a>(
        &'a self,
        session_label: &'a str,
        request: &'a str,
    ) -> PortFuture<'a, Option<String>> {
        let (label, request) = (session_label.to_owned(), request.to_owned());
        self.submit(
            None,
            move |server| async move { prompts::files(&server, &label, &request).await },
        )
    }

    fn set_prompt_files(
        &self,
        session_label: String,
        request: String,
        files: String,
    ) -> PortFuture<'static, ()> {
        self.submit(Some(&session_label.clone()), move |server| async move {
            prompts::set(&server, &session_label, &request, &files).await
        })
    }
}
