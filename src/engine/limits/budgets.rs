//! Budgets: hard limits in tokens and money per run, session, agent and day, reserved before each call.
//!
//! It owns the limits, the accounts of a call, and the maximum cost of a call. It must never let a call be sent without a
//! reservation, and never count one twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use super::reserved::{BudgetAccount, Prepaid, StoredCall};
use base::clock::{self, Clock};
use model::{
    BudgetOptions, BudgetPer, BudgetState, CallCost, Failure, FailureKind, InputError, Journal,
    ModelInfo, Overdrawn, Reservation, ReservedAccount, SessionKey, SpentBy, StorageError,
    TokenUsage, TurnBudget, typed,
};
use turn::spend::{Amount, Ceiling, Refusal, SpendAccounts, dollars, nanos};

pub(super) const DAY_MS: i64 = 86_400_000;
/// In place of a limit's index: the budget of the turn itself.
const OF_TURN: usize = usize::MAX;

/// The store from which earlier spending is read.
#[derive(Clone, Copy)]
pub(crate) struct SpendingRecord<'a> {
    pub(crate) journal: Option<&'a Arc<dyn Journal>>,
    pub(crate) clock: &'a Clock,
}

/// The maximum usage of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorstCase {
    pub(crate) prompt_tokens: u64,
    pub(crate) answer_tokens: u64,
}

/// The engine's budgets.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    pub(super) limits: Vec<BudgetOptions>,
    spend: Mutex<SpendAccounts<BudgetAccount>>,
    /// Locked while earlier spending is read, so that an account is opened once.
    opening: tokio::sync::Mutex<()>,
    /// The turn at the top of the tree of each turn under way that has been charged, if a budget is per tree.
    roots: Mutex<HashMap<String, String>>,
    /// The reservations that were made ahead, by turn.
    pub(super) prepaid: Mutex<HashMap<String, Prepaid>>,
}

/// The run, session and agent that a call is charged to.
#[derive(Debug, Clone)]
pub(crate) struct Payer<'a> {
    /// The turn; `None` for a manual compaction.
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) session_label: &'a str,
    /// The turn at which a new session begins.
    pub(crate) follows: Option<&'a str>,
    /// The budget of the turn itself.
    pub(crate) budget: Option<&'a TurnBudget>,
}

/// The reservation of one call. If it is dropped unsettled, the call counts at its maximum.
pub(crate) struct Hold<'a> {
    pub(super) budgets: &'a Budgets,
    pub(super) accounts: Vec<BudgetAccount>,
    /// What is reserved: at least the call's maximum.
    pub(super) reserved: Amount,
    pub(super) worst: Amount,
    pub(super) settled: bool,
    /// Whether the call may be sent: one that was not is dropped at no cost.
    pub(super) admitted: bool,
    /// Its reservation over all processes.
    pub(super) stored: Option<StoredCall>,
}

impl Hold<'_> {
    /// Settles the call at its tokens, and US dollars where they are known.
    pub(crate) fn settle(mut self, tokens: u64, cost: Option<f64>) {
        self.end(Amount::of(tokens, cost));
    }

    fn end(&mut self, used: Amount) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        if !self.accounts.is_empty() {
            self.budgets.spend().settle(&self.accounts, self.reserved, used);
        }
        if let Some(StoredCall { journal, call_id }) = self.stored.take() {
            journal.settle(call_id, cost_of(used));
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.end(if self.admitted { self.worst } else { Amount::NOTHING });
    }
}

impl Budgets {
    /// Reads `budgets` of the engine's options.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
        let limits: Vec<BudgetOptions> = match raw {
            Some(raw) if raw.get() != "null" => typed("budgets", raw)?,
            Some(_) | None => Vec::new(),
        };
        for (at, limit) in limits.iter().enumerate() {
            let wrong = |field: &str, message: &str| {
                Err(InputError {
                    path: format!("budgets[{at}].{field}"),
                    message: message.to_owned(),
                })
            };
            if limit.max_tokens.is_none() && limit.max_cost.is_none() {
                return wrong("maxTokens", "is missing, and so is `maxCost`; pass one of them");
            }
            if limit.max_cost.is_some_and(|most| !most.is_finite() || most < 0.0) {
                return wrong("maxCost", "is no amount of US dollars; pass 0 or more");
            }
            if limit.only.is_some()
                && matches!(limit.per, BudgetPer::Run | BudgetPer::Tree | BudgetPer::Day)
            {
                return wrong("only", "is for budgets per session or per agent; leave it out");
            }
        }
        Ok(Self { limits, ..Self::default() })
    }

    pub(super) fn spend(&self) -> MutexGuard<'_, SpendAccounts<BudgetAccount>> {
        self.spend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The balance of every open account, by limit and key.
    pub(crate) fn states(&self) -> Vec<BudgetState> {
        let mut states: Vec<(BudgetAccount, BudgetState)> = self
            .spend()
            .balances()
            .filter_map(|(account, balance)| {
                let limit = self.limits.get(account.limit)?;
                let key = match limit.per {
                    BudgetPer::Day => clock::date(account.key.parse::<i64>().ok()? * DAY_MS),
                    BudgetPer::Run | BudgetPer::Tree | BudgetPer::Session | BudgetPer::Agent => {
                        account.key.clone()
                    }
                };
                let state = BudgetState {
                    per: limit.per,
                    key,
                    max_tokens: limit.max_tokens,
                    max_cost: limit.max_cost,
                    used_tokens: balance.settled.tokens,
                    used_cost: dollars(balance.settled.nanos.unwrap_or_default()),
                    held_tokens: balance.reserved.tokens,
                    held_cost: dollars(balance.reserved.nanos.unwrap_or_default()),
                };
                Some((account.clone(), state))
            })
            .collect();
        states.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        states.into_iter().map(|(_, state)| state).collect()
    }

    pub(super) fn roots(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the accounts of a run that was refused before its turn began.
    pub(crate) fn run_refused(&self, turn_id: &str) {
        if !self.limits.is_empty() {
            self.run_ended(None, turn_id, None);
        }
    }

    /// Closes the accounts of an ended run.
    pub(crate) fn run_ended(
        &self,
        journal: Option<&Arc<dyn Journal>>,
        turn_id: &str,
        budget: Option<&TurnBudget>,
    ) {
        if self.limits.is_empty() && budget.is_none() {
            return;
        }
        self.release_prepaid(turn_id);
        // That of a task ends with the task.
        if let (Some(budget), Some(journal)) = (budget, journal)
            && budget.account.starts_with("turn:")
        {
            journal.close_account(budget.account.clone());
        }
        if self.limits.is_empty() {
            return;
        }
        let root = self.roots().remove(turn_id).unwrap_or_else(|| turn_id.to_owned());
        self.run_parked(journal, turn_id, budget);
        if self.limits.iter().any(|limit| limit.per == BudgetPer::Tree) {
            // The ledger has the account until the tree has ended.
            self.close(BudgetPer::Tree, &root, journal.filter(|_| root == turn_id));
        }
    }

    /// Closes the account of a run that waits for a decision: it is opened again with what was spent.
    pub(crate) fn run_parked(
        &self,
        journal: Option<&Arc<dyn Journal>>,
        turn_id: &str,
        budget: Option<&TurnBudget>,
    ) {
        if self.limits.is_empty() && budget.is_none() {
            return;
        }
        self.release_prepaid(turn_id);
        self.roots().remove(turn_id);
        if self.limits.iter().any(|limit| limit.per == BudgetPer::Run) {
            self.close(BudgetPer::Run, turn_id, journal);
        }
    }

    fn close(&self, per: BudgetPer, key: &str, journal: Option<&Arc<dyn Journal>>) {
        let is_of = |at: usize| self.limits.get(at).is_some_and(|limit| limit.per == per);
        self.spend().close(|account| is_of(account.limit) && account.key == key);
        if let Some(journal) = journal {
            journal.close_account(format!("{}:{key}", per.as_str()));
        }
    }

    /// The agent of `payer`'s session, if a budget is per agent: by the ledger, else by the label.
    async fn agent(
        &self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
    ) -> Result<Option<String>, StorageError> {
        if !self.limits.iter().any(|limit| limit.per == BudgetPer::Agent) {
            return Ok(None);
        }
        let label = payer.session_label;
        Ok(Some(match record.journal {
            Some(journal) => journal.agent_of(label, payer.follows).await?,
            None => SessionKey::parse(label).agent_id.unwrap_or_else(|| "default".to_owned()),
        }))
    }

    /// The turn at the top of the tree of agents of `payer`, if a budget is per tree.
    async fn root(
        &self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
    ) -> Result<Option<String>, StorageError> {
        if !self.limits.iter().any(|limit| limit.per == BudgetPer::Tree) {
            return Ok(None);
        }
        let Some(turn_id) = payer.turn_id else { return Ok(None) };
        let known = self.roots().get(turn_id).cloned();
        Ok(Some(match (known, record.journal) {
            (Some(root), _) => root,
            (None, Some(journal)) => {
                let root = journal.root_of(turn_id.to_owned()).await?;
                self.roots().insert(turn_id.to_owned(), root.clone());
                root
            }
            (None, None) => turn_id.to_owned(),
        }))
    }

    /// The accounts of `payer`, each opened.
    async fn accounts(
        &self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
    ) -> Result<Vec<BudgetAccount>, StorageError> {
        let now = record.clock.now_ms();
        let day = now.div_euclid(DAY_MS);
        let agent = self.agent(record, payer).await?;
        let root = self.root(record, payer).await?;
        let accounts: Vec<BudgetAccount> = self
            .limits
            .iter()
            .enumerate()
            .filter_map(|(at, limit)| {
                let key = match limit.per {
                    BudgetPer::Run => payer.turn_id?.to_owned(),
                    BudgetPer::Tree => root.clone()?,
                    BudgetPer::Session => payer.session_label.to_owned(),
                    BudgetPer::Agent => agent.clone()?,
                    BudgetPer::Day => day.to_string(),
                };
                let applies = limit.only.as_ref().is_none_or(|only| *only == key);
                applies.then_some(BudgetAccount { limit: at, key })
            })
            .collect();
        let is_open = || {
            let spend = self.spend();
            accounts.iter().all(|account| spend.is_open(account))
        };
        if is_open() {
            return Ok(accounts);
        }
        let _opening = self.opening.lock().await;
        for account in &accounts {
            if self.spend().is_open(account) {
                continue;
            }
            let Some(limit) = self.limits.get(account.limit) else { continue };
            let by = match limit.per {
                BudgetPer::Run | BudgetPer::Tree => SpentBy::Turn(account.key.clone()),
                BudgetPer::Session => SpentBy::Session(account.key.clone()),
                BudgetPer::Agent => SpentBy::Agent(account.key.clone()),
                BudgetPer::Day => SpentBy::Between(day * DAY_MS, (day + 1) * DAY_MS),
            };
            let before = match record.journal {
                Some(journal) => journal.spent(by).await?,
                None => Default::default(),
            };
            let ceiling = Ceiling { tokens: limit.max_tokens, nanos: limit.max_cost.map(nanos) };
            let mut spend = self.spend();
            if limit.per == BudgetPer::Day {
                // Earlier days.
                spend.close(|other| other.limit == account.limit && other.key != account.key);
            }
            spend.open(account.clone(), ceiling, Amount::of(before.tokens, Some(before.cost)));
        }
        Ok(accounts)
    }

    /// Reserves the maximum usage of a call of `model`: what was reserved ahead for the turn, or by a job of its own.
    ///
    /// # Errors
    /// `budget_exceeded` where that would exceed a limit; nothing is reserved then. The ledger's error where earlier spending
    /// cannot be read.
    pub(crate) async fn hold<'a>(
        &'a self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
        model: &ModelInfo,
        worst: WorstCase,
    ) -> Result<Option<Hold<'a>>, Failure> {
        if !self.apply(payer) {
            return Ok(None);
        }
        if let Some(hold) = self.take_prepaid(record, payer, worst.amount(model)) {
            return Ok(Some(hold));
        }
        let (mut hold, at, reservation) = self.count(record, payer, model, worst).await?;
        if let Some(journal) = record.journal
            && !at.is_empty()
        {
            let call_id = reservation.call_id.clone();
            hold.stored = Some(StoredCall { journal: Arc::clone(journal), call_id });
            let reserved = journal.reserve(Box::new(reservation)).await.map_err(storage_failure)?;
            if let Some(Err(over)) = reserved {
                let Overdrawn { account, left, is_cost } = over;
                let why = if is_cost {
                    Refusal::Cost { wanted: cost_of(hold.worst).nanos, left }
                } else {
                    Refusal::Tokens { wanted: hold.worst.tokens, left }
                };
                let at = at.get(account).copied().unwrap_or_default();
                return Err(self.exceeded(at, why));
            }
        }
        hold.admitted = true;
        Ok(Some(hold))
    }

    /// Reserves a call in the accounts of this process. Returns its reservation over all processes as well, with the limit of each
    /// account.
    pub(super) async fn count<'a>(
        &'a self,
        record: SpendingRecord<'_>,
        payer: &Payer<'_>,
        model: &ModelInfo,
        worst: WorstCase,
    ) -> Result<(Hold<'a>, Vec<usize>, Reservation), Failure> {
        let accounts = if self.limits.is_empty() {
            Vec::new()
        } else {
            self.accounts(record, payer).await.map_err(storage_failure)?
        };
        let worst = worst.amount(model);
        let reserved = self.spend().reserve(&accounts, worst);
        if let Err((at, why)) = reserved.map_err(|(account, why)| (account.limit, why)) {
            return Err(self.exceeded(at, why));
        }
        let hold = Hold {
            budgets: self,
            accounts,
            reserved: worst,
            worst,
            settled: false,
            admitted: false,
            stored: None,
        };
        if payer.budget.is_some_and(|it| it.limits.nanos.is_some()) && worst.nanos.is_none() {
            return Err(self.exceeded(OF_TURN, Refusal::NoPrice));
        }
        let (at, reservation) = self.reservation(&hold, payer.budget, record.clock);
        Ok((hold, at, reservation))
    }

    /// The reservation of a call over all processes, and the limit of each of its accounts. Limits of the same session, agent, run
    /// or day share an account.
    fn reservation(
        &self,
        hold: &Hold<'_>,
        budget: Option<&TurnBudget>,
        clock: &Clock,
    ) -> (Vec<usize>, Reservation) {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let (mut at, mut accounts) = (Vec::new(), Vec::<ReservedAccount>::new());
        let spend = self.spend();
        for account in &hold.accounts {
            let Some(limit) = self.limits.get(account.limit) else { continue };
            let id = format!("{}:{}", limit.per.as_str(), account.key);
            let max_nanos = limit.max_cost.map(nanos);
            match accounts.iter_mut().find(|known| known.id == id) {
                Some(known) => {
                    known.max_tokens = least(known.max_tokens, limit.max_tokens);
                    known.max_nanos = least(known.max_nanos, max_nanos);
                }
                None => {
                    at.push(account.limit);
                    let spent = spend.before(account).map(cost_of).unwrap_or_default();
                    accounts.push(ReservedAccount {
                        id,
                        max_tokens: limit.max_tokens,
                        max_nanos,
                        spent,
                    });
                }
            }
        }
        if let Some(TurnBudget { account, limits }) = budget {
            at.push(OF_TURN);
            accounts.push(ReservedAccount {
                id: account.clone(),
                max_tokens: limits.tokens,
                max_nanos: limits.nanos,
                spent: CallCost::default(),
            });
        }
        let call_id = clock.new_id();
        (at, Reservation { call_id, most: cost_of(hold.worst), accounts })
    }

    fn exceeded(&self, at: usize, why: Refusal) -> Failure {
        let (per, options) = match self.limits.get(at) {
            Some(limit) => (limit.per.as_str(), format!("budgets[{at}]")),
            None => ("turn", "agents.*.budgets".to_owned()),
        };
        let (code, message) = match why {
            Refusal::Tokens { wanted, left } => (
                "budget_tokens",
                format!(
                    "the call may take `{wanted}` tokens, and the budget of the {per} has `{left}` left (`{options}.maxTokens`)"
                ),
            ),
            Refusal::Cost { wanted, left } => (
                "budget_cost",
                format!(
                    "the call may cost `{:.6}` US dollars, and the budget of the {per} has `{:.6}` left (`{options}.maxCost`)",
                    dollars(wanted),
                    dollars(left)
                ),
            ),
            Refusal::NoPrice => (
                "budget_no_price",
                format!(
                    "the model's price is unknown, and the {per} has a budget in money (`{options}.maxCost`); declare its `cost` in the engine's `models`"
                ),
            ),
        };
        Failure::new(FailureKind::BudgetExceeded, code, message)
    }
}

fn storage_failure(error: StorageError) -> Failure {
    Failure::new(FailureKind::Storage, error.kind.code(), error.message)
}

impl WorstCase {
    pub(super) fn amount(self, model: &ModelInfo) -> Amount {
        let Self { prompt_tokens, answer_tokens } = self;
        let tokens = prompt_tokens.saturating_add(answer_tokens);
        Amount::of(tokens, worst_cost(model, prompt_tokens, answer_tokens))
    }
}

/// The maximum cost of a call: all tokens of its prompt written to the cache for an hour, or none cached.
fn worst_cost(model: &ModelInfo, prompt: u64, most: u64) -> Option<f64> {
    let plain = TokenUsage { input_tokens: prompt, output_tokens: most, ..TokenUsage::default() };
    let written =
        TokenUsage { cache_write_tokens: prompt, output_tokens: most, ..TokenUsage::default() };
    let plain = model.cost_of(&plain, 0)?;
    // Not every model has a price for cache writes.
    let written = [model.cost_of(&written, 0), model.cost_of(&written, prompt)];
    Some(written.into_iter().flatten().fold(plain, f64::max))
}

fn cost_of(amount: Amount) -> CallCost {
    CallCost { tokens: amount.tokens, nanos: amount.nanos.unwrap_or_default() }
}
