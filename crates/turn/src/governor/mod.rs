//! Which call of a model goes now, and which one waits: the rate governor's arithmetic, for one lane.
//!
//! A lane is a provider, an auth profile and a model. It is told the time (milliseconds of any clock that never goes back),
//! what answers said of limits, and what calls will cost and have cost. It must never hold a call for ever: see
//! [`Lane::next`].

mod meter;
mod pace;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use super::retry::MAX_RETRY_AFTER;
use meter::Meter;
use model::{RateLimitState, RateLimits};
use pace::Pace;

/// A call is overtaken by so many that came after it, and by no more.
const OVERTAKEN: u64 = 16;
/// Headers that were proved wrong are not believed for so long.
const DISBELIEF: i64 = 600_000;
/// What had room within so many milliseconds proves nobody wrong.
const NEARLY: i64 = 1_000;
/// With so many calls at once unanswered, and no more in line, a lane that was refused counts as open again.
const WIDE: u32 = 64;
/// A refusal is a lone one where so many of the calls that were under way with it were served, and so many for each refused.
const LONE: u32 = 4;
/// But not before so many milliseconds: those that were refused with it come back one by one, and a door that opens for the
/// first of them would let all the others run into the next refusal.
const SETTLING: i64 = 5_000;
/// So long a call that one more refusal would end lets others go before it, in milliseconds.
const ASIDE: i64 = 30_000;
/// After a refusal it waits so long for others to come and try before it does.
const HESITATION: i64 = 500;
/// A call alone has been refused less often before its last request.
const CROWD: u32 = 3;
/// So long after a refusal such a call goes alone, and the time that the refusal gave after the call before it: who is told
/// the truth is served then.
const RECENT: i64 = 60_000;
/// A lane that closes for no longer than so many milliseconds keeps its line: who goes elsewhere would win nothing.
const SHORT_CLOSING: i64 = 2_000;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits for the answer.
    Interactive,
    /// A worker's or a subagent's session.
    Worker,
    /// A summary.
    Compaction,
}

/// How a call stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Which of two waiting calls goes first.
    pub priority: Priority,
    /// One more refusal would end it.
    pub last: bool,
}

impl From<Priority> for Claim {
    fn from(priority: Priority) -> Self {
        Self { priority, last: false }
    }
}

/// What is counted: requests, tokens, tokens of prompts, tokens of answers.
const KINDS: usize = 4;
type Amounts = [u64; KINDS];

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    id: u64,
    claim: Claim,
    input: u64,
    came: i64,
    /// Calls that had gone when it came.
    after: u64,
}

/// A call that went.
#[derive(Debug)]
struct Sent {
    cost: Amounts,
    /// What the answers before it had settled.
    settled: Amounts,
    at: i64,
    answered: bool,
    /// It went although the limits, as they were told, had no room.
    forced: bool,
    /// It went after a refusal, to see whether there is room again.
    probe: bool,
    /// One more refusal would end it.
    last: bool,
}

/// Whether calls go at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    /// None goes before this time.
    Closed(i64),
    /// After a refusal: so many may be unanswered at once.
    Ajar(u32),
}

/// What came of the calls that were under way when one was refused: where a limit is reached, those are refused as well.
#[derive(Debug)]
struct Burst {
    served: u32,
    refused: u32,
    /// How many could be unanswered at once.
    width: u32,
    /// The pace until then.
    pace: Pace,
}

impl Burst {
    fn is_lone(&self) -> bool {
        self.served >= self.refused.saturating_mul(LONE)
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This call goes now; ask again.
    Go(u64),
    /// This call is first, and waits until this time, or for an answer.
    Wait(u64, i64),
    /// Nobody waits.
    Idle,
}

/// The calls of one provider, profile and model, and what is known of their limits.
#[derive(Debug)]
pub struct Lane {
    meters: [Option<Meter>; KINDS],
    /// Whether a call that was served has told of each.
    followed: [bool; KINDS],
    /// All that was ever sent, and what of it answers have settled.
    sent: Amounts,
    settled: Amounts,
    waiting: Vec<Waiting>,
    out: HashMap<u64, Sent>,
    ids: u64,
    gone: u64,
    last_go: i64,
    /// Tokens of an answer, as the last ones were.
    answer: u64,
    door: Door,
    /// Since when calls go again after the last refusal.
    reopened: i64,
    burst: Option<Burst>,
    /// Calls that were refused since the door was open.
    refusals: u32,
    /// When the last one was, and for how long nothing was to go.
    closing: Option<(i64, i64)>,
    pace: Pace,
    /// Headers are believed from this time on.
    believed: i64,
    /// The longest that headers alone hold back the first in line, in milliseconds.
    patience: i64,
}

impl Lane {
    /// A lane whose calls wait for `patience` at most.
    pub fn new(patience: Duration) -> Self {
        Self {
            meters: [None; KINDS],
            followed: [false; KINDS],
            sent: [0; KINDS],
            settled: [0; KINDS],
            waiting: Vec::new(),
            out: HashMap::new(),
            ids: 0,
            gone: 0,
            last_go: i64::MIN,
            answer: 0,
            door: Door::Open,
            reopened: i64::MIN,
            burst: None,
            refusals: 0,
            closing: None,
            pace: Pace::default(),
            believed: i64::MIN,
            patience: i64::try_from(patience.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// A call of `input` tokens stands in line. Its number is for all that follows.
    pub fn ask(&mut self, claim: impl Into<Claim>, input: u64, now: i64) -> u64 {
        self.ids = self.ids.wrapping_add(1);
        let (id, came, after) = (self.ids, now, self.gone);
        self.waiting.push(Waiting { id, claim: claim.into(), input, came, after });
        id
    }

    /// Who goes, or until when the first in line waits. Priorities first, then who came first; but a call that
    /// [`OVERTAKEN`] others have passed comes before all that came later, and one that a refusal would end after all
    /// others, for as long as [`ASIDE`]: so that no call is refused for the last time before all in its line were refused as
    /// often. Headers hold the first in line no longer than the
    /// lane's patience since the last call went; a refusal no longer than [`MAX_RETRY_AFTER`].
    pub fn next(&mut self, now: i64) -> Next {
        let gone = self.gone;
        let rank = |it: &Waiting| {
            let aside = it.claim.last && now < it.came.saturating_add(ASIDE);
            let overdue = gone.saturating_sub(it.after) >= OVERTAKEN;
            (aside, (!overdue).then_some(it.claim.priority), it.id)
        };
        let first = self.waiting.iter().enumerate().min_by_key(|(_, it)| rank(it));
        let Some((place, first)) = first else { return Next::Idle };
        let (id, came, cost, last) =
            (first.id, first.came, self.cost(first.input), first.claim.last);
        let forced = came.max(self.last_go).saturating_add(self.patience);
        if let Door::Closed(until) = self.door {
            if now < until {
                return Next::Wait(id, until);
            }
            self.door = Door::Ajar(self.reopening());
            self.reopened = now;
        }
        let (probe, held) = match self.door {
            Door::Open | Door::Closed(_) => (false, false),
            Door::Ajar(most) => (true, self.probing() >= most),
        };
        // Nobody takes the room that it has waited for.
        let mut under_way = self.out.values().filter(|it| !it.answered);
        let alone = self.closing.filter(|(at, _)| last && now.saturating_sub(*at) < RECENT);
        let held = held || under_way.any(|it| it.last || alone.is_some());
        let spaced = alone.map_or(now, |(_, wait)| self.last_go.saturating_add(wait));
        let room = self.room(cost, now);
        let due = if held { forced } else { room.max(self.pace.when(now)).max(spaced).min(forced) };
        // Of all that were refused together it may be the first to come back. Where nobody else was, nobody comes.
        let due = if probe && last && self.refusals >= CROWD {
            due.max(came.saturating_add(HESITATION))
        } else {
            due
        };
        if due > now {
            return Next::Wait(id, due);
        }
        self.waiting.remove(place);
        for (meter, cost) in self.meters.iter_mut().zip(cost) {
            if let Some(meter) = meter {
                meter.take(cost, now);
            }
        }
        add(&mut self.sent, cost);
        self.gone = self.gone.wrapping_add(1);
        self.last_go = now;
        self.pace.went(now);
        let (settled, forced) = (self.settled, room > now.saturating_add(NEARLY));
        let sent = Sent { cost, settled, at: now, answered: false, forced, probe, last };
        self.out.insert(id, sent);
        Next::Go(id)
    }

    /// How many may go at once after a refusal: one, to see; but who refuses now and then, whatever goes, is no limit, and
    /// neither narrows the door nor slows the pace.
    fn reopening(&mut self) -> u32 {
        match self.burst.take().filter(Burst::is_lone) {
            Some(Burst { width, pace, .. }) => {
                self.pace.keep(pace);
                width
            }
            None => 1,
        }
    }

    /// When the limits have room for a call.
    fn room(&self, cost: Amounts, now: i64) -> i64 {
        self.meters
            .iter()
            .zip(cost)
            .filter_map(|(meter, cost)| Some(meter.as_ref()?.when(cost, now)))
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
        let held = match self.door {
            Door::Open => false,
            Door::Closed(until) => now < until,
            Door::Ajar(most) => self.probing() >= most,
        };
        let due = self.room(self.cost(input), now).max(self.pace.when(now));
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

    /// Whether nobody waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.out.is_empty()
    }

    /// The server has begun to answer a call, and said this of its limits. `well`: it did not refuse.
    pub fn answered(&mut self, id: u64, well: bool, said: &RateLimits, now: i64) {
        let Some(call) = self.out.get_mut(&id) else { return };
        if std::mem::replace(&mut call.answered, true) {
            return;
        }
        let Sent { cost, settled, at, forced, probe, .. } = *call;
        let [requests, _, input, _] = cost;
        add(&mut self.settled, [requests, 0, input, 0]);
        if well {
            self.pace.served();
            if let Some(burst) = &mut self.burst {
                burst.served = burst.served.saturating_add(1);
            }
        }
        if well && forced {
            // There was room although they had said that there was none.
            self.meters = [None; KINDS];
            self.believed = now.saturating_add(DISBELIEF);
        }
        if let Door::Ajar(most) = self.door
            && well
            && probe
        {
            // One more for each answer: twice as many in each round.
            let wider = most.saturating_add(1);
            // All that wait would go at once through an open door.
            let few = self.waiting.len() <= usize::try_from(WIDE).unwrap_or(usize::MAX);
            let over = self.waiting.is_empty() && self.probing() == 0;
            let settled = now.saturating_sub(self.reopened) >= SETTLING;
            let done = settled && ((wider >= WIDE && few) || over);
            if done {
                self.refusals = 0;
            }
            self.door = if done { Door::Open } else { Door::Ajar(wider) };
        }
        if now < self.believed {
            return;
        }
        let told = [said.requests, said.tokens, said.input, said.output];
        // What of the call itself the server has counted when it says so.
        let counted = [requests, input, input, 0];
        for (kind, said) in told.into_iter().enumerate() {
            let part = |of: &Amounts| of.get(kind).copied().unwrap_or_default();
            let others = part(&self.sent).saturating_sub(part(&settled));
            let others = others.saturating_sub(part(&counted));
            let (Some(meter), Some(followed)) =
                (self.meters.get_mut(kind), self.followed.get_mut(kind))
            else {
                continue;
            };
            *followed |= well && said.is_some();
            match (said, &mut *meter) {
                (Some(said), Some(meter)) => meter.told(said, at, others, now),
                (Some(said), None) => *meter = Meter::of(said, others, now),
                // Only refusals tell of it: nobody could follow how much of it comes back.
                (None, Some(_)) if well && !*followed => *meter = None,
                (None, Some(_) | None) => {}
            }
        }
    }

    /// A call was refused for its rate: none goes for this time, and then one, to see.
    pub fn refused(&mut self, wait: Option<Duration>, now: i64) {
        let wait = wait.filter(|wait| *wait <= MAX_RETRY_AFTER).unwrap_or_default();
        let until = now.saturating_add(i64::try_from(wait.as_millis()).unwrap_or_default());
        let until = match self.door {
            Door::Closed(known) => known.max(until),
            Door::Open | Door::Ajar(_) => {
                let width = if let Door::Ajar(most) = self.door { most } else { WIDE };
                let pace = self.pace.clone();
                self.burst = Some(Burst { served: 0, refused: 0, width, pace });
                self.pace.refused(now);
                until
            }
        };
        self.closing = Some((now, until.saturating_sub(now)));
        self.refusals = self.refusals.saturating_add(1);
        if let Some(burst) = &mut self.burst {
            burst.refused = burst.refused.saturating_add(1);
        }
        self.door = Door::Closed(until);
    }

    /// What was said of the lane is forgotten.
    pub fn reopen(&mut self) {
        self.door = Door::Open;
        self.pace = Pace::default();
        (self.burst, self.refusals) = (None, 0);
        self.meters = [None; KINDS];
        self.followed = [false; KINDS];
    }

    /// A call has ended; with what it came to, prompt and answer, where that is known.
    pub fn ended(&mut self, id: u64, used: Option<(u64, u64)>, now: i64) {
        // What has no headers is answered when it ends. It says nothing of limits.
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

    /// A call leaves the line, or goes back before it was sent: it costs nothing.
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

    /// Sends everybody who waits away, to choose anew.
    pub fn dismiss(&mut self) -> Vec<u64> {
        self.waiting.drain(..).map(|it| it.id).collect()
    }

    /// Whether the lane is closed for so short a time that its line stays.
    pub fn is_briefly_closed(&self, now: i64) -> bool {
        match self.door {
            Door::Closed(until) => until.saturating_sub(now) <= SHORT_CLOSING,
            Door::Open | Door::Ajar(_) => false,
        }
    }

    /// The limits in the order of [`RateLimits`].
    pub fn limits(&self, now: i64) -> [Option<RateLimitState>; KINDS] {
        self.meters.map(|meter| meter.map(|meter| meter.state(now)))
    }

    /// Calls under way, calls that wait, and for how long none goes.
    pub fn counts(&self, now: i64) -> (usize, usize, i64) {
        let closed = match self.door {
            Door::Closed(until) => until.saturating_sub(now).max(0),
            Door::Open | Door::Ajar(_) => 0,
        };
        (self.out.len(), self.waiting.len(), closed)
    }
}

fn add(sums: &mut Amounts, more: Amounts) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}
