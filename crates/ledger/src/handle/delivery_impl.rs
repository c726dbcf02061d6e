//! The port `DeliveryStore` over the writer and the readers. It must never decide what becomes of a delivery.

use crate::handle::ledger::Ledger;
use crate::queue::deliveries;
use model::{
    ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStore, PortFuture, StoredDelivery,
};

impl DeliveryStore for Ledger {
    fn claim(&self, most: usize) -> PortFuture<'static, ClaimedDeliveries> {
        let core = self.core();
        Box::pin(async move {
            let core = core?;
            // The writer is left alone while there is nothing to claim.
            let claim = core.claim.clone();
            let found = core
                .readers
                .run_small(move |connection| deliveries::claimable(connection, &claim, most))
                .await?;
            let claim = core.claim.clone();
            if found.turn_ids.is_empty() {
                let (next_at, renew_ms) = (found.next_at, deliveries::renew_ms(&claim));
                return Ok(ClaimedDeliveries { deliveries: Vec::new(), next_at, renew_ms });
            }
            core.writer.submit(move |connection| deliveries::take(connection, &claim, most)).await
        })
    }

    fn renew(&self, claims: Vec<(String, i64)>) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, claim| deliveries::renew(connection, claim, &claims))
    }

    fn end_claim(
        &self,
        turn_id: String,
        epoch: i64,
        outcome: DeliveryOutcome,
    ) -> PortFuture<'static, Option<StoredDelivery>> {
        self.change_queue(move |connection, claim| {
            deliveries::end(connection, claim, (&turn_id, epoch), &outcome)
        })
    }

    fn acknowledge(&self, turn_id: String) -> PortFuture<'static, bool> {
        self.change_queue(move |connection, claim| {
            deliveries::acknowledge(connection, claim, &turn_id)
        })
    }

    fn hand_out_again(&self, turn_id: String) -> PortFuture<'static, bool> {
        self.change_queue(move |connection, claim| {
            deliveries::hand_out_again(connection, claim, &turn_id)
        })
    }

    fn deliveries(&self, filter: DeliveryFilter) -> PortFuture<'_, Vec<StoredDelivery>> {
        let claim = self.core().map(|core| core.claim.clone());
        Box::pin(async move {
            let claim = claim?;
            self.read_small(move |connection| deliveries::list(connection, &claim, &filter)).await
        })
    }
}
