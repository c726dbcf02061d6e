//! The states of auth profiles: which are usable for a model, in what order, and the effect of a failure
//! (docs/rules/failover.md#cooldown).
//!
//! Pure: the caller passes the time. It must never hold a key, and never move the end of an active window.

use std::collections::BTreeMap;

use model::{AuthType, Failure, FailureKind, ProfileUsage, ProfileWindow};

/// How long profiles cool down after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CooldownPolicy {
    /// The longer ladder of older engines.
    pub legacy_ladder: bool,
    /// The first window of a billing failure, in milliseconds; doubled up to a day.
    pub billing_base_ms: i64,
}

impl Default for CooldownPolicy {
    fn default() -> Self {
        Self { legacy_ladder: false, billing_base_ms: 10 * MINUTE }
    }
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const LADDER: &[i64] = &[30 * SECOND, MINUTE, 5 * MINUTE];
const LEGACY_LADDER: &[i64] = &[MINUTE, 5 * MINUTE, 25 * MINUTE, HOUR];
const PERMANENT_BASE: i64 = 10 * MINUTE;
/// After this long without a failure, the counters are reset.
const QUIET: i64 = DAY;
/// Clocks of concurrent processes differ by less.
const SKEW: i64 = 5 * SECOND;
/// The furthest reset time that is accepted.
const FURTHEST_RESET: i64 = 31 * DAY;

/// The scope of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// The profile with this model.
    Model,
    /// The profile.
    Profile,
    /// The profile, until it is paid for or gets a new key.
    Account,
    /// Not the profile.
    Unrelated,
}

fn blame(kind: FailureKind) -> Blame {
    match kind {
        FailureKind::RateLimit | FailureKind::Timeout | FailureKind::Overloaded => Blame::Model,
        FailureKind::Auth => Blame::Profile,
        FailureKind::Billing | FailureKind::AuthPermanent => Blame::Account,
        // A server that fails, or cannot be reached, fails for every key.
        FailureKind::ServerError
        | FailureKind::Network
        | FailureKind::ContextOverflow
        | FailureKind::ModelNotFound
        | FailureKind::Format
        | FailureKind::Refusal
        | FailureKind::BudgetExceeded
        | FailureKind::PolicyMaxTokens
        | FailureKind::OutputInvalid
        | FailureKind::Aborted
        | FailureKind::Storage
        | FailureKind::Unknown => Blame::Unrelated,
    }
}

/// Whether a failure does not concern the profile.
pub fn is_unrelated(kind: FailureKind) -> bool {
    blame(kind) == Blame::Unrelated
}

/// Whether a window with this reason means that the key itself is refused: a wait does not help.
pub fn refuses_key(reason: FailureKind) -> bool {
    matches!(blame(reason), Blame::Profile | Blame::Account)
}

/// The wait after a rate limit without a reported time, where there is no profile to cool down.
pub fn first_rung() -> i64 {
    LADDER.first().copied().unwrap_or(SECOND)
}

/// Removes windows that ended before `now`, and those that begin after it: the clock was set back since, and their
/// remaining time is unknown.
pub fn settle(usage: &mut ProfileUsage, now: i64) {
    usage.windows.retain_mut(|window| {
        let lead = window.from.saturating_sub(now);
        if lead > 0 {
            // The window has its former length: no call waits longer than that.
            shift_window(window, -lead);
        }
        lead <= SKEW && window.until > now
    });
    let is_ahead = |at: &i64| at.saturating_sub(now) > SKEW;
    usage.last_failure_at = usage.last_failure_at.filter(|at| !is_ahead(at));
    // Otherwise the profile would be the last one in the order for as long.
    usage.last_used_at = usage.last_used_at.map(|at| if is_ahead(&at) { now } else { at });
    if !usage.windows.iter().any(|window| blame(window.reason) != Blame::Account) {
        usage.failures = 0;
    }
    if usage.last_failure_at.is_none_or(|last| now.saturating_sub(last) >= QUIET) {
        usage.failures = 0;
        usage.refusals = 0;
    }
}

/// Moves all times of a profile's state by `ms`, the step of the clock they are compared with.
pub fn shift(usage: &mut ProfileUsage, ms: i64) {
    for at in [&mut usage.last_used_at, &mut usage.last_failure_at].into_iter().flatten() {
        *at = at.saturating_add(ms);
    }
    usage.windows.iter_mut().for_each(|window| shift_window(window, ms));
}

fn shift_window(window: &mut ProfileWindow, ms: i64) {
    window.from = window.from.saturating_add(ms);
    window.until = window.until.saturating_add(ms);
}

/// Records a failure of a profile with `model`.
pub fn failed(
    usage: &mut ProfileUsage,
    policy: CooldownPolicy,
    model: &str,
    failure: &Failure,
    now: i64,
) {
    if is_unrelated(failure.kind) {
        return;
    }
    settle(usage, now);
    usage.last_failure_at = Some(now);
    // The wait of an overloaded server is a pause; only a rate limit has a known end.
    let named_wait = failure.retry_after.filter(|_| failure.kind == FailureKind::RateLimit);
    let reset = named_wait
        .map(|wait| i64::try_from(wait.as_millis()).unwrap_or(FURTHEST_RESET).min(FURTHEST_RESET));
    let (scope, length) = match blame(failure.kind) {
        Blame::Unrelated => return,
        Blame::Model => {
            usage.failures = usage.failures.saturating_add(1);
            let of = |window: &ProfileWindow| window.model.as_deref().is_none_or(|of| of == model);
            if usage.windows.iter().any(of) {
                return;
            }
            // A second model fails within the window: the profile is limited, not the model.
            let widens = usage.windows.iter().any(|window| blame(window.reason) == Blame::Model);
            let scope = (!widens).then(|| model.to_owned());
            (scope, reset.unwrap_or_else(|| rung(policy, usage.failures)))
        }
        Blame::Profile => {
            usage.failures = usage.failures.saturating_add(1);
            if usage.windows.iter().any(|window| window.model.is_none()) {
                return;
            }
            (None, rung(policy, usage.failures))
        }
        Blame::Account => {
            if usage.windows.iter().any(|window| blame(window.reason) == Blame::Account) {
                return;
            }
            let (base, cap) = if failure.kind == FailureKind::Billing {
                (policy.billing_base_ms, DAY)
            } else {
                (PERMANENT_BASE, HOUR)
            };
            let doubled = base.saturating_mul(1 << usage.refusals.min(30)).min(cap.max(base));
            usage.refusals = usage.refusals.saturating_add(1);
            (None, doubled)
        }
    };
    let until = now.saturating_add(length);
    usage.windows.push(ProfileWindow { model: scope, reason: failure.kind, from: now, until });
}

/// Records an answer of a profile. An active window stays: the answered request was sent before it.
pub fn answered(usage: &mut ProfileUsage, now: i64) {
    settle(usage, now);
    usage.last_used_at = Some(now);
    if !usage.windows.iter().any(|window| blame(window.reason) == Blame::Account) {
        usage.refusals = 0;
    }
}

/// The active window that blocks a profile for `model` the longest.
pub(crate) fn cooled<'a>(
    usage: &'a ProfileUsage,
    model: &str,
    now: i64,
) -> Option<&'a ProfileWindow> {
    usage
        .windows
        .iter()
        .filter(|window| window.until > now && window.from.saturating_sub(now) <= SKEW)
        .filter(|window| window.model.as_deref().is_none_or(|of| of == model))
        .max_by_key(|window| window.until)
}

fn rung(policy: CooldownPolicy, failures: u32) -> i64 {
    let ladder = if policy.legacy_ladder { LEGACY_LADDER } else { LADDER };
    let at = usize::try_from(failures).unwrap_or(usize::MAX).saturating_sub(1);
    ladder.get(at).or(ladder.last()).copied().unwrap_or(MINUTE)
}

/// A profile that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileCandidate {
    /// The profile's name.
    pub id: String,
    /// The kind of its key.
    pub kind: AuthType,
}

/// The states of all profiles, by name.
pub type ProfileUsages = BTreeMap<String, ProfileUsage>;

/// The candidates in the order of use. `explicit`: in the host's order, with those in cooldown last, soonest first;
/// otherwise by type, then the least recently used first.
pub(crate) fn order<'a>(
    candidates: &'a [ProfileCandidate],
    explicit: bool,
    usages: &ProfileUsages,
    model: &str,
    now: i64,
) -> Vec<&'a ProfileCandidate> {
    let rank = |kind: AuthType| match kind {
        AuthType::Oauth => 0,
        AuthType::Token => 1,
        AuthType::ApiKey | AuthType::Aws => 2,
    };
    let mut ordered: Vec<&ProfileCandidate> = candidates.iter().collect();
    // Stable: equal ones stay in the given order.
    ordered.sort_by_key(|candidate| {
        let usage = usages.get(&candidate.id);
        let until = usage.and_then(|usage| cooled(usage, model, now)).map(|window| window.until);
        // Never used before used, older before newer.
        let last = usage.and_then(|usage| usage.last_used_at);
        let own = if explicit { (0, None) } else { (rank(candidate.kind), last) };
        (until, own)
    });
    ordered
}

#[cfg(test)]
mod tests;
