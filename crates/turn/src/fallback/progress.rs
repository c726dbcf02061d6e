//! Records what happens to a plan: attempts fail, waits end, models change, calls are answered.
//!
//! It must never return to a model that was left, or continue once a token was emitted.

use std::collections::BTreeSet;
use std::time::Duration;

use super::plan::{Choice, Plan, duration};
use crate::profiles::{self, ProfileUsages};
use crate::retry;
use model::{Failure, FailureKind};

impl Plan {
    /// The maximum number of failed calls of a run.
    fn ceiling(&self) -> u32 {
        let profiles: BTreeSet<&str> = self
            .candidates
            .iter()
            .flat_map(|candidate| &candidate.profiles)
            .map(|it| it.id.as_str())
            .collect();
        let profiles = u32::try_from(profiles.len()).unwrap_or(u32::MAX);
        profiles.saturating_mul(8).saturating_add(24).clamp(32, 160)
    }

    /// Records a switch to another model. An overflow requires a larger window once: after it the history is compacted first.
    pub fn switched(&mut self, to: usize) {
        self.at = to;
        self.left = false;
        self.larger_than = 0;
        self.keyless = None;
        if self.current.as_ref().is_some_and(|current| self.tried.contains_key(current)) {
            self.current = None;
        }
        self.fresh();
    }

    fn fresh(&mut self) {
        self.failures.clear();
        self.waits = 0;
        self.own_waits = 0;
        self.tried.clear();
        self.barred.clear();
    }

    /// Records the end of a wait. The profile is chosen again. A wait that other calls caused is not counted as the call's
    /// own: many calls at once would use up each other's waits.
    pub fn waited(&mut self) {
        self.current = None;
        self.waits = self.waits.saturating_add(1);
        if !self.tried.is_empty() {
            self.own_waits = self.own_waits.saturating_add(1);
        }
        self.tried.clear();
    }

    /// Records the profile of the next request.
    pub fn using(&mut self, profile: Option<&str>) {
        if self.current.as_deref() != profile {
            self.current = profile.map(ToOwned::to_owned);
        }
    }

    /// Records an answer: the next call starts with the same model and profile.
    pub fn answered(&mut self) {
        self.last = None;
        self.fresh();
    }

    /// Records a compaction: the profile is chosen again.
    pub fn compacted(&mut self) {
        self.current = None;
    }

    /// Whether one more refusal ends the call: then neither the profile in use nor another model is usable.
    pub fn is_last_request(&self) -> bool {
        let current = self.current.as_deref().unwrap_or_default();
        let spent = |failed: &u32| failed.saturating_add(1) > self.retries;
        let alone = self.own_waits > 0 && self.ahead().next().is_none();
        alone && self.failures.get(current).is_some_and(spent)
    }

    /// Sets the number of failed calls of the run, those of other plans included.
    pub fn has_failed(&mut self, calls: u32) {
        self.failed_calls = self.failed_calls.max(calls);
    }

    /// Counts a failed attempt, and returns the delay before a retry with the same profile; `None` for no retry.
    #[must_use]
    pub fn retry(
        &mut self,
        failure: &Failure,
        emitted: bool,
        usages: &ProfileUsages,
        now: i64,
        remaining: Duration,
        dice: f64,
    ) -> Option<Duration> {
        let current = self.current.clone().unwrap_or_default();
        let failed = self.failures.entry(current).or_default();
        *failed = failed.saturating_add(1);
        let failures = *failed;
        self.failed_calls = self.failed_calls.saturating_add(1);
        self.last = Some(failure.clone());
        if self.failed_calls >= self.ceiling() {
            return None;
        }
        let facts = retry::Facts { failures, retries: self.retries, emitted, remaining, dice };
        let delay = retry::delay(failure, facts)?;
        // A pause that the provider requests is not waited for where another model is usable meanwhile.
        let long = failure.retry_after.is_some() && delay > duration(self.max_wait);
        (!long || !self.has_usable(usages, now)).then_some(delay)
    }

    /// Records that the profile in use failed for this call; the usages already contain its failure. Ok where the plan continues,
    /// otherwise the error of the run.
    pub fn spent(
        &mut self,
        failure: &Failure,
        emitted: bool,
        usages: &ProfileUsages,
        now: i64,
        remaining: Duration,
    ) -> Result<(), Failure> {
        self.last = Some(failure.clone());
        let final_word = failure.should_retry == Some(false);
        if emitted || self.failed_calls >= self.ceiling() {
            return Err(failure.clone());
        }
        let current = self.current.clone().unwrap_or_default();
        match failure.kind {
            FailureKind::Format
            | FailureKind::BudgetExceeded
            | FailureKind::PolicyMaxTokens
            | FailureKind::OutputInvalid
            | FailureKind::Aborted
            | FailureKind::Storage => {
                return Err(failure.clone());
            }
            FailureKind::ModelNotFound | FailureKind::Unknown | FailureKind::Refusal => {
                self.left = true;
            }
            FailureKind::ContextOverflow => {
                self.left = true;
                self.larger_than = self.candidate().map_or(u64::MAX, |candidate| candidate.window);
            }
            FailureKind::Timeout
            | FailureKind::Overloaded
            | FailureKind::ServerError
            | FailureKind::Network
                if final_word =>
            {
                self.left = true;
            }
            FailureKind::RateLimit
            | FailureKind::Auth
            | FailureKind::AuthPermanent
            | FailureKind::Billing
            | FailureKind::Timeout
            | FailureKind::Overloaded
            | FailureKind::ServerError
            | FailureKind::Network => {
                if self.candidate().is_some_and(|candidate| candidate.profiles.is_empty())
                    && failure.kind == FailureKind::RateLimit
                {
                    let wait = failure.retry_after.map_or_else(profiles::first_rung, |wait| {
                        i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
                    });
                    self.keyless = Some((now, now.saturating_add(wait)));
                }
                // The retries are used up: such a failure is not waited for. Only a limit has a known end.
                if final_word || failure.kind != FailureKind::RateLimit {
                    self.barred.insert(current.clone());
                }
                self.tried.insert(current, failure.kind);
            }
        }
        match self.choose(usages, now, remaining, &|_| false) {
            Choice::Use(_) | Choice::Wait(_) | Choice::Switch { .. } => Ok(()),
            Choice::Fail(failure) => Err(failure),
        }
    }
}
