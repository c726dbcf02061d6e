//! The plan of one run's calls: which model, which of its profiles, when to wait, when to give up (RULES §2).
//!
//! Pure: it is told the time and reads the book. It must never go back to a model it has left, try a profile twice in
//! a call beyond its retries, or go on once a token was said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::profiles::{self, Book, Candidate, order};
use super::retry;
use crate::model::{Failure, FailureKind, ProfileWindow};

/// The longest that a profile is waited for.
const LONGEST_WAIT: i64 = 30_000;
/// Waits in one call, where there is no other model to go to; where there is one, a single one.
const MOST_WAITS: u32 = 2;

/// A model of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Its window in tokens.
    pub window: u64,
    /// The profiles it may be asked with; empty for a server without keys.
    pub profiles: Vec<Candidate>,
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
    /// Wait, tell [`Plan::waited`], and choose again.
    Wait(Duration),
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

/// Where a run stands in its chain.
#[derive(Debug, Clone)]
pub struct Plan {
    seats: Vec<Seat>,
    at: usize,
    /// The profile in use.
    current: Option<String>,
    /// Failed attempts in a row with it in this call.
    failures: u32,
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
    /// Until when a server without keys is left alone.
    /// When its limit was met, and until when it holds.
    keyless: Option<(i64, i64)>,
    failed_calls: u32,
    last: Option<Failure>,
}

impl Plan {
    /// A plan over the chain, whose first is the model asked for. `sticky` is the profile that the session last used.
    #[must_use]
    pub fn new(seats: Vec<Seat>, sticky: Option<String>) -> Self {
        Self {
            seats,
            at: 0,
            current: sticky,
            failures: 0,
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

    /// Whether the model may be asked with one profile or another.
    pub(crate) fn has_choice(&self) -> bool {
        self.seat().is_some_and(|seat| seat.profiles.len() > 1)
    }

    fn seat(&self) -> Option<&Seat> {
        self.seats.get(self.at)
    }

    /// The most failed calls of a run.
    fn ceiling(&self) -> u32 {
        let profiles: BTreeSet<&str> =
            self.seats.iter().flat_map(|seat| &seat.profiles).map(|it| it.id.as_str()).collect();
        let profiles = u32::try_from(profiles.len()).unwrap_or(u32::MAX);
        profiles.saturating_mul(8).saturating_add(24).clamp(32, 160)
    }

    /// What to do next. Changes nothing. A profile that is `busy` is chosen last, but the one in use stays.
    #[must_use]
    pub(crate) fn choose(
        &self,
        book: &Book,
        now: i64,
        remaining: Duration,
        busy: &dyn Fn(&str) -> bool,
    ) -> Choice {
        let Some(seat) = self.seat() else { return Choice::Fail(self.exhausted()) };
        if let Some(missing) = &seat.missing {
            return self.next(missing.kind).unwrap_or_else(|| Choice::Fail(missing.clone()));
        }
        if self.left {
            let reason = self.last.as_ref().map_or(FailureKind::Unknown, |last| last.kind);
            return self.next(reason).unwrap_or_else(|| Choice::Fail(self.exhausted()));
        }
        if let Some(usable) = self.pick(seat, book, now, busy) {
            return Choice::Use(usable);
        }
        let wait = self.soonest(seat, book, now).filter(|(window, barred)| {
            let ms = window.until.saturating_sub(now);
            // What is left after the wait must do for an answer.
            !barred && ms <= LONGEST_WAIT && duration(ms) < remaining.mul_f64(0.9)
        });
        let next = self.next(self.reason(seat, book, now));
        let (waited, most) =
            if next.is_some() { (self.waits, 1) } else { (self.own_waits, MOST_WAITS) };
        match (wait, next) {
            // Rate limits pass; what is broken is sooner found whole elsewhere.
            (Some((window, _)), next)
                if waited < most && (next.is_none() || window.reason == FailureKind::RateLimit) =>
            {
                Choice::Wait(duration(window.until.saturating_sub(now)))
            }
            (_, Some(next)) => next,
            (_, None) => Choice::Fail(self.cooling(seat, book, now)),
        }
    }

    /// The profile to ask with, where one is free.
    fn pick(
        &self,
        seat: &Seat,
        book: &Book,
        now: i64,
        busy: &dyn Fn(&str) -> bool,
    ) -> Option<Option<String>> {
        if seat.profiles.is_empty() {
            let free = self.keyless_until(now).is_none();
            return (free && !self.tried.contains_key("")).then_some(None);
        }
        let free = |candidate: &Candidate| {
            !self.tried.contains_key(&candidate.id)
                && window(book, &candidate.id, &seat.model, now).is_none()
        };
        let kept = self.current.as_ref().and_then(|current| {
            seat.profiles.iter().find(|candidate| candidate.id == *current && free(candidate))
        });
        kept.or_else(|| {
            let ordered = order(&seat.profiles, seat.explicit, book, &seat.model, now);
            let mut usable = ordered.into_iter().filter(|candidate| free(candidate));
            let first = usable.next()?;
            // Its own order, but for those that have room now.
            let roomy = std::iter::once(first).chain(usable).find(|candidate| !busy(&candidate.id));
            Some(roomy.unwrap_or(first))
        })
        .map(|candidate| Some(candidate.id.clone()))
    }

    /// The window that ends first among those worth a wait, and whether the profile is barred.
    fn soonest(&self, seat: &Seat, book: &Book, now: i64) -> Option<(ProfileWindow, bool)> {
        // A limit that has passed since is waited for no longer; the call goes on all the same.
        let limited = |id: &str, until: i64| {
            let reason = FailureKind::RateLimit;
            let known = self.tried.get(id) == Some(&reason);
            known.then(|| ProfileWindow { model: None, reason, from: now, until: until.max(now) })
        };
        if seat.profiles.is_empty() {
            let window =
                limited("", self.keyless.map(|_| self.keyless_until(now).unwrap_or(now))?)?;
            return Some((window, self.barred.contains("")));
        }
        seat.profiles
            .iter()
            .filter_map(|candidate| {
                let found = window(book, &candidate.id, &seat.model, now)
                    .cloned()
                    .or_else(|| limited(&candidate.id, now))?;
                let hopeless = profiles::refuses_key(found.reason);
                Some((found, hopeless || self.barred.contains(&candidate.id)))
            })
            .min_by_key(|(window, barred)| (*barred, window.until))
    }

    /// Why the seat is left.
    fn reason(&self, seat: &Seat, book: &Book, now: i64) -> FailureKind {
        match (&self.last, self.soonest(seat, book, now)) {
            (Some(last), _) if self.failures > 0 || !self.tried.is_empty() => last.kind,
            (_, Some((window, _))) => window.reason,
            (Some(last), None) => last.kind,
            (None, None) => FailureKind::Unknown,
        }
    }

    /// The next model that will do.
    fn next(&self, reason: FailureKind) -> Option<Choice> {
        let from = self.at.saturating_add(1);
        let ahead = self.seats.iter().enumerate().skip(from);
        let mut fitting = ahead.filter(|(_, seat)| seat.window > self.larger_than);
        fitting.next().map(|(to, _)| Choice::Switch { to, reason })
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
        self.failures = 0;
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
        if self.failures > 0 || !self.tried.is_empty() {
            self.own_waits = self.own_waits.saturating_add(1);
        }
        self.failures = 0;
        self.tried.clear();
    }

    /// This profile is asked.
    pub fn using(&mut self, profile: Option<&str>) {
        if self.current.as_deref() != profile {
            self.failures = 0;
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
        self.failures == 0
    }

    /// Whether there is a model ahead with a larger window.
    #[must_use]
    pub fn has_larger(&self) -> bool {
        let window = self.seat().map_or(u64::MAX, |seat| seat.window);
        self.seats.iter().skip(self.at).any(|seat| seat.window > window)
    }

    /// Counts a failed attempt, and says after how long the same profile is tried again; `None` where it is not.
    #[must_use]
    pub fn retry(
        &mut self,
        failure: &Failure,
        emitted: bool,
        remaining: Duration,
        dice: f64,
    ) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        self.failed_calls = self.failed_calls.saturating_add(1);
        self.last = Some(failure.clone());
        if self.failed_calls >= self.ceiling() {
            return None;
        }
        retry::delay(failure, retry::Facts { failures: self.failures, emitted, remaining, dice })
    }

    /// The profile in use is through with this call, and the book has its failure: whether something else is tried, or
    /// the error the run ends with.
    pub(crate) fn spent(
        &mut self,
        failure: &Failure,
        emitted: bool,
        book: &Book,
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
                self.larger_than = self.seat().map_or(u64::MAX, |seat| seat.window);
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
                if self.seat().is_some_and(|seat| seat.profiles.is_empty())
                    && failure.kind == FailureKind::RateLimit
                {
                    let wait = failure.retry_after.map_or_else(profiles::first_rung, |wait| {
                        i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
                    });
                    self.keyless = Some((now, now.saturating_add(wait)));
                }
                if final_word {
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

    /// Until when a provider without profiles is limited, where it is. One that began later than now was set by another clock.
    fn keyless_until(&self, now: i64) -> Option<i64> {
        let (from, until) = self.keyless?;
        (from <= now && until > now).then_some(until)
    }

    fn exhausted(&self) -> Failure {
        self.last.clone().unwrap_or_else(|| {
            Failure::new(FailureKind::Unknown, "no_model", "there is no model left to ask")
        })
    }

    /// The error of a model whose profiles are all left alone: what failed last, where that says it; else that they are.
    fn cooling(&self, seat: &Seat, book: &Book, now: i64) -> Failure {
        let windows: Vec<ProfileWindow> = seat
            .profiles
            .iter()
            .filter_map(|candidate| window(book, &candidate.id, &seat.model, now).cloned())
            .collect();
        let refused = |window: &ProfileWindow| profiles::refuses_key(window.reason);
        let passing = windows.iter().filter(|window| !refused(window)).map(|it| it.until).min();
        let wait = passing
            .or_else(|| windows.iter().map(|window| window.until).min())
            .map(|until| duration(until.saturating_sub(now)));
        match &self.last {
            Some(last) if passing.is_none() || !profiles::refuses_key(last.kind) => {
                let told = last.kind == FailureKind::RateLimit && last.retry_after.is_none();
                // What the provider has said stands.
                Failure { retry_after: if told { wait } else { last.retry_after }, ..last.clone() }
            }
            Some(_) | None => {
                let kind =
                    if passing.is_some() { FailureKind::RateLimit } else { FailureKind::Auth };
                let Seat { provider, model, .. } = seat;
                let message = format!(
                    "every auth profile of `{provider}` is cooling down for `{model}`; wait, or `resetProfile()` one"
                );
                Failure { retry_after: wait, ..Failure::new(kind, "profiles_cooling", message) }
            }
        }
    }
}

fn window<'a>(book: &'a Book, id: &str, model: &str, now: i64) -> Option<&'a ProfileWindow> {
    profiles::cooled(book.get(id)?, model, now)
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

#[cfg(test)]
mod tests;
