//! Budgets as a host sets and reads them: what one is counted over, its limits, and its balance.

use serde::{Deserialize, Serialize};

/// What a budget is counted over: one run, all runs of a session, of an agent, or of a day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the type's line describes each")]
pub enum BudgetPer {
    Run,
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
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Day => "day",
        }
    }
}

/// A hard limit on spending. A call that could exceed it is not made: its run ends with `budget_exceeded`. What was
/// spent before is read from the ledger when a session, an agent or a day first spends; later runs of other processes are
/// not counted.
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
    /// Its key: the turn's id, the session's label, the agent's id, or the date (UTC, `2026-01-31`).
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
