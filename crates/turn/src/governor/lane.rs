//! Which call is admitted now, and which one waits: the arithmetic of the rate governor, for one lane.
//!
//! A lane is a provider, an auth profile and a model. Its input is the time (milliseconds of any monotonic clock), the
//! limits that answers report, and the estimated and actual cost of calls. It must never hold a call forever: see
//! [`Lane::next`].

use std::collections::HashMap;
use std::time::Duration;

use super::admission::{Admission, Cohort};
use super::call::{Amounts, Claim, KINDS, Local, Next, Sent, Waiting};
use super::meter::Meter;
use super::pace::Pace;
use crate::retry::MAX_RETRY_AFTER;
use model::{RateLimitState, RateLimits};

/// The maximum number of later calls that overtake a call.
pub(super) const OVERTAKEN: u64 = 16;
/// Headers that were proved wrong are ignored for this many milliseconds.
pub(super) const DISTRUST: i64 = 600_000;
/// A served call that would have been admitted within this many milliseconds does not prove headers wrong.
const NEARLY: i64 = 1_000;
/// A probing lane opens again once this many calls may be unanswered at the same time and no more are queued.
const WIDE: u32 = 64;
/// A lane probes for at least this many milliseconds. The calls that were refused together return one by one; a lane that
/// opens for the first of them would send all the others into the next refusal.
pub(super) const SETTLING: i64 = 5_000;
/// For this many milliseconds a call on its last request yields to the others.
pub(super) const YIELDING: i64 = 30_000;
/// After a refusal, a call on its last request waits this many milliseconds for others to try first.
const HESITATION: i64 = 500;
/// From this many refusals on, several calls were refused: a single call reaches its last request with fewer.
const CROWD: u32 = 3;
/// For this many milliseconds after a refusal, a call on its last request is sent alone, and only once the wait that the
/// refusal reported has passed since the previous call. If that wait is right, the call is served. After each further period
/// of this length half the wait is enough: a crowd that returns one by one takes longer than one period, and the calls that
/// are left must not return all together.
const RECENT: i64 = 60_000;
/// A lane that closes for at most this many milliseconds retains its queue: another profile would not be faster.
const SHORT_CLOSING: i64 = 2_000;
/// A limit is near below one part in so many of it, while so many other processes send as many calls as this one.
const MARGIN: u64 = 5;
const PROCESSES: u64 = 3;

/// The calls of one provider, profile and model, and their known limits.
#[derive(Debug)]
pub struct Lane {
    meters: [Option<Meter>; KINDS],
    /// Whether the answer to a served call has reported each unit.
    followed: [bool; KINDS],
    /// All units ever sent, and those that answers have settled.
    sent: Amounts,
    settled: Amounts,
    pub(super) waiting: Vec<Waiting>,
    out: HashMap<u64, Sent>,
    ids: u64,
    admitted: u64,
    last_admission: i64,
    /// The expected tokens of an answer, by the last ones.
    answer: u64,
    admission: Admission,
    /// When calls were admitted again after the last refusal.
    reopened: i64,
    cohort: Option<Cohort>,
    /// The number of refused calls since the lane was open.
    refusals: u32,
    /// The time of the last refusal, and for how long no call could be sent after it.
    closing: Option<(i64, i64)>,
    pace: Pace,
    /// Headers are used from this time on.
    believed: i64,
    /// The longest time that headers alone hold back the first of the queue, in milliseconds.
    patience: i64,
}

impl Lane {
    /// A lane in which headers hold a call back for `patience` at most.
    pub fn new(patience: Duration) -> Self {
        Self {
            meters: [None; KINDS],
            followed: [false; KINDS],
            sent: [0; KINDS],
            settled: [0; KINDS],
            waiting: Vec::new(),
            out: HashMap::new(),
            ids: 0,
            admitted: 0,
            last_admission: i64::MIN,
            answer: 0,
            admission: Admission::Open,
            reopened: i64::MIN,
            cohort: None,
            refusals: 0,
            closing: None,
            pace: Pace::default(),
            believed: i64::MIN,
            patience: i64::try_from(patience.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// Queues a call of `input` tokens, and returns its number.
    pub fn queue(&mut self, claim: impl Into<Claim>, input: u64, now: i64) -> u64 {
        self.ids = self.ids.wrapping_add(1);
        let id = self.ids;
        self.waiting.push(Waiting {
            id,
            claim: claim.into(),
            input,
            queued_at: now,
            admitted_before: self.admitted,
        });
        id
    }

    /// Which call is admitted, or until when the first of the queue waits. Order: priority, then arrival. A call that
    /// `OVERTAKEN` others have overtaken is before all later ones. A call on its last request is after all others for
    /// `YIELDING`, so that no call is refused for the last time before all in its queue were refused as often. Headers hold
    /// back the first of the queue for the lane's patience at most, counted from the last admission; a refusal holds it back
    /// for [`MAX_RETRY_AFTER`] at most.
    pub fn next(&mut self, now: i64) -> Next {
        let admitted = self.admitted;
        let rank = |it: &Waiting| {
            let yields = it.claim.last && now < it.queued_at.saturating_add(YIELDING);
            let overdue = admitted.saturating_sub(it.admitted_before) >= OVERTAKEN;
            (yields, (!overdue).then_some(it.claim.priority), it.id)
        };
        let first = self.waiting.iter().enumerate().min_by_key(|(_, it)| rank(it));
        let Some((position, first)) = first else { return Next::Idle };
        let (id, queued_at, cost, last) =
            (first.id, first.queued_at, self.cost(first.input), first.claim.last);
        let forced = queued_at.max(self.last_admission).saturating_add(self.patience);
        if let Admission::Closed(until) = self.admission {
            if now < until {
                return Next::Wait(id, until);
            }
            self.admission = Admission::Probing(self.reopening());
            self.reopened = now;
        }
        let (probe, held) = match self.admission {
            Admission::Open | Admission::Closed(_) => (false, false),
            Admission::Probing(most) => (true, self.probing() >= most),
        };
        // No other call uses up the limit that a last request has waited for.
        let mut under_way = self.out.values().filter(|it| !it.answered);
        let alone = last.then(|| self.spacing(now)).flatten();
        let held = held || under_way.any(|it| it.last || alone.is_some());
        let spaced = alone.map_or(now, |wait| self.last_admission.saturating_add(wait));
        let allowed_at = self.allowed_at(cost, now);
        let due =
            if held { forced } else { allowed_at.max(self.pace.due(now)).max(spaced).min(forced) };
        // It may be the first to return of all that were refused together. If it alone was refused, no other returns.
        let due = if probe && last && self.refusals >= CROWD {
            due.max(queued_at.saturating_add(HESITATION))
        } else {
            due
        };
        if due > now {
            return Next::Wait(id, due);
        }
        self.waiting.remove(position);
        for (meter, cost) in self.meters.iter_mut().zip(cost) {
            if let Some(meter) = meter {
                meter.take(cost, now);
            }
        }
        add(&mut self.sent, cost);
        self.admitted = self.admitted.wrapping_add(1);
        self.last_admission = now;
        self.pace.admitted(now);
        let (settled, forced) = (self.settled, allowed_at > now.saturating_add(NEARLY));
        let sent = Sent {
            cost,
            settled,
            at: now,
            answered: false,
            on_its_way: false,
            forced,
            probe,
            last,
        };
        self.out.insert(id, sent);
        Next::Go(id)
    }

    /// The pause before a call on its last request, while it is sent alone.
    fn spacing(&self, now: i64) -> Option<i64> {
        let (at, wait) = self.closing?;
        let periods = now.saturating_sub(at) / RECENT;
        let wait = wait >> periods.clamp(0, 62);
        (periods == 0 || wait > 0).then_some(wait)
    }

    /// How many calls may be under way after a refusal: one, as a probe. A server that refuses at random shows no limit: its
    /// refusals change neither the width nor the pace.
    fn reopening(&mut self) -> u32 {
        match self.cohort.take().filter(Cohort::is_lone) {
            Some(Cohort { width, pace, .. }) => {
                self.pace.restore(pace);
                width
            }
            None => 1,
        }
    }

    /// The time at which the limits allow a call.
    fn allowed_at(&self, cost: Amounts, now: i64) -> i64 {
        self.meters
            .iter()
            .zip(cost)
            .filter_map(|(meter, cost)| Some(meter.as_ref()?.due(cost, now)))
            .fold(now, i64::max)
    }

    fn cost(&self, input: u64) -> Amounts {
        [1, input.saturating_add(self.answer), input, self.answer]
    }

    fn probing(&self) -> u32 {
        let out = self.out.values().filter(|it| it.probe && !it.answered).count();
        u32::try_from(out).unwrap_or(u32::MAX)
    }

    /// Whether a call of `input` tokens would wait.
    pub fn is_busy(&self, input: u64, now: i64) -> bool {
        let held = match self.admission {
            Admission::Open => false,
            Admission::Closed(until) => now < until,
            Admission::Probing(most) => self.probing() >= most,
        };
        let due = self.allowed_at(self.cost(input), now).max(self.pace.due(now));
        held || !self.waiting.is_empty() || due > now
    }

    /// Whether the call is in the queue.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.waiting.iter().any(|it| it.id == id)
    }

    /// Whether the call was admitted and has not ended.
    pub fn is_out(&self, id: u64) -> bool {
        self.out.contains_key(&id)
    }

    /// Whether a limit is so near, or a refusal so recent, that the processes must agree about each call.
    pub fn is_near(&self, now: i64) -> bool {
        let unanswered = self.unanswered();
        let low = |(meter, units): (&Option<Meter>, u64)| {
            meter.is_some_and(|meter| meter.is_below(MARGIN, [PROCESSES, units], now))
        };
        self.admission != Admission::Open || self.meters.iter().zip(unanswered).any(low)
    }

    fn unanswered(&self) -> Amounts {
        let mut sum = [0; KINDS];
        let on_their_way = self.out.values().filter(|it| it.on_its_way && !it.answered);
        on_their_way.for_each(|it| add(&mut sum, it.cost));
        sum
    }

    /// The other processes have admitted the call, or need not be asked.
    pub fn goes(&mut self, id: u64, now: i64) {
        if let Some(call) = self.out.get_mut(&id) {
            (call.on_its_way, call.at) = (true, now);
        }
    }

    /// What other processes learn of a call under way, and of the calls beside it.
    pub fn local(&self, id: u64, process: &str, now: i64) -> Option<Local> {
        let call = self.out.get(&id)?;
        let (mut others, mut meters, cost) = (self.unanswered(), self.meters, call.cost);
        if call.on_its_way && !call.answered {
            for (other, cost) in others.iter_mut().zip(cost) {
                *other = other.saturating_sub(cost);
            }
        }
        // The calls that wait for the other processes have taken their share here only.
        for other in self.out.values().filter(|it| !it.answered) {
            if other.on_its_way && !std::ptr::eq(other, call) {
                continue;
            }
            for (meter, cost) in meters.iter_mut().zip(other.cost) {
                if let Some(meter) = meter {
                    meter.untake(cost, now);
                }
            }
        }
        Some(Local { process: process.to_owned(), cost, others, meters, now, sent_at: call.at })
    }

    /// Whether no call waits and none is under way.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.out.is_empty()
    }

    /// The server has sent the headers of a call's answer, with these limits. `well`: it did not refuse.
    pub fn answered(&mut self, id: u64, well: bool, limits: &RateLimits, now: i64) {
        let Some(call) = self.out.get_mut(&id) else { return };
        if std::mem::replace(&mut call.answered, true) {
            return;
        }
        let Sent { cost, settled, at, forced, probe, .. } = *call;
        let [requests, _, input, _] = cost;
        add(&mut self.settled, [requests, 0, input, 0]);
        if well {
            self.pace.served();
            if let Some(cohort) = &mut self.cohort {
                cohort.served = cohort.served.saturating_add(1);
            }
        }
        if well && forced {
            // The call was served although the headers had reported no capacity.
            self.meters = [None; KINDS];
            self.believed = now.saturating_add(DISTRUST);
        }
        if let Admission::Probing(most) = self.admission
            && well
            && probe
        {
            // One more for each answer: the number doubles each round.
            let wider = most.saturating_add(1);
            // An open lane would admit all waiting calls together.
            let few = self.waiting.len() <= usize::try_from(WIDE).unwrap_or(usize::MAX);
            let over = self.waiting.is_empty() && self.probing() == 0;
            let settled = now.saturating_sub(self.reopened) >= SETTLING;
            let done = settled && ((wider >= WIDE && few) || over);
            if done {
                self.refusals = 0;
            }
            self.admission = if done { Admission::Open } else { Admission::Probing(wider) };
        }
        if now < self.believed {
            return;
        }
        let reported = [limits.requests, limits.tokens, limits.input, limits.output];
        // What the server has already counted for this call when it reports.
        let counted = [requests, input, input, 0];
        for (kind, reported) in reported.into_iter().enumerate() {
            let part = |of: &Amounts| of.get(kind).copied().unwrap_or_default();
            let others = part(&self.sent).saturating_sub(part(&settled));
            let others = others.saturating_sub(part(&counted));
            let (Some(meter), Some(followed)) =
                (self.meters.get_mut(kind), self.followed.get_mut(kind))
            else {
                continue;
            };
            *followed |= well && reported.is_some();
            match (reported, &mut *meter) {
                (Some(reported), Some(meter)) => meter.update(reported, at, others, now),
                (Some(reported), None) => *meter = Meter::of(reported, others, now),
                // Only refusals report it, so that its refill cannot be tracked.
                (None, Some(_)) if well && !*followed => *meter = None,
                (None, Some(_) | None) => {}
            }
        }
    }

    /// A call was refused for its rate: no call is admitted for this time, and then one as a probe.
    pub fn refused(&mut self, wait: Option<Duration>, now: i64) {
        let wait = wait.filter(|wait| *wait <= MAX_RETRY_AFTER).unwrap_or_default();
        let until = now.saturating_add(i64::try_from(wait.as_millis()).unwrap_or_default());
        let until = match self.admission {
            Admission::Closed(known) => known.max(until),
            Admission::Open | Admission::Probing(_) => {
                let width = if let Admission::Probing(most) = self.admission { most } else { WIDE };
                let pace = self.pace.clone();
                self.cohort = Some(Cohort { served: 0, refused: 0, width, pace });
                self.pace.refused(now);
                until
            }
        };
        self.closing = Some((now, until.saturating_sub(now)));
        self.refusals = self.refusals.saturating_add(1);
        if let Some(cohort) = &mut self.cohort {
            cohort.refused = cohort.refused.saturating_add(1);
        }
        self.admission = Admission::Closed(until);
    }

    /// Forgets all limits and refusals of the lane.
    pub fn reopen(&mut self) {
        self.admission = Admission::Open;
        self.pace = Pace::default();
        (self.cohort, self.refusals) = (None, 0);
        self.meters = [None; KINDS];
        self.followed = [false; KINDS];
    }

    /// A call has ended, with its actual tokens of prompt and answer, where they are known.
    pub fn ended(&mut self, id: u64, used: Option<(u64, u64)>, now: i64) {
        // A call without headers counts as answered when it ends, and reports no limits.
        self.answered(id, used.is_some(), &RateLimits::default(), now);
        let Some(call) = self.out.remove(&id) else { return };
        let [_, tokens, _, output] = call.cost;
        add(&mut self.settled, [0, tokens, 0, output]);
        let Some((input, output)) = used else { return };
        let came_to = [1, input.saturating_add(output), input, output];
        for (meter, (cost, used)) in self.meters.iter_mut().zip(call.cost.into_iter().zip(came_to))
        {
            if let Some(meter) = meter {
                meter.give(i128::from(cost) - i128::from(used), now);
            }
        }
        self.answer = match self.answer {
            0 => output,
            known => known.saturating_mul(3).saturating_add(output) / 4,
        };
    }

    /// A call leaves the queue, or is cancelled before it was sent. It costs nothing.
    pub fn withdrawn(&mut self, id: u64, now: i64) {
        self.waiting.retain(|it| it.id != id);
        let Some(call) = self.out.remove(&id) else { return };
        add(&mut self.settled, call.cost);
        for (meter, cost) in self.meters.iter_mut().zip(call.cost) {
            if let Some(meter) = meter {
                meter.untake(cost, now);
            }
        }
    }

    /// Empties the queue, so that its calls choose again.
    pub fn dismiss(&mut self) -> Vec<u64> {
        self.waiting.drain(..).map(|it| it.id).collect()
    }

    /// Whether the lane is closed for a short time only, so that its queue stays.
    pub fn is_briefly_closed(&self, now: i64) -> bool {
        match self.admission {
            Admission::Closed(until) => until.saturating_sub(now) <= SHORT_CLOSING,
            Admission::Open | Admission::Probing(_) => false,
        }
    }

    /// The limits in the order of [`RateLimits`].
    pub fn limits(&self, now: i64) -> [Option<RateLimitState>; KINDS] {
        self.meters.map(|meter| meter.map(|meter| meter.state(now)))
    }

    /// Calls under way, waiting calls, and for how long none is admitted.
    pub fn counts(&self, now: i64) -> (usize, usize, i64) {
        let closed = match self.admission {
            Admission::Closed(until) => until.saturating_sub(now).max(0),
            Admission::Open | Admission::Probing(_) => 0,
        };
        (self.out.len(), self.waiting.len(), closed)
    }
}

fn add(sums: &mut Amounts, more: Amounts) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}
