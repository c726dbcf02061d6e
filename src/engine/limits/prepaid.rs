//! Calls that are reserved ahead: in the transaction of W0, or of W3 of the results before them.
//!
//! A call that turns out larger is reserved again, by a job of its own. It must never leave a reservation behind when its run
//! ends or parks, and never hold two for one call.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::budgets::{Budgets, DAY_MS, Hold, Payer, SpendingRecord, WorstCase};
use super::reserved::{Prepaid, StoredCall};
use model::{BudgetPer, CallCost, Journal, ModelInfo, Reservation, Reserved};
use turn::spend::Amount;

/// A reservation that the next write of a turn makes. Dropped without that, nothing is reserved.
pub(crate) struct Prepayment<'a> {
    hold: Hold<'a>,
    journal: Arc<dyn Journal>,
    turn_id: String,
    day: i64,
    reservation: Reservation,
}

impl Prepayment<'_> {
    pub(crate) fn reservation(&self) -> Box<Reservation> {
        Box::new(self.reservation.clone())
    }

    /// The write is stored. Where it has reserved nothing, the call is reserved by itself, or refused.
    pub(crate) fn stored(mut self, reserved: Reserved) {
        if !matches!(reserved, Some(Ok(()))) {
            return;
        }
        self.hold.settled = true;
        let prepaid = Prepaid {
            accounts: std::mem::take(&mut self.hold.accounts),
            amount: self.hold.reserved,
            day: self.day,
            stored: StoredCall {
                journal: Arc::clone(&self.journal),
                call_id: std::mem::take(&mut self.reservation.call_id),
            },
        };
        let budgets = self.hold.budgets;
        let before = budgets.prepaid().insert(std::mem::take(&mut self.turn_id), prepaid);
        if let Some(before) = before {
            budgets.give_back(before);
        }
    }
}

impl Budgets {
    fn prepaid(&self) -> MutexGuard<'_, HashMap<String, Prepaid>> {
        self.prepaid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call that is charged to a turn with this budget is reserved anywhere.
    pub(crate) fn apply(&self, payer: &Payer<'_>) -> bool {
        !self.limits.is_empty() || payer.budget.is_some()
    }

    /// Prepares the reservation of the next call of a turn. `opens`: the turn is about to begin with these messages of a queue.
    /// `None` where it has no budget, or cannot be reserved ahead: the call itself says why, if it may not be made.
    pub(crate) async fn prepay<'a>(
        &'a self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
        model: &ModelInfo,
        worst: WorstCase,
        opens: Option<&[String]>,
    ) -> Option<Prepayment<'a>> {
        let (journal, turn_id) = (record.journal?, payer.turn_id?);
        if !self.apply(payer) {
            return None;
        }
        if let Some(items) = opens
            && self.limits.iter().any(|limit| limit.per == BudgetPer::Tree)
            && !self.roots().contains_key(turn_id)
        {
            let root = journal.future_root(turn_id.to_owned(), items.to_vec()).await.ok()??;
            self.roots().insert(turn_id.to_owned(), root);
        }
        let (hold, at, reservation) = self.count(record, payer, model, worst).await.ok()?;
        (!at.is_empty()).then(|| Prepayment {
            hold,
            journal: Arc::clone(journal),
            turn_id: turn_id.to_owned(),
            day: record.clock.now_ms().div_euclid(DAY_MS),
            reservation,
        })
    }

    /// The reservation of a call that was made ahead, if it covers it. One that does not is released.
    pub(super) fn take_prepaid(
        &self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
        most: Amount,
    ) -> Option<Hold<'_>> {
        let prepaid = self.prepaid().remove(payer.turn_id?)?;
        if prepaid.day != record.clock.now_ms().div_euclid(DAY_MS) || !prepaid.covers(most) {
            self.give_back(prepaid);
            return None;
        }
        let Prepaid { accounts, amount, day: _, stored } = prepaid;
        Some(Hold {
            budgets: self,
            accounts,
            reserved: amount,
            worst: most,
            settled: false,
            admitted: true,
            stored: Some(stored),
        })
    }

    /// Releases what is reserved for a call of a turn that is not made.
    pub(super) fn release_prepaid(&self, turn_id: &str) {
        let prepaid = self.prepaid().remove(turn_id);
        if let Some(prepaid) = prepaid {
            self.give_back(prepaid);
        }
    }

    fn give_back(&self, Prepaid { accounts, amount, day: _, stored }: Prepaid) {
        self.spend().settle(&accounts, amount, Amount::NOTHING);
        stored.journal.settle(stored.call_id, CallCost::default());
    }
}
