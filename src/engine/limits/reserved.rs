//! What is reserved: accounts, and the reservation of a call that is not made yet. Plain data; it must never reserve.

use std::sync::Arc;

use model::Journal;
use turn::spend::Amount;

/// The key of an account: one limit, and one run, session, agent or day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BudgetAccount {
    /// The limit's index in the options.
    pub(super) limit: usize,
    /// The run's turn, the session's label, the agent's id, or the day's number.
    pub(super) key: String,
}

/// A reservation in the ledger.
pub(super) struct StoredCall {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) call_id: String,
}

impl std::fmt::Debug for StoredCall {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.call_id)
    }
}

/// A reservation of the next call of a turn.
#[derive(Debug)]
pub(super) struct Prepaid {
    pub(super) accounts: Vec<BudgetAccount>,
    pub(super) amount: Amount,
    /// The number of the day on which it was made.
    pub(super) day: i64,
    pub(super) stored: StoredCall,
}

impl Prepaid {
    /// Whether it covers a call. A call without a known price needs a reservation without one.
    pub(super) fn covers(&self, most: Amount) -> bool {
        let money = match (self.amount.nanos, most.nanos) {
            (Some(reserved), Some(most)) => reserved >= most,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        money && self.amount.tokens >= most.tokens
    }
}
