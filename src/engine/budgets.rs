//! Budgets: hard limits in tokens and money per run, session, agent and day, held back before each call.
//!
//! It owns the limits, whose purses a call pays from, and the worst a call may come to. It must never let a call be sent
//! that was not held back, and never count one twice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use super::Core;
use base::clock;
use model::{
    BudgetOptions, BudgetPer, BudgetState, Failure, FailureKind, InputError, ModelInfo, SessionKey,
    SpentBy, StorageError, TokenUsage, typed,
};
use turn::spend::{Amount, Ceiling, Refusal, SpendBook, dollars, nanos};

const DAY_MS: i64 = 86_400_000;

/// Which limit, and whose: a run's turn, a session's label, an agent's id, a day's number.
type Purse = (usize, String);

/// The engine's budgets.
#[derive(Debug, Default)]
pub struct Budgets {
    limits: Vec<BudgetOptions>,
    book: Mutex<SpendBook<Purse>>,
    /// Held while what was spent before is read, so that a purse is opened once.
    opening: tokio::sync::Mutex<()>,
}

/// Who pays for a call.
#[derive(Debug, Clone)]
pub(crate) struct Payer<'a> {
    /// The turn; `None` for a compaction that was asked for.
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) session_label: &'a str,
    /// The turn that a new session goes on from.
    pub(crate) follows: Option<&'a str>,
}

/// What is held back for one call. Dropped unsettled, the call counts as the worst it may have come to.
pub(crate) struct Hold<'a> {
    budgets: &'a Budgets,
    purses: Vec<Purse>,
    worst: Amount,
    settled: bool,
}

impl Hold<'_> {
    /// What the call came to: tokens, and US dollars where they are known.
    pub(crate) fn settle(mut self, tokens: u64, cost: Option<f64>) {
        self.end(Amount::of(tokens, cost));
    }

    fn end(&mut self, used: Amount) {
        if !std::mem::replace(&mut self.settled, true) && !self.purses.is_empty() {
            self.budgets.book().settle(&self.purses, self.worst, used);
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.end(self.worst);
    }
}

impl Budgets {
    /// Reads `budgets` of the engine's options.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
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
            if limit.only.is_some() && matches!(limit.per, BudgetPer::Run | BudgetPer::Day) {
                return wrong("only", "is for budgets per session or per agent; leave it out");
            }
        }
        Ok(Self { limits, ..Self::default() })
    }

    fn book(&self) -> MutexGuard<'_, SpendBook<Purse>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every open purse stands at, by limit and name.
    pub(super) fn states(&self) -> Vec<BudgetState> {
        let mut states: Vec<(Purse, BudgetState)> = self
            .book()
            .balances()
            .filter_map(|(purse, balance)| {
                let limit = self.limits.get(purse.0)?;
                let key = match limit.per {
                    BudgetPer::Day => clock::date(purse.1.parse::<i64>().ok()? * DAY_MS),
                    BudgetPer::Run | BudgetPer::Session | BudgetPer::Agent => purse.1.clone(),
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
                Some((purse.clone(), state))
            })
            .collect();
        states.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        states.into_iter().map(|(_, state)| state).collect()
    }

    /// A run has ended: its own purses are closed.
    pub(super) fn run_ended(&self, turn_id: &str) {
        if self.limits.iter().any(|limit| limit.per == BudgetPer::Run) {
            let is_run =
                |at: usize| self.limits.get(at).is_some_and(|limit| limit.per == BudgetPer::Run);
            self.book().close(|(at, key)| is_run(*at) && key == turn_id);
        }
    }

    /// The agent that `payer`'s session is of, where a budget asks for it: the ledger's word, else that of the label.
    async fn agent(&self, core: &Core, payer: &Payer<'_>) -> Result<Option<String>, StorageError> {
        if !self.limits.iter().any(|limit| limit.per == BudgetPer::Agent) {
            return Ok(None);
        }
        let label = payer.session_label;
        Ok(Some(match &core.journal {
            Some(journal) => journal.agent_of(label, payer.follows).await?,
            None => SessionKey::parse(label).agent_id.unwrap_or_else(|| "default".to_owned()),
        }))
    }

    /// The purses that `payer` pays from now, each open.
    async fn purses(&self, core: &Core, payer: &Payer<'_>) -> Result<Vec<Purse>, StorageError> {
        let now = core.clock.now_ms();
        let day = now.div_euclid(DAY_MS);
        let agent = self.agent(core, payer).await?;
        let purses: Vec<Purse> = self
            .limits
            .iter()
            .enumerate()
            .filter_map(|(at, limit)| {
                let key = match limit.per {
                    BudgetPer::Run => payer.turn_id?.to_owned(),
                    BudgetPer::Session => payer.session_label.to_owned(),
                    BudgetPer::Agent => agent.clone()?,
                    BudgetPer::Day => day.to_string(),
                };
                limit.only.as_ref().is_none_or(|only| *only == key).then_some((at, key))
            })
            .collect();
        let is_open = || {
            let book = self.book();
            purses.iter().all(|purse| book.is_open(purse))
        };
        if is_open() {
            return Ok(purses);
        }
        let _opening = self.opening.lock().await;
        for purse in &purses {
            if self.book().is_open(purse) {
                continue;
            }
            let Some(limit) = self.limits.get(purse.0) else { continue };
            let by = match limit.per {
                BudgetPer::Run => SpentBy::Turn(purse.1.clone()),
                BudgetPer::Session => SpentBy::Session(purse.1.clone()),
                BudgetPer::Agent => SpentBy::Agent(purse.1.clone()),
                BudgetPer::Day => SpentBy::Between(day * DAY_MS, (day + 1) * DAY_MS),
            };
            let before = match &core.journal {
                Some(journal) => journal.spent(by).await?,
                None => Default::default(),
            };
            let ceiling = Ceiling { tokens: limit.max_tokens, nanos: limit.max_cost.map(nanos) };
            let mut book = self.book();
            if limit.per == BudgetPer::Day {
                // Days that are over.
                book.close(|(at, key)| *at == purse.0 && *key != purse.1);
            }
            book.open(purse.clone(), ceiling, Amount::of(before.tokens, Some(before.cost)));
        }
        Ok(purses)
    }

    /// Holds back what a call of `model` may come to: a prompt of `prompt` tokens, and an answer of `most` tokens.
    ///
    /// # Errors
    /// `budget_exceeded` where that would pass a limit; nothing is held then. What the ledger says where it cannot tell
    /// what was spent before.
    pub(crate) async fn hold<'a>(
        &'a self,
        core: &Core,
        payer: Payer<'_>,
        model: &ModelInfo,
        (prompt, most): (u64, u64),
    ) -> Result<Hold<'a>, Failure> {
        if self.limits.is_empty() {
            let worst = Amount::NOTHING;
            return Ok(Hold { budgets: self, purses: Vec::new(), worst, settled: false });
        }
        let purses = self.purses(core, &payer).await.map_err(|error| {
            Failure::new(FailureKind::Storage, error.kind.code(), error.message)
        })?;
        let worst = Amount::of(prompt.saturating_add(most), worst_cost(model, prompt, most));
        let refused = self.book().reserve(&purses, worst).map_err(|((at, _), why)| (*at, why));
        match refused {
            Ok(()) => Ok(Hold { budgets: self, purses, worst, settled: false }),
            Err((at, why)) => Err(self.exceeded(at, why)),
        }
    }

    fn exceeded(&self, at: usize, why: Refusal) -> Failure {
        let per = self.limits.get(at).map_or("run", |limit| limit.per.as_str());
        let (code, message) = match why {
            Refusal::Tokens { wanted, left } => (
                "budget_tokens",
                format!(
                    "the call may take `{wanted}` tokens, and the budget of the {per} has `{left}` left (`budgets[{at}].maxTokens`)"
                ),
            ),
            Refusal::Cost { wanted, left } => (
                "budget_cost",
                format!(
                    "the call may cost `{:.6}` US dollars, and the budget of the {per} has `{:.6}` left (`budgets[{at}].maxCost`)",
                    dollars(wanted),
                    dollars(left)
                ),
            ),
            Refusal::NoPrice => (
                "budget_no_price",
                format!(
                    "the model's price is unknown, and the {per} has a budget in money (`budgets[{at}].maxCost`); declare its `cost` in the engine's `models`"
                ),
            ),
        };
        Failure::new(FailureKind::BudgetExceeded, code, message)
    }
}

/// The most that a call may cost: every token of its prompt written to the cache for an hour, or none of it cached.
fn worst_cost(model: &ModelInfo, prompt: u64, most: u64) -> Option<f64> {
    let plain = TokenUsage { input_tokens: prompt, output_tokens: most, ..TokenUsage::default() };
    let written =
        TokenUsage { cache_write_tokens: prompt, output_tokens: most, ..TokenUsage::default() };
    let plain = model.cost_of(&plain, 0)?;
    // Not every model has a price for what is written.
    let written = [model.cost_of(&written, 0), model.cost_of(&written, prompt)];
    Some(written.into_iter().flatten().fold(plain, f64::max))
}
