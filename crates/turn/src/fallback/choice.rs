//! The next step of a plan: a free profile, a wait, the next model, or the final error.
//!
//! It must never change the plan.

use std::time::Duration;

use super::plan::{Candidate, Choice, Pause, Plan, duration};
use crate::profiles::{self, ProfileCandidate, ProfileUsages, order};
use model::{Failure, FailureKind, ProfileWindow};

/// The longest wait for a profile where no other model is usable.
const LONGEST_WAIT: i64 = 30_000;
/// The maximum number of waits after a call's own refusals, where no other model is usable; otherwise a single wait.
const MOST_WAITS: u32 = 2;

/// A profile in its cooldown.
struct Cooling<'a> {
    /// Empty for a server without keys.
    id: &'a str,
    reason: FailureKind,
    until: i64,
    /// No wait makes it usable for this call.
    unusable: bool,
}

impl Plan {
    /// The next step. Changes nothing. A `busy` profile is chosen last, except the one in use.
    #[must_use]
    pub fn choose(
        &self,
        usages: &ProfileUsages,
        now: i64,
        remaining: Duration,
        busy: &dyn Fn(&str) -> bool,
    ) -> Choice {
        let Some(candidate) = self.candidate() else { return Choice::Fail(self.exhausted()) };
        if let Some(missing) = &candidate.missing {
            return self.next(missing.kind).unwrap_or_else(|| Choice::Fail(missing.clone()));
        }
        if self.left {
            let reason = self.last.as_ref().map_or(FailureKind::Unknown, |last| last.kind);
            return self.next(reason).unwrap_or_else(|| Choice::Fail(self.exhausted()));
        }
        if let Some(usable) = self.pick(candidate, usages, now, busy) {
            return usable;
        }
        let soonest = self.soonest(candidate, usages, now);
        let next = self.next(self.reason(soonest.as_ref()));
        let elsewhere = self.has_usable(usages, now);
        let (longest, waited, most) = if elsewhere {
            (self.max_wait, self.waits, 1)
        } else {
            // A cooldown that other calls caused does not count against this call: the wait is bounded only by the remaining time.
            let own = if self.tried.is_empty() { 0 } else { self.own_waits };
            (LONGEST_WAIT, own, MOST_WAITS)
        };
        let wait = soonest.filter(|found| {
            let ms = found.until.saturating_sub(now);
            // The time after the wait must be enough for an answer.
            let fits = ms <= longest && duration(ms) < remaining.mul_f64(0.9);
            // A rate limit ends by itself; for other failures the next model is sooner usable.
            let passes = !elsewhere || found.reason == FailureKind::RateLimit;
            !found.unusable && fits && passes && waited < most
        });
        match (wait, next) {
            (Some(found), _) => Choice::Wait(Pause {
                length: duration(found.until.saturating_sub(now)),
                reason: found.reason,
                profile: (!found.id.is_empty()).then(|| found.id.to_owned()),
            }),
            (None, Some(next)) => next,
            (None, None) => Choice::Fail(self.cooling(candidate, usages, now)),
        }
    }

    /// Whether a profile is not usable for this call any more, even after a wait: whatever failed and however long it waited, one answer of one
    /// model is requested once, and again as often as retries are allowed.
    fn is_spent(&self, id: &str) -> bool {
        self.barred.contains(id)
            || self.failures.get(id).is_some_and(|failed| *failed > self.retries)
    }

    /// The profile to use, where one is free.
    fn pick(
        &self,
        candidate: &Candidate,
        usages: &ProfileUsages,
        now: i64,
        busy: &dyn Fn(&str) -> bool,
    ) -> Option<Choice> {
        let through = |id: &str| self.tried.contains_key(id) || self.is_spent(id);
        if candidate.profiles.is_empty() {
            let free = self.keyless_until(now).is_none();
            return (free && !through("")).then_some(Choice::Use(None));
        }
        let free = |profile: &ProfileCandidate| {
            !through(&profile.id) && window(usages, &profile.id, &candidate.model, now).is_none()
        };
        let in_use = self.current.as_ref().and_then(|current| {
            candidate.profiles.iter().find(|profile| profile.id == *current && free(profile))
        });
        in_use
            .or_else(|| {
                let ordered =
                    order(&candidate.profiles, candidate.explicit, usages, &candidate.model, now);
                let mut usable = ordered.into_iter().filter(|profile| free(profile));
                let first = usable.next()?;
                // In order, but a profile whose rate limits admit the call now comes first.
                let admitting =
                    std::iter::once(first).chain(usable).find(|profile| !busy(&profile.id));
                Some(admitting.unwrap_or(first))
            })
            .map(|profile| Choice::Use(Some(profile.id.clone())))
    }

    /// Whether a later model of the chain is usable now.
    pub(super) fn has_usable(&self, usages: &ProfileUsages, now: i64) -> bool {
        self.ahead().any(|(_, candidate)| {
            let free =
                |it: &ProfileCandidate| window(usages, &it.id, &candidate.model, now).is_none();
            candidate.missing.is_none()
                && (candidate.profiles.is_empty() || candidate.profiles.iter().any(free))
        })
    }

    /// The profile whose cooldown ends first among those worth a wait.
    fn soonest<'a>(
        &self,
        candidate: &'a Candidate,
        usages: &ProfileUsages,
        now: i64,
    ) -> Option<Cooling<'a>> {
        // A limit that has ended in the meantime needs no wait: the call continues immediately.
        let limited = |id: &'a str, until: i64| {
            let reason = FailureKind::RateLimit;
            let known = self.tried.get(id) == Some(&reason);
            known.then(|| Cooling {
                id,
                reason,
                until: until.max(now),
                unusable: self.is_spent(id),
            })
        };
        if candidate.profiles.is_empty() {
            return limited("", self.keyless.map(|_| self.keyless_until(now).unwrap_or(now))?);
        }
        candidate
            .profiles
            .iter()
            .filter_map(|profile| {
                let id = profile.id.as_str();
                match window(usages, id, &candidate.model, now) {
                    Some(found) => Some(Cooling {
                        id,
                        reason: found.reason,
                        until: found.until,
                        unusable: profiles::refuses_key(found.reason) || self.is_spent(id),
                    }),
                    None => limited(id, now),
                }
            })
            .min_by_key(|found| (found.unusable, found.until))
    }

    /// Why the plan leaves the candidate.
    fn reason(&self, soonest: Option<&Cooling<'_>>) -> FailureKind {
        match (&self.last, soonest) {
            (Some(last), _) if !self.failures.is_empty() || !self.tried.is_empty() => last.kind,
            (_, Some(found)) => found.reason,
            (Some(last), None) => last.kind,
            (None, None) => FailureKind::Unknown,
        }
    }

    /// The next usable model.
    fn next(&self, reason: FailureKind) -> Option<Choice> {
        self.ahead().next().map(|(to, _)| Choice::Switch { to, reason })
    }

    /// The end of the limit of a provider without profiles, if it is limited now. A limit that begins in the future was set
    /// by another clock.
    fn keyless_until(&self, now: i64) -> Option<i64> {
        let (from, until) = self.keyless?;
        (from <= now && until > now).then_some(until)
    }

    fn exhausted(&self) -> Failure {
        self.last.clone().unwrap_or_else(|| {
            Failure::new(FailureKind::Unknown, "no_model", "there is no model left to call")
        })
    }

    /// The error of a model with all profiles in cooldown: the last failure, where that is the cause; else `profiles_cooling`.
    fn cooling(&self, candidate: &Candidate, usages: &ProfileUsages, now: i64) -> Failure {
        let windows: Vec<ProfileWindow> = candidate
            .profiles
            .iter()
            .filter_map(|profile| window(usages, &profile.id, &candidate.model, now).cloned())
            .collect();
        let refused = |window: &ProfileWindow| profiles::refuses_key(window.reason);
        let passing = windows.iter().filter(|window| !refused(window)).map(|it| it.until).min();
        let wait = passing
            .or_else(|| windows.iter().map(|window| window.until).min())
            .or(self.keyless_until(now).filter(|_| candidate.profiles.is_empty()))
            .map(|until| duration(until.saturating_sub(now)));
        match &self.last {
            Some(last) if passing.is_none() || !profiles::refuses_key(last.kind) => {
                let ours = last.kind == FailureKind::RateLimit && last.retry_after.is_none();
                Failure { cooldown: wait.filter(|_| ours), ..last.clone() }
            }
            Some(_) | None => {
                let kind =
                    if passing.is_some() { FailureKind::RateLimit } else { FailureKind::Auth };
                let Candidate { provider, model, .. } = candidate;
                let message = format!(
                    "every auth profile of `{provider}` is cooling down for `{model}`; wait, or `resetProfile()` one"
                );
                Failure { cooldown: wait, ..Failure::new(kind, "profiles_cooling", message) }
            }
        }
    }
}

fn window<'a>(
    usages: &'a ProfileUsages,
    id: &str,
    model: &str,
    now: i64,
) -> Option<&'a ProfileWindow> {
    profiles::cooled(usages.get(id)?, model, now)
}
