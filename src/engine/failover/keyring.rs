//! The keys of an engine's profiles, and the state that decides which of them may be used: in memory, and in the ledger if
//! there is one, so that processes share it and it survives a restart (docs/rules/failover.md#profile-state).
//!
//! It must never write a key anywhere, and never fail a run because the state could not be written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use base::clock::Clock;
use base::error::{EngineError, ErrorCode};
use base::telemetry;
use model::{
    Failure, FailureKind, InputError, ProfileChange, ProfileState, ProfileStore, ProfileUsage,
    quoted,
};
use provider::{Credential, KeyProfile, KnownKeys};
use turn::fallback::{Candidate, Choice, Plan};
use turn::profiles::{self, CooldownPolicy, ProfileUsages};

/// The interval at which the state of other processes is read.
const FRESH: Duration = Duration::from_millis(500);
/// The number of sessions whose profile is remembered; above it, the least recently used half is removed.
const MOST_SESSIONS: usize = 10_000;

#[derive(Default)]
struct Sticky {
    /// By session and provider: the profile, and the order of its last use.
    of: HashMap<(String, String), (String, u64)>,
    uses: u64,
}

/// The usages of the profiles, in the wall time of their last read.
#[derive(Default)]
struct UsageState {
    usages: ProfileUsages,
    /// Both clocks at the last read: a change of their difference is a step of the wall clock.
    read_at: Option<(i64, Instant)>,
}

/// The smallest step of the wall clock; less is drift that a time server corrects.
const STEP_MS: i64 = 1_000;

impl UsageState {
    /// Moves the usages to `now`: windows last as long as on the monotonic clock, however the wall clock is set.
    fn at(&mut self, now: i64, instant: Instant) {
        let expected = self.read_at.map(|(wall, then)| {
            let elapsed = instant.saturating_duration_since(then).as_millis();
            wall.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
        });
        let step = expected.map_or(0, |expected| now.saturating_sub(expected));
        if step.saturating_abs() > STEP_MS {
            self.usages.values_mut().for_each(|usage| profiles::shift(usage, step));
        }
        // Drift below a step accumulates until it is one.
        if step.saturating_abs() > STEP_MS || self.read_at.is_none() {
            self.read_at = Some((now, instant));
        }
        self.usages.values_mut().for_each(|usage| profiles::settle(usage, now));
    }
}

/// The profiles of an engine.
pub(crate) struct Keyring {
    profiles: Vec<(String, Arc<KeyProfile>)>,
    usages: Mutex<UsageState>,
    sticky: Mutex<Sticky>,
    /// When the store was last read; locked during the read, so that no call chooses before its end.
    read: tokio::sync::Mutex<Option<Instant>>,
    /// Counts the begins and ends of writes: a read that overlaps a write may be older than the memory.
    writes: AtomicU64,
    store: Option<Arc<dyn ProfileStore>>,
    policy: CooldownPolicy,
    clock: Clock,
}

impl Keyring {
    /// Creates a keyring of these profiles, with the names of their providers.
    pub(crate) fn new(
        profiles: Vec<(String, Arc<KeyProfile>)>,
        store: Option<Arc<dyn ProfileStore>>,
        policy: CooldownPolicy,
        clock: Clock,
    ) -> Self {
        Self {
            profiles,
            usages: Mutex::default(),
            sticky: Mutex::default(),
            read: tokio::sync::Mutex::default(),
            writes: AtomicU64::new(0),
            store,
            policy,
            clock,
        }
    }

    /// The usages, and the wall time at which to read them.
    fn usages(&self) -> (MutexGuard<'_, UsageState>, i64) {
        let mut state = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now_ms();
        state.at(now, self.clock.instant());
        (state, now)
    }

    fn profile(&self, id: &str) -> Option<&Arc<KeyProfile>> {
        self.profiles.iter().map(|(_, profile)| profile).find(|profile| profile.id == id)
    }

    /// The keys of all profiles.
    pub(crate) fn known(&self) -> KnownKeys {
        KnownKeys::of(self.profiles.iter().map(|(_, profile)| profile.as_ref()))
    }

    /// Reads the state of other processes, if the last read is not fresh.
    pub(crate) async fn refresh(&self) {
        if self.store.is_none() || self.profiles.is_empty() {
            return;
        }
        let mut read = self.read.lock().await;
        let now = self.clock.instant();
        if !read.is_some_and(|at| now.saturating_duration_since(at) < FRESH) {
            *read = self.read_all().await.then_some(now);
        }
    }

    /// Reads the store. False if the result may be outdated already.
    async fn read_all(&self) -> bool {
        let Some(store) = self.store.as_ref().filter(|_| !self.profiles.is_empty()) else {
            return true;
        };
        let before = self.writes.load(Ordering::Acquire);
        match store.usage().await {
            Ok(rows) => {
                let (mut state, _) = self.usages();
                if self.writes.load(Ordering::Acquire) != before {
                    return false;
                }
                for (id, usage) in rows {
                    if self.profile(&id).is_some() {
                        put(&mut state.usages, id, usage);
                    }
                }
            }
            Err(error) => telemetry::storage_failed(error.kind.code()),
        }
        true
    }

    /// The next step of `plan`; `busy` is true for profiles that the call would wait for.
    pub(crate) fn choose(
        &self,
        plan: &Plan,
        remaining: Duration,
        busy: &dyn Fn(&str) -> bool,
    ) -> Choice {
        let (state, now) = self.usages();
        plan.choose(&state.usages, now, remaining, busy)
    }

    /// The delay before a retry with the profile in use; `None` for no retry.
    pub(crate) fn retry(
        &self,
        plan: &mut Plan,
        failure: &Failure,
        emitted: bool,
        remaining: Duration,
    ) -> Option<Duration> {
        let dice = self.clock.dice();
        let (state, now) = self.usages();
        plan.retry(failure, emitted, &state.usages, now, remaining, dice)
    }

    /// Leaves the profile in use after `failure`: `plan` continues with another.
    ///
    /// # Errors
    /// The failure that ends the run.
    pub(crate) fn give_up_profile(
        &self,
        plan: &mut Plan,
        failure: &Failure,
        emitted: bool,
        remaining: Duration,
    ) -> Result<(), Failure> {
        let (state, now) = self.usages();
        plan.spent(failure, emitted, &state.usages, now, remaining)
    }

    /// The profile that a session last used.
    pub(crate) fn sticky(&self, session: &str, provider: &str) -> Option<String> {
        let sticky = self.sticky.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session.to_owned(), provider.to_owned());
        sticky.of.get(&key).map(|(id, _)| id.clone())
    }

    /// Binds the session to this profile; with `None`, to none.
    pub(crate) fn stick(&self, session: &str, provider: &str, id: Option<&str>) {
        let mut sticky = self.sticky.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session.to_owned(), provider.to_owned());
        let Some(id) = id else {
            sticky.of.remove(&key);
            return;
        };
        sticky.uses = sticky.uses.wrapping_add(1);
        let uses = sticky.uses;
        sticky.of.insert(key, (id.to_owned(), uses));
        if sticky.of.len() > MOST_SESSIONS {
            let half = uses.saturating_sub((MOST_SESSIONS / 2) as u64);
            sticky.of.retain(|_, (_, used)| *used > half);
        }
    }

    /// Whether the profile's provider has more than one: only then the order of use is stored.
    fn has_others(&self, id: &str) -> bool {
        let of = self.profiles.iter().find(|(_, profile)| profile.id == id);
        of.is_some_and(|(of, _)| self.profiles.iter().filter(|(other, _)| other == of).count() > 1)
    }

    /// Records that a profile was chosen, so that others are chosen first from now on.
    pub(crate) fn picked(&self, id: &str) {
        let (mut state, now) = self.usages();
        state.usages.entry(id.to_owned()).or_default().last_used_at = Some(now);
        drop(state);
        if let Some(store) = self.store.as_ref().filter(|_| self.has_others(id)) {
            // A lost order is harmless.
            store.used(id, now);
        }
    }

    /// Records an answer of a profile.
    pub(crate) fn answered(&self, id: &str) {
        let (refused, now) = {
            let (mut state, now) = self.usages();
            let usage = state.usages.entry(id.to_owned()).or_default();
            let refused = usage.refusals > 0;
            profiles::answered(usage, now);
            (refused && usage.refusals == 0, now)
        };
        if let Some(store) = self.store.as_ref().filter(|_| refused) {
            drop(store.change(id, Box::new(move |usage| profiles::answered(usage, now))));
        }
    }

    /// Records a failure of a profile with `model`, in one transaction with the state of other processes.
    pub(crate) async fn failed(&self, id: &str, model: &str, failure: &Failure) {
        if profiles::is_unrelated(failure.kind) {
            return;
        }
        let policy = self.policy;
        let now = {
            let (mut state, now) = self.usages();
            let usage = state.usages.entry(id.to_owned()).or_default();
            profiles::failed(usage, policy, model, failure, now);
            now
        };
        let (model, failure) = (model.to_owned(), failure.clone());
        let change: ProfileChange =
            Box::new(move |usage| profiles::failed(usage, policy, &model, &failure, now));
        self.write(id, change).await;
    }

    async fn write(&self, id: &str, change: ProfileChange) {
        let Some(store) = &self.store else { return };
        self.writes.fetch_add(1, Ordering::AcqRel);
        let written = store.change(id, change).await;
        self.writes.fetch_add(1, Ordering::AcqRel);
        match written {
            Ok(usage) => put(&mut self.usages().0.usages, id.to_owned(), usage),
            Err(error) => telemetry::storage_failed(error.kind.code()),
        }
    }

    /// The key for a call with a profile.
    ///
    /// # Errors
    /// The host's callback failed.
    pub(crate) async fn credential(&self, id: &str) -> Result<Arc<Credential>, Failure> {
        match self.profile(id) {
            Some(profile) => profile.credential(&self.clock).await,
            None => Err(no_profile(id)),
        }
    }

    /// Whether the host returns another key for a refused one: then it is fetched.
    pub(crate) async fn renews(&self, id: &str, refused: FailureKind) -> bool {
        match self.profile(id) {
            Some(profile) if refused == FailureKind::Auth => profile.renew().await,
            Some(_) | None => false,
        }
    }

    /// A profile of `candidate` that is free now; `None` for a server without keys.
    ///
    /// # Errors
    /// No profile is free, or there is none.
    pub(crate) async fn any(&self, candidate: Candidate) -> Result<Option<String>, Failure> {
        self.refresh().await;
        match self.choose(&Plan::new(vec![candidate], None), Duration::ZERO, &|_| false) {
            Choice::Use(profile) => Ok(profile),
            // With one candidate and no time, neither can happen.
            Choice::Wait(_) | Choice::Switch { .. } => Ok(None),
            Choice::Fail(failure) => Err(failure),
        }
    }

    /// The current state of every profile, read from the ledger.
    pub(crate) async fn states(&self) -> Vec<ProfileState> {
        self.read_all().await;
        let (state, now) = self.usages();
        let shown = |(provider, profile): &(String, Arc<KeyProfile>)| {
            let mut usage = state.usages.get(&profile.id).cloned().unwrap_or_default();
            profiles::settle(&mut usage, now);
            ProfileState {
                id: profile.id.clone(),
                provider: provider.clone(),
                kind: profile.kind,
                available: usage.windows.iter().all(|window| window.model.is_some()),
                last_used_at: usage.last_used_at,
                last_failure_at: usage.last_failure_at,
                windows: usage.windows,
            }
        };
        self.profiles.iter().map(shown).collect()
    }

    /// Resets a profile's failures.
    ///
    /// # Errors
    /// `unknown_profile`; any of storage.
    pub(crate) async fn reset(&self, id: &str) -> Result<(), EngineError> {
        let Some(profile) = self.profile(id) else {
            let message = format!("{} is no auth profile of the engine", quoted(id));
            return Err(EngineError::at(ErrorCode::UnknownProfile, InputError::new("id", message)));
        };
        profile.renew().await;
        let clear = |usage: &mut ProfileUsage| {
            *usage = ProfileUsage { last_used_at: usage.last_used_at, ..ProfileUsage::default() };
        };
        clear(self.usages().0.usages.entry(id.to_owned()).or_default());
        if let Some(store) = &self.store {
            self.writes.fetch_add(1, Ordering::AcqRel);
            let usage = store.change(id, Box::new(clear)).await;
            self.writes.fetch_add(1, Ordering::AcqRel);
            let usage = usage?;
            self.usages().0.usages.insert(id.to_owned(), usage);
        }
        Ok(())
    }
}

/// Merges a profile's state from the store. Not every use is stored: the later time counts.
fn put(usages: &mut ProfileUsages, id: String, mut usage: ProfileUsage) {
    let known = usages.get(&id).and_then(|known| known.last_used_at);
    usage.last_used_at = usage.last_used_at.max(known);
    usages.insert(id, usage);
}

/// The failure of a provider whose order has no profile.
pub(crate) fn no_profile(provider: &str) -> Failure {
    let message =
        format!("`{provider}` has no auth profile that may be used; see `failover.order`");
    Failure { should_retry: Some(false), ..Failure::new(FailureKind::Auth, "missing_key", message) }
}
