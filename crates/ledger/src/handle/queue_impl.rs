//! The port `QueueStore` over the writer and the readers. It must never decide what is admitted.

use rusqlite::Connection;

use crate::handle::ledger::Ledger;
use crate::lease::claim::Claim;
use crate::queue::{changes, dispatch_end, enqueue, item_rows, reads};
use crate::sqlite::error::Stored;
use model::{
    Enqueued, FailedReason, NewItem, PortFuture, QueueLimits, QueueStore, QueueView, SessionQueue,
    StoredItem,
};

impl QueueStore for Ledger {
    fn enqueue(&self, item: Box<NewItem>, limits: QueueLimits) -> PortFuture<'static, Enqueued> {
        self.change_queue(move |connection, claim| {
            enqueue::enqueue(connection, claim, &item, limits)
        })
    }

    fn queue<'a>(
        &'a self,
        session_label: &'a str,
        view: QueueView,
    ) -> PortFuture<'a, SessionQueue> {
        let label = session_label.to_owned();
        let claim = self.core().map(|core| core.claim.clone());
        Box::pin(async move {
            let claim = claim?;
            self.read_small(move |connection| reads::session(connection, &claim, &label, view))
                .await
        })
    }

    fn waiting_items<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Vec<StoredItem>> {
        let label = session_label.to_owned();
        self.read_row(move |connection| reads::waiting_items(connection, &label))
    }

    fn queue_item<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<StoredItem>> {
        let id = id.to_owned();
        self.read_row(move |connection| item_rows::of_id(connection, &id))
    }

    fn waiting_sessions(&self) -> PortFuture<'_, Vec<String>> {
        self.read_small(reads::waiting_sessions)
    }

    fn offer(&self, ids: Vec<String>, turn_id: String) -> PortFuture<'static, Vec<String>> {
        self.change_queue(move |connection, _| changes::offer(connection, &ids, &turn_id))
    }

    fn withdraw(&self, turn_id: String) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, _| changes::withdraw(connection, &turn_id))
    }

    fn cancel(&self, id: String) -> PortFuture<'static, bool> {
        let reason = FailedReason::Cancelled;
        self.change_queue(move |connection, claim| {
            dispatch_end::fail(connection, &id, (reason, None), false, &claim.clock)
        })
    }

    fn clear(&self, session_label: String) -> PortFuture<'static, Vec<String>> {
        self.change_queue(move |connection, claim| {
            changes::clear(connection, &session_label, &claim.clock)
        })
    }

    fn refuse(&self, ids: Vec<String>, detail: String) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, claim| {
            changes::refuse(connection, &ids, &detail, &claim.clock)
        })
    }

    fn suspend(&self, session_label: String, is_suspended: bool) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, claim| {
            changes::suspend(connection, &session_label, is_suspended, claim.clock.now_ms())
        })
    }
}

impl Ledger {
    /// Submits a change at once: dropping its answer does not cancel it.
    pub(super) fn change_queue<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection, &Claim) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'static, T> {
        let submitted = self.core().map(|core| {
            let claim = core.claim.clone();
            core.writer.submit(move |connection| work(connection, &claim))
        });
        Box::pin(async move { submitted?.await })
    }
}
