//! The outbox of this process: claims deliveries while a host listens, hands each to it, renews its claims, and stores its answers.
//!
//! It must never have two deliveries of one session, nor decide what becomes of a failure: `broker::outbox` does.

use std::sync::Arc;
use std::time::Duration;

use super::dispatcher::Dispatcher;
use model::{DeliveryFilter, DeliveryOutcome, DeliveryStatus, StorageError, StoredDelivery};

/// How many deliveries a host has at once.
const MOST: usize = 16;

impl Dispatcher {
    /// A host takes deliveries from now on, or no more.
    pub(crate) fn listen(self: &Arc<Self>, is_listening: bool) {
        self.outbox().is_listening = is_listening;
        self.wake_outbox();
    }

    /// The host answers nothing more: its claims expire.
    pub(crate) fn abandon_deliveries(&self) {
        let mut outbox = self.outbox();
        outbox.is_listening = false;
        outbox.claims.clear();
    }

    /// Hands out what waits, in a task of its own.
    pub(super) fn wake_outbox(self: &Arc<Self>) {
        {
            let mut outbox = self.outbox();
            if !outbox.is_listening {
                return;
            }
            outbox.has_changed = true;
            if std::mem::replace(&mut outbox.is_claiming, true) {
                return;
            }
        }
        let dispatcher = Arc::clone(self);
        self.parts.tasks.spawn(async move { dispatcher.hand_out().await });
    }

    async fn hand_out(self: &Arc<Self>) {
        loop {
            let most = {
                let mut outbox = self.outbox();
                let most = MOST.saturating_sub(outbox.claims.len());
                if !outbox.is_listening || !outbox.has_changed || most == 0 {
                    outbox.is_claiming = false;
                    return;
                }
                outbox.has_changed = false;
                most
            };
            let claimed = match self.parts.deliveries.claim(most).await {
                Ok(claimed) => claimed,
                // The next pulse looks again.
                Err(error) => {
                    self.report(&error);
                    continue;
                }
            };
            if let Some(at) = claimed.next_at {
                self.wake_outbox_at(at);
            }
            for delivery in claimed.deliveries {
                self.outbox().claims.insert(delivery.turn_id.clone(), delivery.epoch);
                self.parts.host.deliver(delivery);
            }
            self.renew_claims(Duration::from_millis(claimed.renew_ms));
        }
    }

    fn wake_outbox_at(self: &Arc<Self>, at: i64) {
        {
            let mut outbox = self.outbox();
            if outbox.timer.is_some_and(|timer| timer <= at) {
                return;
            }
            outbox.timer = Some(at);
        }
        let wait = Duration::from_millis(at.saturating_sub(self.now()).try_into().unwrap_or(0));
        let dispatcher = Arc::clone(self);
        self.parts.tasks.spawn(async move {
            if !dispatcher.waits(wait).await {
                return;
            }
            dispatcher.outbox().timer.take_if(|timer| *timer == at);
            dispatcher.wake_outbox();
        });
    }

    /// Renews the claims of this process until it has none.
    fn renew_claims(self: &Arc<Self>, every: Duration) {
        {
            let mut outbox = self.outbox();
            if outbox.claims.is_empty() || std::mem::replace(&mut outbox.is_renewing, true) {
                return;
            }
        }
        let dispatcher = Arc::clone(self);
        self.parts.tasks.spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let claims: Vec<(String, i64)> = {
                    let mut outbox = dispatcher.outbox();
                    if outbox.claims.is_empty() || !dispatcher.parts.host.is_alive() {
                        outbox.is_renewing = false;
                        return;
                    }
                    outbox.claims.iter().map(|(turn_id, epoch)| (turn_id.clone(), *epoch)).collect()
                };
                if let Err(error) = dispatcher.parts.deliveries.renew(claims).await {
                    dispatcher.report(&error);
                }
            }
        });
    }

    /// The host has answered the delivery of a turn. Its claim is renewed until that is stored, so that nobody has the delivery again.
    pub(crate) async fn answered(self: &Arc<Self>, turn_id: String, outcome: DeliveryOutcome) {
        let Some(epoch) = self.outbox().claims.get(&turn_id).copied() else { return };
        loop {
            let ended =
                self.parts.deliveries.end_claim(turn_id.clone(), epoch, outcome.clone()).await;
            match ended {
                Ok(Some(delivery)) if delivery.status == DeliveryStatus::Parked => {
                    self.parts.host.delivery_parked(delivery);
                    break;
                }
                Ok(Some(_) | None) => break,
                Err(error) => self.report(&error),
            }
            // What a closing broker cannot store is handed out again when its claim has expired.
            if !self.waits(self.parts.pulse).await || !self.outbox().claims.contains_key(&turn_id) {
                break;
            }
        }
        self.outbox().claims.remove(&turn_id);
        self.wake_outbox();
    }

    /// The host has passed the answer of a turn on itself; false where nothing waits for that.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn acknowledge(self: &Arc<Self>, turn: String) -> Result<bool, StorageError> {
        let is_delivered = self.parts.deliveries.acknowledge(turn).await?;
        self.wake_outbox();
        Ok(is_delivered)
    }

    /// Hands a parked delivery out again; false where it is not parked.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn redeliver(self: &Arc<Self>, turn: String) -> Result<bool, StorageError> {
        let is_pending = self.parts.deliveries.hand_out_again(turn).await?;
        self.wake_outbox();
        Ok(is_pending)
    }

    /// The deliveries of a filter.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn deliveries(
        &self,
        filter: DeliveryFilter,
    ) -> Result<Vec<StoredDelivery>, StorageError> {
        self.parts.deliveries.deliveries(filter).await
    }
}
