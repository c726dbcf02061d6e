//! The usage of a run's calls: tokens, money, attempts, and the warnings for its result.

use std::time::Duration;

use model::{Attempt, CompactionResult, ModelInfo, Progress, RunWarning, TokenBudget, TokenUsage};
use turn::machine::Machine;

/// The usage of a run, beside the counters of its machine.
pub(crate) struct RunUsage {
    pub(crate) attempts: Vec<Attempt>,
    /// US dollars over all calls; `None` once a price was unknown. Prices depend on the call, so it is the sum of the calls'
    /// costs. The cost of a compaction with a turn of its own is in that turn.
    pub(crate) cost: Option<f64>,
    /// Tokens of calls that the machine has not counted: of failed summaries, of refused prompts.
    pub(crate) unseen: TokenUsage,
    /// Whether some of `unseen` is estimated.
    pub(crate) unseen_estimated: bool,
    /// Warnings for options that the requests could not express; `None` before the first request.
    pub(crate) warnings: Option<Vec<RunWarning>>,
    /// The warnings of the window guard, of compactions and of tools.
    pub(crate) notes: Vec<RunWarning>,
    /// The last compaction.
    pub(crate) compaction: Option<CompactionResult>,
    /// Compactions so far.
    pub(crate) compacted: u32,
    /// How long the next call has waited.
    pub(crate) held: Duration,
    /// The budget of the last call.
    pub(crate) budget: Option<TokenBudget>,
}

impl RunUsage {
    pub(crate) fn of(model: &ModelInfo) -> Self {
        Self {
            attempts: Vec::new(),
            cost: model.cost.as_ref().map(|_| 0.0),
            unseen: TokenUsage::default(),
            unseen_estimated: false,
            warnings: None,
            notes: Vec::new(),
            compaction: None,
            compacted: 0,
            held: Duration::ZERO,
            budget: None,
        }
    }

    /// Continues with the usage of an interrupted turn.
    pub(crate) fn restore(&mut self, progress: &Progress) {
        self.cost = self.cost.zip(progress.cost).map(|(sum, before)| sum + before);
        self.attempts.clone_from(&progress.attempts);
    }

    /// The counters of the run so far.
    pub(crate) fn progress(&self, machine: &Machine) -> Progress {
        let counted = machine.progress();
        Progress {
            usage: counted.usage.plus(self.unseen),
            usage_estimated: counted.usage_estimated || self.unseen_estimated,
            cost: self.cost,
            attempts: self.attempts.clone(),
            ..counted
        }
    }

    /// The number of the next attempt, from 1.
    pub(crate) fn next_attempt(&self) -> u32 {
        let calls = self.attempts.iter().filter(|attempt| attempt.plan.is_none());
        u32::try_from(calls.count()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The attempts that failed.
    pub(crate) fn failed(&self) -> u32 {
        u32::try_from(self.attempts.iter().filter(|it| !it.ok).count()).unwrap_or(u32::MAX)
    }

    /// Records an ended call.
    pub(crate) fn record(&mut self, attempt: Attempt, cost: Option<f64>) {
        self.attempts.push(attempt);
        self.held = Duration::ZERO;
        self.add(cost);
    }

    pub(crate) fn add(&mut self, cost: Option<f64>) {
        self.cost = self.cost.zip(cost).map(|(sum, call)| sum + call);
    }

    /// Counts usage that the machine does not count.
    pub(crate) fn count_unseen(&mut self, usage: TokenUsage, estimated: bool) {
        self.unseen = self.unseen.plus(usage);
        self.unseen_estimated |= estimated;
    }

    /// Records a switch of model: until something was used, its price decides whether the cost is known.
    pub(crate) fn moved_to(&mut self, model: &ModelInfo, machine: &Machine) {
        if machine.usage().0.plus(self.unseen).total_tokens == 0 {
            self.cost = model.cost.as_ref().map(|_| 0.0);
        }
    }
}
