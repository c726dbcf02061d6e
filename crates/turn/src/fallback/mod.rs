//! The plan of one run's calls: which model, which of its profiles, when to wait, when to give up.
//!
//! Pure: it is given the time and reads the book. It must never go back to a model it has left, ask a profile more than
//! three times for one answer, or go on once a token was emitted.

mod choice;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::profiles::{self, ProfileBook, ProfileCandidate};
use super::retry;
use choice::duration;
use model::{Failure, FailureKind};

/// The longest wait where another model can be asked, unless the host says otherwise, in milliseconds.
pub const MAX_WAIT_MS: i64 = 2_000;

/// A model of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Its window in tokens.
    pub window: u64,
    /// The profiles it may be asked with; empty for a server without keys.
    pub profiles: Vec<ProfileCandidate>,
    /// Whether their order is the host's.
    pub explicit: bool,
    /// Why it cannot be asked at all: it needs a key and has none.
    pub missing: Option<Failure>,
}

/// What to do for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Ask with this profile; `None` for a server without keys.
    Use(Option<String>),
    /// Wait, call [`Plan::waited`], and choose again.
    Wait(Pause),
    /// Go to this model of the chain: tell [`Plan::switched`], and choose again.
    Switch {
        /// Its place in the chain.
        to: usize,
        /// Why the one before was left.
        reason: FailureKind,
    },
    /// There is nothing left to try.
    Fail(Failure),
}

/// A wait for a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// How long.
    pub length: Duration,
    /// Why the profile may not be asked before.
    pub reason: FailureKind,
    /// The profile that is free first; `None` for a server without keys.
    pub profile: Option<String>,
}

/// Where a run stands in its chain.
#[derive(Debug, Clone)]
pub struct Plan {
    candidates: Vec<Candidate>,
    at: usize,
    /// The longest wait where another model can be asked, in milliseconds.
    max_wait: i64,
    /// The profile in use.
    current: Option<String>,
    /// Failed requests of this call by profile.
    failures: BTreeMap<String, u32>,
    waits: u32,
    /// Those after a refusal of its own.
    own_waits: u32,
    /// Profiles that are through with this call, until a wait, and why.
    tried: BTreeMap<String, FailureKind>,
    /// Those of them that no wait makes better.
    barred: BTreeSet<String>,
    /// The model will not answer this call, whatever the profile.
    left: bool,
    /// Only a window larger than this will do.
    larger_than: u64,
    /// When the limit of a server without keys was met, and until when it is left alone.
    keyless: Option<(i64, i64)>,
    failed_calls: u32,
    last: Option<Failure>,
}

impl Plan {
    /// A plan over the chain, whose first is the model asked for. `sticky` is the profile that the session last used.
    #[must_use]
    pub fn new(candidates: Vec<Candidate>, sticky: Option<String>) -> Self {
        Self {
            candidates,
            at: 0,
            max_wait: MAX_WAIT_MS,
            current: sticky,
            failures: BTreeMap::new(),
            waits: 0,
            own_waits: 0,
            tried: BTreeMap::new(),
            barred: BTreeSet::new(),
            left: false,
            larger_than: 0,
            keyless: None,
            failed_calls: 0,
            last: None,
        }
    }

    /// The same with another bound for the waits where another model can be asked, in milliseconds.
    #[must_use]
    pub fn waiting_at_most(self, max_wait: i64) -> Self {
        Self { max_wait, ..self }
    }

    /// Whether the model may be asked with one profile or another.
    pub fn has_choice(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.profiles.len() > 1)
    }

    fn candidate(&self) -> Option<&Candidate> {
        self.candidates.get(self.at)
    }

    /// The most failed calls of a run.
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

    /// Another model is asked from now on. A full window asks for a larger one once: what comes after is compacted first.
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

    /// The wait is over. All had cooled: the profile is chosen anew. A wait for what others were refused is not the call's
    /// own: many at once would use up each other's.
    pub fn waited(&mut self) {
        self.current = None;
        self.waits = self.waits.saturating_add(1);
        if !self.tried.is_empty() {
            self.own_waits = self.own_waits.saturating_add(1);
        }
        self.tried.clear();
    }

    /// This profile is asked.
    pub fn using(&mut self, profile: Option<&str>) {
        if self.current.as_deref() != profile {
            self.current = profile.map(ToOwned::to_owned);
        }
    }

    /// The call was answered: the next one begins anew, with the same model and profile.
    pub fn answered(&mut self) {
        self.last = None;
        self.fresh();
    }

    /// The history was compacted: the profile is chosen anew.
    pub fn compacted(&mut self) {
        self.current = None;
    }

    /// Whether the profile in use has not failed in this call yet.
    #[must_use]
    pub fn is_first_failure(&self) -> bool {
        let current = self.current.as_deref().unwrap_or_default();
        !self.failures.contains_key(current)
    }

    /// Whether one more refusal ends the call after those that it has waited for: the profile in use is asked no more then,
    /// and no other model is either.
    pub fn is_last_request(&self) -> bool {
        let current = self.current.as_deref().unwrap_or_default();
        let spent = |failed: &u32| failed.saturating_add(1) >= choice::MOST_REQUESTS;
        let alone = self.own_waits > 0 && self.ahead().next().is_none();
        alone && self.failures.get(current).is_some_and(spent)
    }

    /// Why the last attempt of this call failed.
    pub fn last_failure(&self) -> Option<FailureKind> {
        self.last.as_ref().map(|last| last.kind)
    }

    /// So many calls of the run have failed, those that other plans have made among them.
    pub fn has_failed(&mut self, calls: u32) {
        self.failed_calls = self.failed_calls.max(calls);
    }

    /// Whether there is a model ahead with a larger window.
    #[must_use]
    pub fn has_larger(&self) -> bool {
        let window = self.candidate().map_or(u64::MAX, |candidate| candidate.window);
        self.candidates.iter().skip(self.at).any(|candidate| candidate.window > window)
    }

    /// Counts a failed attempt, and gives after how long the same profile is tried again; `None` where it is not.
    #[must_use]
    pub fn retry(
        &mut self,
        failure: &Failure,
        emitted: bool,
        book: &ProfileBook,
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
        let facts = retry::Facts { failures, emitted, remaining, dice };
        let delay = retry::delay(failure, facts)?;
        // A pause that the provider asks for is not sat out where another model can be asked meanwhile.
        let long = failure.retry_after.is_some() && delay > duration(self.max_wait);
        (!long || !self.has_usable(book, now)).then_some(delay)
    }

    /// The profile in use is through with this call, and the book has its failure: whether something else is tried, or
    /// the error the run ends with.
    pub fn spent(
        &mut self,
        failure: &Failure,
        emitted: bool,
        book: &ProfileBook,
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
                // Its retries are made: what still fails then is not waited for. A limit has a time at which it is over.
                if final_word || failure.kind != FailureKind::RateLimit {
                    self.barred.insert(current.clone());
                }
                self.tried.insert(current, failure.kind);
            }
        }
        match self.choose(book, now, remaining, &|_| false) {
            Choice::Use(_) | Choice::Wait(_) | Choice::Switch { .. } => Ok(()),
            Choice::Fail(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests;
