//! Budgets as a host sets and reads them: what one is counted over, its limits, and its balance.

use serde::{Deserialize, Serialize};

/// What a budget is counted over: one run, a run with those of the agents that work for it (`tree`), all runs of a session, of an
/// agent, or of a day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the type's line describes each")]
pub enum BudgetPer {
    Run,
    Tree,
    Session,
    Agent,
    Day,
}

impl BudgetPer {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Tree => "tree",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Day => "day",
        }
    }
}

/// A hard limit on spending. A call that could exceed it is not made: its run ends with `budget_exceeded`. With a ledger it holds
/// over all processes that have the budget: each call is reserved there at its maximum, and settled at what it has used.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetOptions {
    /// What it is counted over.
    pub per: BudgetPer,
    /// The only session (its label) or agent (its id) it applies to. Default: each has its own.
    #[serde(default)]
    pub only: Option<String>,
    /// Tokens, prompt and answer, as the provider counts them.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// US dollars, by the catalogue's prices or the model's declared `cost`. A model without a price cannot be called.
    #[serde(default)]
    pub max_cost: Option<f64>,
}

/// The balance of a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct BudgetState {
    /// What it is counted over.
    pub per: BudgetPer,
    /// Its key: the turn's id (of a tree that at its top), the session's label, the agent's id, or the date (UTC, `2026-01-31`).
    pub key: String,
    /// Its limit in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Its limit in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// Tokens spent.
    pub used_tokens: u64,
    /// US dollars spent, where they are known.
    pub used_cost: f64,
    /// Tokens reserved for calls under way, at their largest possible size.
    pub held_tokens: u64,
    /// US dollars reserved for calls under way.
    pub held_cost: f64,
}

/// Which spending a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpentBy {
    /// A turn under way.
    Turn(String),
    /// A session, by its label.
    Session(String),
    /// An agent, by its id.
    Agent(String),
    /// All sessions, from one time in Unix milliseconds until before another.
    Between(i64, i64),
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expense {
    /// Tokens.
    pub tokens: u64,
    /// US dollars, where they are known.
    pub cost: f64,
}

/// What may be spent: a limit in tokens, one in money, both or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingLimits {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Billionths of a US dollar.
    pub nanos: Option<u64>,
}

impl SpendingLimits {
    /// From a limit in US dollars, to the nearest billionth.
    #[must_use]
    pub fn of(tokens: Option<u64>, cost: Option<f64>) -> Self {
        // A float above the range saturates; a negative one, or NaN, is 0.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates"
        )]
        let nanos = cost.map(|dollars| (dollars * 1e9).round() as u64);
        Self { tokens, nanos }
    }

    /// The limit in US dollars.
    #[must_use]
    pub fn cost(self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "for people to read")]
        self.nanos.map(|nanos| nanos as f64 / 1e9)
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.tokens.is_none() && self.nanos.is_none()
    }
}

/// The budget of one turn, in which the tasks that it gives are reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnBudget {
    /// Its account: `turn:…`, or `task:…` for the turn of a task.
    pub account: String,
    /// What it may spend.
    pub limits: SpendingLimits,
}

/// What a call costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCost {
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// Billionths of a US dollar; 0 where the price is unknown.
    pub nanos: u64,
}

/// The maximum of a call, for the accounts of all budgets that it counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// A new ULID.
    pub call_id: String,
    /// What the call may cost at most.
    pub most: CallCost,
    /// Each account once.
    pub accounts: Vec<ReservedAccount>,
}

/// An account of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedAccount {
    /// What is limited: `run:…`, `tree:…`, `session:…`, `agent:…` or `day:…`.
    pub id: String,
    /// Its limit in tokens.
    pub max_tokens: Option<u64>,
    /// Its limit in billionths of a US dollar.
    pub max_nanos: Option<u64>,
    /// What was spent before this process first used it.
    pub spent: CallCost,
}

/// The account that a call would overdraw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdrawn {
    /// Its index in the reservation.
    pub account: usize,
    /// What is left of it: tokens, or billionths of a US dollar.
    pub left: u64,
    /// Whether the limit is that in money.
    pub is_cost: bool,
}
