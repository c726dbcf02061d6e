//! The state of one run in its fallback chain: the candidates, what was tried, and what may come next.
//!
//! Data and its accessors. It must never decide; `choice` does, and `progress` records what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::profiles::ProfileCandidate;
use crate::retry::RETRIES;
use model::{Failure, FailureKind};

/// The default of the longest wait where another model is usable, in milliseconds.
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
    /// The profiles it may be called with; empty for a server without keys.
    pub profiles: Vec<ProfileCandidate>,
    /// Whether the host set their order.
    pub explicit: bool,
    /// Why it cannot be called at all: it needs a key and has none.
    pub missing: Option<Failure>,
}

/// The next step of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Send with this profile; `None` for a server without keys.
    Use(Option<String>),
    /// Wait, call [`Plan::waited`], and choose again.
    Wait(Pause),
    /// Switch to this model of the chain: call [`Plan::switched`], and choose again.
    Switch {
        /// Its index in the chain.
        to: usize,
        /// Why the previous model was left.
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
    /// Why the profile may not be used before.
    pub reason: FailureKind,
    /// The profile that is free first; `None` for a server without keys.
    pub profile: Option<String>,
}

/// The state of a run in its chain.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) candidates: Vec<Candidate>,
    pub(super) at: usize,
    /// The longest wait where another model is usable, in milliseconds.
    pub(super) max_wait: i64,
    /// The most retries of an answer with one profile.
    pub(super) retries: u32,
    /// The profile in use.
    pub(super) current: Option<String>,
    /// Failed requests of this call by profile.
    pub(super) failures: BTreeMap<String, u32>,
    pub(super) waits: u32,
    /// Waits after a refusal of this call.
    pub(super) own_waits: u32,
    /// Profiles that are not usable for this call until a wait, with the reason.
    pub(super) tried: BTreeMap<String, FailureKind>,
    /// Those of them that no wait makes usable.
    pub(super) barred: BTreeSet<String>,
    /// The model cannot answer this call with any profile.
    pub(super) left: bool,
    /// Only a model with a larger window is usable.
    pub(super) larger_than: u64,
    /// The begin and the end of the cooldown of a server without keys.
    pub(super) keyless: Option<(i64, i64)>,
    pub(super) failed_calls: u32,
    pub(super) last: Option<Failure>,
}

impl Plan {
    /// A plan over the chain, which begins with the requested model. `sticky` is the profile that the session last used.
    #[must_use]
    pub fn new(candidates: Vec<Candidate>, sticky: Option<String>) -> Self {
        Self {
            candidates,
            at: 0,
            max_wait: MAX_WAIT_MS,
            retries: RETRIES,
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

    /// The same plan with another longest wait where another model is usable, in milliseconds.
    #[must_use]
    pub fn waiting_at_most(self, max_wait: i64) -> Self {
        Self { max_wait, ..self }
    }

    /// The same plan with another number of retries of an answer with one profile; `None` leaves the default.
    #[must_use]
    pub fn retrying(self, retries: Option<u32>) -> Self {
        Self { retries: retries.unwrap_or(self.retries), ..self }
    }

    /// Whether the model has more than one profile.
    pub fn has_choice(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.profiles.len() > 1)
    }

    pub(super) fn candidate(&self) -> Option<&Candidate> {
        self.candidates.get(self.at)
    }

    /// Whether the profile in use has not failed in this call yet.
    #[must_use]
    pub fn is_first_failure(&self) -> bool {
        let current = self.current.as_deref().unwrap_or_default();
        !self.failures.contains_key(current)
    }

    /// Why the last attempt of this call failed.
    pub fn last_failure(&self) -> Option<FailureKind> {
        self.last.as_ref().map(|last| last.kind)
    }

    /// Whether a later model has a larger window.
    #[must_use]
    pub fn has_larger(&self) -> bool {
        let window = self.candidate().map_or(u64::MAX, |candidate| candidate.window);
        self.candidates.iter().skip(self.at).any(|candidate| candidate.window > window)
    }

    /// The later models with a large enough window.
    pub(super) fn ahead(&self) -> impl Iterator<Item = (usize, &Candidate)> {
        let from = self.at.saturating_add(1);
        let ahead = self.candidates.iter().enumerate().skip(from);
        ahead.filter(|(_, candidate)| candidate.window > self.larger_than)
    }
}

/// Milliseconds as a duration; negative ones are zero.
pub(super) fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
