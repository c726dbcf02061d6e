//! Messages that come in, and what a host does with a queue. A receipt is given when its row is committed, and never before.

use std::future::Future;
use std::sync::Arc;

use super::agents::ended_task;
use super::dispatcher::Dispatcher;
use super::ends::EndWatch;
use model::{Enqueued, ItemStatus, NewItem, QueueMode, QueueStore, StorageError, StoredItem};

/// What became of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    Started,
    Queued,
    Steered,
    Duplicate,
    Rejected,
}

/// The proof that a message is stored.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) disposition: Disposition,
    pub(crate) item_id: String,
    pub(crate) session_label: String,
    /// Whether the session was made for it, as a fork.
    pub(crate) is_fork: bool,
}

impl Dispatcher {
    /// Queues a message, and takes its session's next step. It is submitted at once, by the caller's thread: one switch between
    /// threads less before it is stored.
    ///
    /// # Errors
    /// Those of [`QueueStore::enqueue`].
    pub(crate) fn send(
        self: &Arc<Self>,
        new: NewItem,
    ) -> impl Future<Output = Result<Receipt, StorageError>> + Send + use<> {
        let (id, mode) = (new.item.id.clone(), new.item.mode);
        let watch = EndWatch::of_arriving(self, &id);
        let enqueued = self.parts.store.enqueue(Box::new(new), self.parts.limits);
        let dispatcher = Arc::clone(self);
        async move { Ok(dispatcher.queued(id, mode, enqueued.await?, watch).await) }
    }

    /// A message is stored: takes its session's next step.
    pub(super) async fn queued(
        self: &Arc<Self>,
        id: String,
        mode: QueueMode,
        enqueued: Enqueued,
        watch: EndWatch,
    ) -> Receipt {
        let receipt = |disposition, item_id, session_label, is_fork| Receipt {
            disposition,
            item_id,
            session_label,
            is_fork,
        };
        match enqueued {
            Enqueued::Duplicate { item_id, session_label } => {
                receipt(Disposition::Duplicate, item_id, session_label, false)
            }
            Enqueued::Rejected { session_label } => {
                receipt(Disposition::Rejected, id, session_label, false)
            }
            Enqueued::Queued { session_label, is_fork, dropped } => {
                let is_settled = {
                    let mut state = self.lock();
                    state.arrive(&session_label, &id);
                    state.is_settled(&session_label, mode)
                };
                if !dropped.is_empty() {
                    self.report_failed(&dropped, &watch).await;
                }
                drop(watch);
                if !is_settled {
                    if self.begin_stepping(&session_label) {
                        self.steps(&session_label).await;
                    } else {
                        self.next_step(&session_label).await;
                    }
                }
                let disposition = self.disposition(&session_label, &id);
                receipt(disposition, id, session_label, is_fork)
            }
        }
    }

    fn disposition(&self, label: &str, id: &str) -> Disposition {
        let mut state = self.lock();
        match state.sessions.get_mut(label).and_then(|it| it.turn.as_ref()) {
            Some(turn) if turn.items.iter().any(|(item, _)| item == id) => Disposition::Started,
            Some(turn) if turn.offered.iter().any(|item| item == id) => Disposition::Steered,
            Some(_) | None => Disposition::Queued,
        }
    }

    /// Cancels a message that waits; false for any other.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn cancel(self: &Arc<Self>, id: String) -> Result<bool, StorageError> {
        let watch = EndWatch::begin(self);
        let is_cancelled = self.store().cancel(id.clone()).await?;
        if is_cancelled {
            self.report_failed(&[id], &watch).await;
        }
        Ok(is_cancelled)
    }

    /// Cancels all messages of a session that wait.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn clear(self: &Arc<Self>, label: String) -> Result<(), StorageError> {
        let watch = EndWatch::begin(self);
        let cancelled = self.store().clear(label).await?;
        self.report_failed(&cancelled, &watch).await;
        Ok(())
    }

    /// Suspends a session's queue, or ends that.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn suspend(
        self: &Arc<Self>,
        label: String,
        is_suspended: bool,
    ) -> Result<(), StorageError> {
        self.store().suspend(label.clone(), is_suspended).await?;
        if !is_suspended {
            let waiting = self.store().waiting_items(&label).await?;
            self.adopt(&label, waiting.into_iter().map(|it| it.item.id).collect()).await?;
            self.wake(&label);
        }
        Ok(())
    }

    /// The queues.
    pub(crate) fn store(&self) -> &Arc<dyn QueueStore> {
        &self.parts.store
    }

    /// Reports messages that a call has ended, or whose turn could not begin. `watch` began before that.
    pub(super) async fn report_failed(self: &Arc<Self>, ids: &[String], watch: &EndWatch) {
        let mut items: Vec<StoredItem> = Vec::new();
        for id in ids {
            match self.parts.store.queue_item(id).await {
                // A turn may have ended it meanwhile, and reports that.
                Ok(item) => items.extend(item.filter(|it| it.status == ItemStatus::Failed)),
                Err(error) => self.report(&error),
            }
        }
        let tasks: Vec<String> = items.iter().filter_map(ended_task).collect();
        {
            let mut state = self.lock();
            items.retain(|it| !state.was_reported(&it.item.id, watch));
            items.iter().for_each(|it| state.take_end(&it.session_label, &it.item.id));
        }
        if !items.is_empty() {
            self.parts.host.failed(items);
        }
        for id in tasks {
            if let Err(error) = self.dispatch_ended(&id).await {
                self.report(&error);
            }
        }
    }
}
