//! The rate governor: one for all runs of an engine. Calls wait until the rate limits of their provider admit them, in
//! order.
//!
//! `turn/governor` decides. It must never hold a lock while it waits, wait where no limit is known, or queue a call that
//! its run has dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Mutex as Turns, Notify};
use tokio::time::Instant;

use base::clock::Clock;
use model::{
    Failure, FailureKind, InputError, LimitState, ProfileStore, RateLimits, SessionKey, typed,
};
use turn::governor::{Claim, Lane, Local, Next, Priority};
use turn::profiles;
use turn::retry::MAX_RETRY_AFTER;

use super::shared_rate::{Outcome, SharedRate};

/// The maximum number of queues; above it, unused ones are dropped.
const MOST_QUEUES: usize = 1_000;
/// How long what was read of the shared limits is used.
const FRESH_MS: i64 = 500;

/// The options of the rate governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GovernorOptions {
    /// The longest time that headers alone hold back the first call of a queue.
    pub max_wait: Duration,
}

impl GovernorOptions {
    /// Reads `rateGovernor` of the engine's options: `None` where it is off.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
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

/// The key of a queue: what a provider's limits apply to. The order of the fields is the order of `states`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RateKey {
    pub(crate) provider: String,
    /// Empty for none.
    pub(crate) profile: String,
    pub(crate) model: String,
}

impl RateKey {
    pub(crate) fn new(provider: &str, profile: Option<&str>, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            profile: profile.unwrap_or_default().to_owned(),
            model: model.to_owned(),
        }
    }

    /// Its name among all processes.
    fn name(&self) -> String {
        serde_json::json!([self.provider, self.profile, self.model]).to_string()
    }
}

struct Inner {
    lane: Lane,
    /// The waiting calls, by their number.
    waiters: HashMap<u64, Arc<Notify>>,
    /// The first call of the queue, and the time of its next check.
    first: Option<(u64, i64)>,
    /// How often its calls had to choose again.
    dismissals: u64,
    /// When the shared state was read, and until when every call asks there.
    looked_at: Option<i64>,
    near_until: i64,
    /// When the last call was admitted there.
    claimed_at: i64,
}

/// The state of a call in its queue.
enum Position {
    /// It may be sent.
    Admitted,
    /// Its profile was refused.
    Dismissed,
    /// It is first: it checks again at this time, or when something changes.
    First(i64),
    Behind,
}

struct RateQueue {
    inner: Mutex<Inner>,
    /// The limits that all processes share; `None` without a ledger.
    shared: Option<SharedRate>,
    /// The call that asks for its share; others are behind it.
    asking: Turns<()>,
    clock: Clock,
    epoch: Instant,
}

impl RateQueue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        let since = self.clock.instant().saturating_duration_since(self.epoch);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Queues a call. Returns its number, and its waker if it must wait.
    fn enqueue(&self, claim: Claim, input: u64) -> (u64, Option<Arc<Notify>>) {
        let mut inner = self.lock();
        let now = self.now();
        let id = inner.lane.queue(claim, input, now);
        inner.admit_ready(now);
        if inner.lane.is_out(id) {
            return (id, None);
        }
        let waiter = Arc::new(Notify::new());
        inner.waiters.insert(id, Arc::clone(&waiter));
        (id, Some(waiter))
    }

    fn position(&self, id: u64) -> Position {
        let inner = self.lock();
        match inner.first {
            _ if inner.lane.is_out(id) => Position::Admitted,
            _ if !inner.lane.is_waiting(id) => Position::Dismissed,
            Some((first, until)) if first == id => Position::First(until),
            Some(_) | None => Position::Behind,
        }
    }

    /// The call and those beside it, for the other processes.
    fn local(&self, id: u64) -> Option<Local> {
        let inner = self.lock();
        let shared = self.shared.as_ref()?;
        inner.lane.local(id, &shared.process, self.now())
    }

    /// Changes the lane, and admits the calls that may be sent then.
    fn change<T>(&self, change: impl FnOnce(&mut Lane, i64) -> T) -> T {
        let mut inner = self.lock();
        // Read under the lock, so that a lane's time is monotonic.
        let now = self.now();
        let done = change(&mut inner.lane, now);
        inner.admit_ready(now);
        done
    }
}

impl RateQueue {
    /// Whether calls ask for a share of the limits: where this process or, by the state that is read now and then, another one is near
    /// them.
    async fn is_near(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let now = {
            let mut inner = self.lock();
            let now = self.now();
            if inner.lane.is_near(now) || now < inner.near_until {
                return true;
            }
            if inner.looked_at.is_some_and(|at| now < at.saturating_add(FRESH_MS)) {
                return false;
            }
            inner.looked_at = Some(now);
            now
        };
        let is_near = shared.is_near().await;
        if is_near {
            self.lock().near_until = now.saturating_add(FRESH_MS);
        }
        is_near
    }
}

impl Inner {
    /// Admits every call that may be sent, and wakes the first of the queue at its time.
    fn admit_ready(&mut self, now: i64) {
        loop {
            match self.lane.next(now) {
                Next::Go(id) => {
                    if let Some(waiter) = self.waiters.remove(&id) {
                        waiter.notify_one();
                    }
                }
                Next::Wait(id, until) => {
                    if self.first != Some((id, until)) {
                        self.first = Some((id, until));
                        if let Some(waiter) = self.waiters.get(&id) {
                            waiter.notify_one();
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

/// A call's position in the queue, and then its share of the limits. If it is dropped before the call is sent, it costs
/// nothing; after that, it counts at its estimate.
pub(crate) struct RatePermit {
    queue: Option<Arc<RateQueue>>,
    id: u64,
    sent: bool,
    /// What the shared limits had settled when they admitted it.
    claimed: Option<[u64; 4]>,
    /// The shared limits did not admit it in time.
    forced: bool,
    /// The other processes know that it is answered.
    published: AtomicBool,
    /// How long it waited.
    pub(crate) held: Duration,
}

impl RatePermit {
    fn free() -> Self {
        Self::of(None, 0)
    }

    fn of(queue: Option<Arc<RateQueue>>, id: u64) -> Self {
        let (sent, forced, published) = (false, false, AtomicBool::new(false));
        Self { queue, id, sent, claimed: None, forced, published, held: Duration::ZERO }
    }

    /// Records that the request is sent.
    pub(crate) fn sent(&mut self) {
        self.sent = true;
    }

    /// Records the headers of the server's answer.
    pub(crate) fn answered(&self, status: u16, limits: &RateLimits) {
        if let Some(queue) = &self.queue {
            let well = (200..300).contains(&status);
            let is_near = queue.change(|lane, now| {
                lane.answered(self.id, well, limits, now);
                lane.is_near(now)
            });
            if let Some(shared) = &queue.shared
                && (is_near || self.claimed.is_some() || self.forced)
                && let Some(local) = queue.local(self.id)
            {
                self.published.store(true, Ordering::Relaxed);
                shared.answered(local, self.claimed, (well, self.forced), *limits);
            }
        }
    }

    /// Records a failed attempt. A refusal for the rate closes the lane. `keyed`: its profile cools down for it.
    pub(crate) fn failed(&self, failure: &Failure, keyed: bool) {
        let Some(queue) = self.queue.as_ref().filter(|_| failure.kind == FailureKind::RateLimit)
        else {
            return;
        };
        let cooldown = Duration::from_millis(profiles::first_rung().unsigned_abs());
        // The server requests an immediate retry.
        let usual = (keyed && failure.should_retry != Some(true)).then_some(cooldown);
        let wait = failure.retry_after.or(usual);
        queue.change(|lane, now| lane.refused(wait, now));
        if let Some(shared) = &queue.shared {
            shared.refused(wait);
        }
    }

    /// Records the end of the call, with its tokens of prompt and answer, where they are known.
    pub(crate) fn settle(mut self, used: Option<(u64, u64)>) {
        if let Some(queue) = self.queue.take() {
            self.end(&queue, |lane, now| lane.ended(self.id, used, now));
        }
    }
}

impl RatePermit {
    /// The end of the call, for the other processes too if it has their share.
    fn end(&self, queue: &RateQueue, end: impl FnOnce(&mut Lane, i64)) {
        let is_open = self.claimed.is_some() && !self.published.load(Ordering::Relaxed);
        let local = is_open.then(|| queue.local(self.id)).flatten();
        queue.change(end);
        if let (Some(shared), Some(local)) = (&queue.shared, local) {
            shared.ended(local, self.sent);
        }
    }
}

impl Drop for RatePermit {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        self.end(&queue, |lane, now| {
            if self.sent {
                lane.ended(self.id, None, now);
            } else {
                lane.withdrawn(self.id, now);
            }
        });
        queue.lock().waiters.remove(&self.id);
    }
}

/// The queues of an engine.
pub(crate) struct Governor {
    options: Option<GovernorOptions>,
    queues: Mutex<HashMap<RateKey, Arc<RateQueue>>>,
    clock: Clock,
    epoch: Instant,
    store: Option<Arc<dyn ProfileStore>>,
    /// The name of this engine among those that share limits.
    process: String,
}

impl Governor {
    pub(crate) fn new(
        options: Option<GovernorOptions>,
        clock: Clock,
        store: Option<Arc<dyn ProfileStore>>,
    ) -> Self {
        let (epoch, process) = (clock.instant(), clock.new_id());
        Self { options, queues: Mutex::default(), clock, epoch, store, process }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<RateKey, Arc<RateQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, key: RateKey, options: GovernorOptions) -> Arc<RateQueue> {
        let mut queues = self.queues();
        if queues.len() >= MOST_QUEUES && !queues.contains_key(&key) {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1 || !queue.lock().lane.is_idle());
        }
        if let Some(queue) = queues.get(&key) {
            return Arc::clone(queue);
        }
        let inner = Inner {
            lane: Lane::new(options.max_wait),
            waiters: HashMap::new(),
            first: None,
            dismissals: 0,
            looked_at: None,
            near_until: i64::MIN,
            claimed_at: i64::MIN,
        };
        let shared =
            self.store.as_ref().map(|store| SharedRate::new(store, key.name(), &self.process));
        let (clock, epoch, inner) = (self.clock.clone(), self.epoch, Mutex::new(inner));
        let queue = Arc::new(RateQueue { inner, shared, asking: Turns::default(), clock, epoch });
        queues.insert(key, Arc::clone(&queue));
        queue
    }

    /// Waits until a call of about `input` tokens may be sent, and calls `waits` before it does. `None`: its profile was refused meanwhile,
    /// so choose again.
    pub(crate) async fn permit(
        &self,
        key: RateKey,
        claim: impl Into<Claim>,
        input: u64,
        mut waits: impl FnMut() + Send,
    ) -> Option<RatePermit> {
        let Some(options) = self.options else { return Some(RatePermit::free()) };
        let queue = self.queue(key, options);
        let began = self.clock.instant();
        let (id, waiter) = queue.enqueue(claim.into(), input);
        let mut permit = RatePermit::of(Some(Arc::clone(&queue)), id);
        if waiter.is_some() {
            waits();
        }
        while let Some(waiter) = &waiter {
            let at = match queue.position(id) {
                Position::Admitted => break,
                Position::Dismissed => return None,
                Position::Behind => {
                    waiter.notified().await;
                    continue;
                }
                Position::First(until) => self.epoch + Duration::from_millis(until.unsigned_abs()),
            };
            if tokio::time::timeout_at(at, waiter.notified()).await.is_err() {
                queue.change(|_, _| ());
            }
        }
        let admitted = match &queue.shared {
            Some(shared) => self.share(&queue, shared, options.max_wait, &mut permit, &mut waits),
            None => return Some(self.held(permit, waiter.is_some(), began)),
        };
        let has_waited = admitted.await?;
        Some(self.held(permit, waiter.is_some() || has_waited, began))
    }

    fn held(&self, mut permit: RatePermit, has_waited: bool, began: Instant) -> RatePermit {
        if let Some(queue) = &permit.queue {
            queue.change(|lane, now| lane.goes(permit.id, now));
        }
        if has_waited {
            permit.held = self.clock.instant().saturating_duration_since(began);
        }
        permit
    }

    /// Asks for the call's share of the limits of all processes, while these are near (docs/rules/failover.md#shared-limits). Returns
    /// whether it has waited; `None` where the profile was refused meanwhile.
    async fn share(
        &self,
        queue: &RateQueue,
        shared: &SharedRate,
        patience: Duration,
        permit: &mut RatePermit,
        waits: &mut (impl FnMut() + Send),
    ) -> Option<bool> {
        if !queue.is_near().await {
            return Some(false);
        }
        let began = queue.now();
        let dismissals = queue.lock().dismissals;
        let mut has_waited = false;
        let mut wait = |has_waited: &mut bool| {
            if !std::mem::replace(has_waited, true) {
                waits();
            }
        };
        let _first = match queue.asking.try_lock() {
            Ok(first) => first,
            Err(_) => {
                wait(&mut has_waited);
                queue.asking.lock().await
            }
        };
        let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        loop {
            if queue.lock().dismissals != dismissals {
                return None;
            }
            let local = queue.local(permit.id)?;
            match shared.claim(local).await {
                Outcome::Granted(settled) => permit.claimed = Some(settled),
                Outcome::Unknown => {}
                Outcome::Wait(ms) => {
                    let now = queue.now();
                    let until = began.max(queue.lock().claimed_at).saturating_add(patience);
                    if now < until {
                        wait(&mut has_waited);
                        let at = now.saturating_add_unsigned(ms).min(until).unsigned_abs();
                        tokio::time::sleep_until(self.epoch + Duration::from_millis(at)).await;
                        continue;
                    }
                    permit.forced = true;
                }
            }
            queue.lock().claimed_at = queue.now();
            return Some(has_waited);
        }
    }

    /// Whether a call of about `input` tokens with this profile would wait.
    pub(crate) fn is_busy(&self, key: &RateKey, input: u64) -> bool {
        if self.options.is_none() {
            return false;
        }
        let queue = self.queues().get(key).map(Arc::clone);
        queue.is_some_and(|queue| queue.lock().lane.is_busy(input, queue.now()))
    }

    /// Records a failed profile: the calls that wait for it choose again, those of this model or, if the key is refused, all.
    pub(crate) fn dismiss(&self, profile: &str, model: &str, failed: FailureKind) {
        if profiles::is_unrelated(failed) {
            return;
        }
        let any = profiles::refuses_key(failed);
        for queue in self.queues_of(profile, |of| any || of == model) {
            let mut inner = queue.lock();
            let now = queue.now();
            // The lane opens again soon, and a call that returned would wait behind later ones.
            if !any && inner.lane.is_briefly_closed(now) {
                continue;
            }
            inner.first = None;
            inner.dismissals += 1;
            for id in inner.lane.dismiss() {
                if let Some(waiter) = inner.waiters.remove(&id) {
                    waiter.notify_one();
                }
            }
        }
    }

    fn queues_of(&self, profile: &str, model: impl Fn(&str) -> bool) -> Vec<Arc<RateQueue>> {
        let queues = self.queues();
        let found = queues.iter().filter(|(key, _)| key.profile == profile && model(&key.model));
        found.map(|(_, queue)| Arc::clone(queue)).collect()
    }

    /// Resets the limits of a profile.
    pub(crate) fn forget(&self, profile: &str) {
        for queue in self.queues_of(profile, |_| true) {
            queue.change(|lane, _| lane.reopen());
        }
    }

    /// The state of every queue, by provider, profile and model.
    pub(crate) fn states(&self) -> Vec<LimitState> {
        let mut queues: Vec<(RateKey, Arc<RateQueue>)> =
            self.queues().iter().map(|(key, queue)| (key.clone(), Arc::clone(queue))).collect();
        queues.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let state = |(key, queue): (RateKey, Arc<RateQueue>)| {
            let RateKey { provider, profile, model } = key;
            let inner = queue.lock();
            let now = queue.now();
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
        queues.into_iter().map(state).collect()
    }
}

/// The priority of a session's calls.
pub(crate) fn priority_of(session_label: &str) -> Priority {
    let is_worker = SessionKey::parse(session_label).kind.is_worker();
    if is_worker { Priority::Worker } else { Priority::Interactive }
}

#[cfg(test)]
mod tests;
