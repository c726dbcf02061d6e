//! The rate governor: one for all runs of an engine. It holds calls back until their provider has room for them, and lets
//! them go in order.
//!
//! It does what `turn/governor` says. It must never hold a lock while it waits, wait where nothing is known, or keep a call
//! that its run has given up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

use base::clock::Clock;
use model::{
    Failure, FailureKind, InputError, LimitState, RateLimits, SessionKey, SessionKind, typed,
};
use turn::governor::{Claim, Lane, Next, Priority};
use turn::profiles;
use turn::retry::MAX_RETRY_AFTER;

/// Lanes that are kept; past it, those that nobody uses are forgotten.
const MOST_LANES: usize = 1_000;

/// How calls are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GovernorOptions {
    /// The longest that headers alone hold back the first in line.
    pub max_wait: Duration,
}

impl GovernorOptions {
    /// Reads `rateGovernor` of the engine's options: `None` where it is off.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        struct Fields {
            max_wait_ms: Option<u64>,
        }
        let fields = match raw.map(RawValue::get) {
            None | Some("null" | "true") => Fields::default(),
            Some("false") => return Ok(None),
            Some(text) if text.starts_with('{') => match raw {
                Some(raw) => typed("rateGovernor", raw)?,
                None => Fields::default(),
            },
            Some(_) => {
                let message = "is neither true or false nor an object with `maxWaitMs`";
                return Err(InputError::new("rateGovernor", message));
            }
        };
        let max_wait = fields.max_wait_ms.map_or(MAX_RETRY_AFTER, Duration::from_millis);
        if max_wait > MAX_RETRY_AFTER {
            let most = MAX_RETRY_AFTER.as_millis();
            return Err(InputError::new(
                "rateGovernor.maxWaitMs",
                format!("`{}` is too long; pass 0 to {most} milliseconds", max_wait.as_millis()),
            ));
        }
        Ok(Some(Self { max_wait }))
    }
}

/// Who is asked, with which profile: provider, profile (empty for none), model.
type Name = (String, String, String);

struct Inner {
    lane: Lane,
    /// How those that wait are woken.
    bells: HashMap<u64, Arc<Notify>>,
    /// Who was told to look at the clock, and when.
    first: Option<(u64, i64)>,
}

/// Where a call stands.
enum Place {
    /// It may go.
    Gone,
    /// Its profile was refused.
    Dismissed,
    /// It is first, until this time, or until something happens.
    First(i64),
    Behind,
}

struct Gate {
    inner: Mutex<Inner>,
    clock: Clock,
    epoch: Instant,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        let since = self.clock.instant().saturating_duration_since(self.epoch);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// A call stands in line. Its number, and how it is woken where it has to wait.
    fn stand(&self, claim: Claim, input: u64) -> (u64, Option<Arc<Notify>>) {
        let mut inner = self.lock();
        let now = self.now();
        let id = inner.lane.ask(claim, input, now);
        inner.let_go(now);
        if inner.lane.is_out(id) {
            return (id, None);
        }
        let bell = Arc::new(Notify::new());
        inner.bells.insert(id, Arc::clone(&bell));
        (id, Some(bell))
    }

    fn place(&self, id: u64) -> Place {
        let inner = self.lock();
        match inner.first {
            _ if inner.lane.is_out(id) => Place::Gone,
            _ if !inner.lane.is_waiting(id) => Place::Dismissed,
            Some((first, until)) if first == id => Place::First(until),
            Some(_) | None => Place::Behind,
        }
    }

    /// Changes the lane, and wakes whoever may go by it.
    fn change<T>(&self, change: impl FnOnce(&mut Lane, i64) -> T) -> T {
        let mut inner = self.lock();
        // Read under the lock, so that a lane's time never goes back.
        let now = self.now();
        let done = change(&mut inner.lane, now);
        inner.let_go(now);
        done
    }
}

impl Inner {
    /// Lets go whoever may, and has the first in line look at the clock.
    fn let_go(&mut self, now: i64) {
        loop {
            match self.lane.next(now) {
                Next::Go(id) => {
                    if let Some(bell) = self.bells.remove(&id) {
                        bell.notify_one();
                    }
                }
                Next::Wait(id, until) => {
                    if self.first != Some((id, until)) {
                        self.first = Some((id, until));
                        if let Some(bell) = self.bells.get(&id) {
                            bell.notify_one();
                        }
                    }
                    return;
                }
                Next::Idle => {
                    self.first = None;
                    return;
                }
            }
        }
    }
}

/// A call's place in line, and from then on its share of the limits. Dropped before it is sent, it costs nothing; after, it
/// counts as it was estimated.
pub(crate) struct Pass {
    gate: Option<Arc<Gate>>,
    id: u64,
    sent: bool,
    /// How long it was held back.
    pub(crate) held: Duration,
}

impl Pass {
    fn free() -> Self {
        Self { gate: None, id: 0, sent: false, held: Duration::ZERO }
    }

    /// The request goes out.
    pub(crate) fn sent(&mut self) {
        self.sent = true;
    }

    /// The server has begun to answer.
    pub(crate) fn answered(&self, status: u16, limits: &RateLimits) {
        if let Some(gate) = &self.gate {
            let well = (200..300).contains(&status);
            gate.change(|lane, now| lane.answered(self.id, well, limits, now));
        }
    }

    /// The attempt failed. A refusal for the rate closes the lane: `keyed` says that its profile cools down for it.
    pub(crate) fn failed(&self, failure: &Failure, keyed: bool) {
        let Some(gate) = self.gate.as_ref().filter(|_| failure.kind == FailureKind::RateLimit)
        else {
            return;
        };
        let rung = Duration::from_millis(profiles::first_rung().unsigned_abs());
        // Whoever is told to try again at once is not kept from it.
        let usual = (keyed && failure.should_retry != Some(true)).then_some(rung);
        let wait = failure.retry_after.or(usual);
        gate.change(|lane, now| lane.refused(wait, now));
    }

    /// The call has ended, and came to so many tokens, prompt and answer, where that is known.
    pub(crate) fn settle(mut self, used: Option<(u64, u64)>) {
        if let Some(gate) = self.gate.take() {
            gate.change(|lane, now| lane.ended(self.id, used, now));
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(gate) = self.gate.take() else { return };
        gate.change(|lane, now| {
            if self.sent {
                lane.ended(self.id, None, now);
            } else {
                lane.withdrawn(self.id, now);
            }
        });
        gate.lock().bells.remove(&self.id);
    }
}

/// The lanes of an engine.
pub(crate) struct Governor {
    options: Option<GovernorOptions>,
    lanes: Mutex<HashMap<Name, Arc<Gate>>>,
    clock: Clock,
    epoch: Instant,
}

impl Governor {
    pub(crate) fn new(options: Option<GovernorOptions>, clock: Clock) -> Self {
        let epoch = clock.instant();
        Self { options, lanes: Mutex::default(), clock, epoch }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Name, Arc<Gate>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self, name: Name, options: GovernorOptions) -> Arc<Gate> {
        let mut lanes = self.lanes();
        if lanes.len() >= MOST_LANES && !lanes.contains_key(&name) {
            lanes.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.lock().lane.is_idle());
        }
        let gate = lanes.entry(name).or_insert_with(|| {
            let inner =
                Inner { lane: Lane::new(options.max_wait), bells: HashMap::new(), first: None };
            let (clock, epoch) = (self.clock.clone(), self.epoch);
            Arc::new(Gate { inner: Mutex::new(inner), clock, epoch })
        });
        Arc::clone(gate)
    }

    /// Waits until a call of about `input` tokens may go. `None`: its profile was refused meanwhile, so choose anew.
    pub(crate) async fn pass(
        &self,
        (provider, profile, model): (&str, Option<&str>, &str),
        claim: impl Into<Claim>,
        input: u64,
    ) -> Option<Pass> {
        let Some(options) = self.options else { return Some(Pass::free()) };
        let profile = profile.unwrap_or_default();
        let gate = self.gate((provider.to_owned(), profile.to_owned(), model.to_owned()), options);
        let began = self.clock.instant();
        let (id, bell) = gate.stand(claim.into(), input);
        let mut pass =
            Pass { gate: Some(Arc::clone(&gate)), id, sent: false, held: Duration::ZERO };
        let Some(bell) = bell else { return Some(pass) };
        loop {
            let at = match gate.place(id) {
                Place::Gone => break,
                Place::Dismissed => return None,
                Place::Behind => {
                    bell.notified().await;
                    continue;
                }
                Place::First(until) => self.epoch + Duration::from_millis(until.unsigned_abs()),
            };
            if tokio::time::timeout_at(at, bell.notified()).await.is_err() {
                gate.change(|_, _| ());
            }
        }
        pass.held = self.clock.instant().saturating_duration_since(began);
        Some(pass)
    }

    /// Whether a call of about `input` tokens with this profile would wait.
    pub(crate) fn is_busy(&self, provider: &str, profile: &str, model: &str, input: u64) -> bool {
        if self.options.is_none() {
            return false;
        }
        let name = (provider.to_owned(), profile.to_owned(), model.to_owned());
        let gate = self.lanes().get(&name).map(Arc::clone);
        gate.is_some_and(|gate| gate.lock().lane.is_busy(input, gate.now()))
    }

    /// A profile has failed: whoever waits for it chooses anew, with this model or, where the key is refused, with any.
    pub(crate) fn dismiss(&self, profile: &str, model: &str, failed: FailureKind) {
        if profiles::is_nobodys(failed) {
            return;
        }
        let any = profiles::refuses_key(failed);
        for gate in self.gates_of(profile, |of| any || of == model) {
            let mut inner = gate.lock();
            let now = gate.now();
            // Soon there is room again, and who comes back would stand behind those that came later.
            if !any && inner.lane.is_briefly_closed(now) {
                continue;
            }
            inner.first = None;
            for id in inner.lane.dismiss() {
                if let Some(bell) = inner.bells.remove(&id) {
                    bell.notify_one();
                }
            }
        }
    }

    fn gates_of(&self, profile: &str, model: impl Fn(&str) -> bool) -> Vec<Arc<Gate>> {
        let lanes = self.lanes();
        let found = lanes.iter().filter(|((_, of, name), _)| of == profile && model(name));
        found.map(|(_, gate)| Arc::clone(gate)).collect()
    }

    /// What was said of a profile's limits is forgotten.
    pub(crate) fn forget(&self, profile: &str) {
        for gate in self.gates_of(profile, |_| true) {
            gate.change(|lane, _| lane.reopen());
        }
    }

    /// What is known of every lane, by provider, profile and model.
    pub(crate) fn states(&self) -> Vec<LimitState> {
        let mut gates: Vec<(Name, Arc<Gate>)> =
            self.lanes().iter().map(|(name, gate)| (name.clone(), Arc::clone(gate))).collect();
        gates.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let state = |((provider, profile, model), gate): (Name, Arc<Gate>)| {
            let inner = gate.lock();
            let now = gate.now();
            let [requests, tokens, input, output] = inner.lane.limits(now);
            let (in_flight, waiting, closed) = inner.lane.counts(now);
            LimitState {
                provider,
                profile_id: (!profile.is_empty()).then_some(profile),
                model,
                requests,
                tokens,
                input,
                output,
                in_flight: small(in_flight),
                waiting: small(waiting),
                closed_for_ms: closed.unsigned_abs(),
            }
        };
        gates.into_iter().map(state).collect()
    }
}

/// How soon the calls of a session go.
pub(crate) fn priority_of(session_label: &str) -> Priority {
    match SessionKey::parse(session_label).kind {
        SessionKind::Worker | SessionKind::Subagent => Priority::Worker,
        SessionKind::Main
        | SessionKind::Dm
        | SessionKind::Group
        | SessionKind::Fork
        | SessionKind::System
        | SessionKind::Unknown => Priority::Interactive,
    }
}

#[cfg(test)]
mod tests;
