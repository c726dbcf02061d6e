//! Budget accounts: what may be spent, what was spent, and what calls under way reserve. Each call is checked before it is
//! made.
//!
//! Each call is reserved at its maximum cost and settled at its actual cost. It must never reserve past a ceiling; it knows
//! neither time nor prices, and sums in whole units, so that rounding errors do not accumulate.

use std::collections::HashMap;

/// Tokens, and billionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// `None` where the cost is unknown.
    pub nanos: Option<u64>,
}

impl Amount {
    /// No tokens, no cost.
    pub const NOTHING: Self = Self { tokens: 0, nanos: Some(0) };

    /// From US dollars, rounded up.
    pub fn of(tokens: u64, dollars: Option<f64>) -> Self {
        Self { tokens, nanos: dollars.map(nanos) }
    }
}

/// Billionths of a US dollar, rounded up: a reservation is never less than the possible cost.
pub fn nanos(dollars: f64) -> u64 {
    let nanos = (dollars * 1e9).ceil();
    // A float above the range saturates; a negative one, or NaN, is 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let whole = nanos as u64;
    whole
}

/// US dollars.
pub fn dollars(nanos: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let nanos = nanos as f64;
    nanos / 1e9
}

/// The limit of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// The maximum tokens; `None` for no limit.
    pub tokens: Option<u64>,
    /// The maximum billionths of a US dollar; `None` for no limit.
    pub nanos: Option<u64>,
}

/// The balance of one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    pub(crate) ceiling: Ceiling,
    /// The cost of ended calls.
    pub settled: Amount,
    /// The maximum cost of calls under way.
    pub reserved: Amount,
    /// What was spent when the account was opened.
    before: Amount,
}

/// Why a call may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It may need `wanted` tokens where `left` remain.
    Tokens {
        /// What the call may need.
        wanted: u64,
        /// What remains.
        left: u64,
    },
    /// It may cost `wanted` billionths of a dollar where `left` remain.
    Cost {
        /// What the call may cost.
        wanted: u64,
        /// What remains.
        left: u64,
    },
    /// Its price is unknown, and the account is in money.
    NoPrice,
}

/// The accounts by their keys.
#[derive(Debug)]
pub struct SpendAccounts<K> {
    accounts: HashMap<K, Balance>,
}

impl<K> Default for SpendAccounts<K> {
    fn default() -> Self {
        Self { accounts: HashMap::new() }
    }
}

impl<K: std::hash::Hash + Eq + Clone> SpendAccounts<K> {
    /// Opens an account that has spent `before`; an open account stays as it is.
    pub fn open(&mut self, key: K, ceiling: Ceiling, before: Amount) {
        let fresh = Balance { ceiling, settled: before, reserved: Amount::NOTHING, before };
        self.accounts.entry(key).or_insert(fresh);
    }

    /// Whether an account of this key exists.
    pub fn is_open(&self, key: &K) -> bool {
        self.accounts.contains_key(key)
    }

    /// What an account had spent when it was opened.
    pub fn before(&self, key: &K) -> Option<Amount> {
        Some(self.accounts.get(key)?.before)
    }

    /// Closes the accounts for which `ended` returns true and in which nothing is reserved.
    pub fn close(&mut self, ended: impl Fn(&K) -> bool) {
        self.accounts.retain(|key, balance| balance.reserved != Amount::NOTHING || !ended(key));
    }

    /// Every account with its balance.
    pub fn balances(&self) -> impl Iterator<Item = (&K, &Balance)> {
        self.accounts.iter()
    }

    /// Reserves `worst` in every account of `keys`, or in none.
    ///
    /// # Errors
    /// The first account that it exceeds, and why.
    pub fn reserve<'k>(&mut self, keys: &'k [K], worst: Amount) -> Result<(), (&'k K, Refusal)> {
        for key in keys {
            if let Some(refusal) = self.accounts.get(key).and_then(|balance| balance.refuses(worst))
            {
                return Err((key, refusal));
            }
        }
        for key in keys {
            if let Some(balance) = self.accounts.get_mut(key) {
                balance.reserved = plus(balance.reserved, worst);
            }
        }
        Ok(())
    }

    /// Releases a reservation and adds the actual cost. The provider's report counts, even above the reserved maximum: the
    /// next call sees it.
    pub fn settle(&mut self, keys: &[K], worst: Amount, used: Amount) {
        for key in keys {
            if let Some(balance) = self.accounts.get_mut(key) {
                balance.reserved.tokens = balance.reserved.tokens.saturating_sub(worst.tokens);
                balance.reserved.nanos = balance
                    .reserved
                    .nanos
                    .map(|held| held.saturating_sub(worst.nanos.unwrap_or_default()));
                balance.settled = plus(balance.settled, used);
            }
        }
    }
}

impl Balance {
    fn refuses(&self, worst: Amount) -> Option<Refusal> {
        if let Some(ceiling) = self.ceiling.tokens {
            let left =
                ceiling.saturating_sub(self.settled.tokens).saturating_sub(self.reserved.tokens);
            if worst.tokens > left {
                return Some(Refusal::Tokens { wanted: worst.tokens, left });
            }
        }
        let ceiling = self.ceiling.nanos?;
        let Some(wanted) = worst.nanos else { return Some(Refusal::NoPrice) };
        let held = self.reserved.nanos.unwrap_or_default();
        // A cost without a known price cannot be counted; an account in money admits no such call.
        let left =
            ceiling.saturating_sub(self.settled.nanos.unwrap_or_default()).saturating_sub(held);
        (wanted > left).then_some(Refusal::Cost { wanted, left })
    }
}

/// The sum. An unknown cost adds nothing.
fn plus(sum: Amount, more: Amount) -> Amount {
    Amount {
        tokens: sum.tokens.saturating_add(more.tokens),
        nanos: Some(sum.nanos.unwrap_or_default().saturating_add(more.nanos.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(tokens: u64, nanos: u64) -> Amount {
        Amount { tokens, nanos: Some(nanos) }
    }

    fn ceiling(tokens: Option<u64>, nanos: Option<u64>) -> Ceiling {
        Ceiling { tokens, nanos }
    }

    #[test]
    fn a_call_over_one_ceiling_is_reserved_nowhere() {
        let mut spend = SpendAccounts::default();
        spend.open("wide", ceiling(None, None), Amount::NOTHING);
        spend.open("run", ceiling(Some(100), None), amount(30, 0));
        spend.open("day", ceiling(None, Some(50)), Amount::NOTHING);
        let all = ["wide", "run", "day"];
        assert_eq!(
            spend.reserve(&all, amount(71, 1)),
            Err((&"run", Refusal::Tokens { wanted: 71, left: 70 }))
        );
        assert_eq!(
            spend.reserve(&all, amount(70, 51)),
            Err((&"day", Refusal::Cost { wanted: 51, left: 50 }))
        );
        let unpriced = Amount { tokens: 1, nanos: None };
        assert_eq!(spend.reserve(&all, unpriced), Err((&"day", Refusal::NoPrice)));
        assert!(spend.balances().all(|(_, balance)| balance.reserved == Amount::NOTHING));
        assert_eq!(spend.reserve(&all, amount(70, 50)), Ok(()));
        assert_eq!(
            spend.reserve(&["day"], amount(0, 1)),
            Err((&"day", Refusal::Cost { wanted: 1, left: 0 }))
        );
        spend.settle(&all, amount(70, 50), amount(10, 20));
        assert_eq!(spend.reserve(&all, amount(60, 30)), Ok(()));
    }

    #[test]
    fn an_open_account_has_its_balance_and_one_in_use_is_not_closed() {
        let mut spend = SpendAccounts::default();
        spend.open(1, ceiling(Some(10), None), Amount::NOTHING);
        spend.reserve(&[1], amount(5, 0)).unwrap();
        spend.open(1, ceiling(Some(99), None), amount(9, 9));
        assert_eq!(
            spend.reserve(&[1], amount(6, 0)),
            Err((&1, Refusal::Tokens { wanted: 6, left: 5 }))
        );
        spend.close(|_| true);
        assert!(spend.is_open(&1));
        spend.settle(&[1], amount(5, 0), amount(5, 0));
        spend.close(|_| true);
        assert!(!spend.is_open(&1));
    }

    #[test]
    fn dollars_round_up_to_billionths_for_any_number() {
        assert_eq!(nanos(0.000_000_000_1), 1);
        assert_eq!(nanos(1.5), 1_500_000_000);
        assert_eq!((nanos(-1.0), nanos(f64::NAN), nanos(f64::INFINITY)), (0, 0, u64::MAX));
        assert!((dollars(1_500_000_000) - 1.5).abs() < f64::EPSILON);
    }

    #[derive(Debug, Clone)]
    enum Act {
        Reserve(u64, u64),
        /// The call at this index of those under way ends at this percentage of its reservation.
        Settle(usize, u64),
    }

    proptest! {
        /// For any calls in any order: if none exceeds its reservation, no account exceeds its ceiling, and the reserved sum is
        /// that of the calls under way.
        #[test]
        fn settled_and_reserved_never_exceed_the_ceiling(
            tokens in prop::option::of(0u64..500),
            money in prop::option::of(0u64..500),
            acts in prop::collection::vec(
                prop_oneof![
                    (0u64..100, 0u64..100).prop_map(|(a, b)| Act::Reserve(a, b)),
                    (any::<usize>(), 0u64..=100).prop_map(|(at, part)| Act::Settle(at, part)),
                ],
                0..60,
            ),
        ) {
            let mut spend = SpendAccounts::default();
            spend.open((), ceiling(tokens, money), Amount::NOTHING);
            let mut under_way: Vec<Amount> = Vec::new();
            for act in acts {
                match act {
                    Act::Reserve(tokens, nanos) => {
                        if spend.reserve(&[()], amount(tokens, nanos)).is_ok() {
                            under_way.push(amount(tokens, nanos));
                        }
                    }
                    Act::Settle(at, part) if !under_way.is_empty() => {
                        let worst = under_way.swap_remove(at % under_way.len());
                        let used = amount(
                            worst.tokens * part / 100,
                            worst.nanos.unwrap_or_default() * part / 100,
                        );
                        spend.settle(&[()], worst, used);
                    }
                    Act::Settle(..) => {}
                }
                let (_, balance) = spend.balances().next().unwrap();
                let held: u64 = under_way.iter().map(|it| it.tokens).sum();
                prop_assert_eq!(balance.reserved.tokens, held);
                if let Some(most) = tokens {
                    prop_assert!(balance.settled.tokens + balance.reserved.tokens <= most);
                }
                if let Some(most) = money {
                    let spent = balance.settled.nanos.unwrap() + balance.reserved.nanos.unwrap();
                    prop_assert!(spent <= most);
                }
            }
        }
    }
}
