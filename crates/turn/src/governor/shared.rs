//! A lane's limits as several processes share them: who may send a call, while the limit is near.
//!
//! The state is one value that every process changes in turn, with the time of one clock. It must never let two processes send what
//! one of them alone may, and never count a process that has ended for long.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::call::{Amounts, KINDS, Local};
use super::lane::SETTLING;
use super::meter::Meter;
use crate::retry::MAX_RETRY_AFTER;
use model::RateLimits;

/// What a process has under way counts for so many milliseconds: the server has counted it by then, or the process has ended.
const UNANSWERED: i64 = 15_000;
/// A state without a change for this long is forgotten, and one that is so far in the future: the clock was set back.
const OLD: i64 = 600_000;
const FUTURE: i64 = 60_000;
/// A call that waits for others to be answered asks again after this many milliseconds.
const AGAIN: i64 = 100;
/// A report that is older says little of what the others have sent since: one call is sent, and its answer is waited for so long.
const FRESH: i64 = 1_000;
const ANSWER: i64 = 2_000;
/// After a refusal, so many unanswered calls show that there is no limit any more.
const WIDE: u64 = 64;
/// A limit is near below this part of it.
const MARGIN: u64 = 5;

/// The shared state of a lane.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SharedLimits {
    meters: [Option<Meter>; KINDS],
    /// All units that were ever under way, and those that are answered.
    sent: Amounts,
    settled: Amounts,
    /// What each process has under way, and until when that counts.
    out: BTreeMap<String, (Amounts, i64)>,
    /// A refusal: no call until then.
    closed: Option<i64>,
    /// How many calls may be unanswered after it, and since when; 0 for any number.
    width: u64,
    reopened: i64,
    /// The last report, and the last call that was sent without a fresh one.
    reported: i64,
    asked: i64,
    /// The last change.
    at: i64,
}

/// Whether a call may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// It may, after the answers that had settled so much.
    Granted(Amounts),
    /// It asks again after this time.
    Wait(Duration),
}

impl SharedLimits {
    /// The state that a text has at a time; a new one for none, and for one that is too old or cannot be read.
    #[must_use]
    pub fn parse(text: Option<&str>, now: i64) -> Self {
        let state: Option<Self> = text.and_then(|text| serde_json::from_str(text).ok());
        let mut state = state
            .filter(|it| it.at >= now.saturating_sub(OLD) && it.at <= now.saturating_add(FUTURE))
            .unwrap_or_default();
        state.at = now;
        let ended: Vec<String> =
            state.out.iter().filter(|(_, out)| out.1 <= now).map(|(id, _)| id.clone()).collect();
        for id in ended {
            let (gone, _) = state.out.remove(&id).unwrap_or_default();
            add(&mut state.settled, gone);
        }
        if state.closed.is_some_and(|until| until <= now) {
            (state.closed, state.width, state.reopened) = (None, 1, now);
        }
        state
    }

    /// As a text.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the processes must ask before each call.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let low = |meter: &Meter| meter.is_below(MARGIN, [0, 0], self.at);
        self.closed.is_some() || self.width > 0 || self.meters.iter().flatten().any(low)
    }

    /// Asks for a call.
    pub fn claim(&mut self, local: &Local) -> Claimed {
        self.join(local, false);
        let now = self.at;
        let due = match self.closed {
            Some(until) => until,
            None if self.width > 0 && self.unanswered() >= self.width => now.saturating_add(AGAIN),
            None if self.asks_first() && self.unanswered() > 0 => now.saturating_add(AGAIN),
            None => {
                let meters = self.meters.iter().zip(local.cost);
                meters
                    .filter_map(|(meter, cost)| Some(meter.as_ref()?.due(cost, now)))
                    .fold(now, i64::max)
            }
        };
        if due > now {
            if self.asked <= self.reported {
                self.asked = now;
            }
            return Claimed::Wait(Duration::from_millis(due.abs_diff(now)));
        }
        if now.saturating_sub(self.reported) >= FRESH && self.unanswered() == 0 {
            self.asked = now;
        }
        self.join(local, true);
        Claimed::Granted(self.settled)
    }

    /// Whether the next report is waited for.
    fn asks_first(&self) -> bool {
        let is_late = self.asked > self.reported && self.at.saturating_sub(self.asked) >= ANSWER;
        self.at.saturating_sub(self.reported) >= FRESH && !is_late
    }

    /// The requests that no server has answered.
    fn unanswered(&self) -> u64 {
        self.out.values().map(|([requests, ..], _)| requests).sum()
    }

    /// Counts what a process has under way, `with` its call.
    fn join(&mut self, local: &Local, with: bool) {
        let now = self.at;
        let mut all = local.others;
        if with {
            add(&mut all, local.cost);
        }
        let until = now.saturating_add(UNANSWERED);
        let known = self.out.insert(local.process.clone(), (all, until)).unwrap_or_default().0;
        for kind in 0..KINDS {
            let part = |of: &Amounts| of.get(kind).copied().unwrap_or_default();
            let (before, after) = (part(&known), part(&all));
            let (more, less) = (after.saturating_sub(before), before.saturating_sub(after));
            let elsewhere: u64 = self
                .out
                .iter()
                .filter(|(id, _)| **id != local.process)
                .map(|(_, out)| part(&out.0))
                .sum();
            let (Some(meter), Some(sent), Some(settled)) =
                (self.meters.get_mut(kind), self.sent.get_mut(kind), self.settled.get_mut(kind))
            else {
                continue;
            };
            *sent = sent.wrapping_add(more);
            *settled = settled.wrapping_add(less);
            // What this process knows has its own calls, but not those of the others.
            let known_here = local.meters.get(kind).copied().flatten().map(|meter| {
                let mut meter = meter.moved(now.saturating_sub(local.now));
                meter.take(elsewhere + if with { part(&local.cost) } else { 0 }, now);
                meter
            });
            if let Some(meter) = meter {
                meter.take(more, now);
            }
            *meter = match (*meter, known_here) {
                (Some(shared), Some(here)) if shared.is_more_than(&here, now) => Some(here),
                (None, here) => here,
                (shared, _) => shared,
            };
        }
    }

    /// The server has answered the call with these limits. `settled` is from its claim; `well`: it was not refused.
    pub fn answered(
        &mut self,
        local: &Local,
        settled: Option<Amounts>,
        well: bool,
        limits: &RateLimits,
    ) {
        let now = self.at;
        let reported = [limits.requests, limits.tokens, limits.input, limits.output];
        let [requests, _, input, _] = local.cost;
        let counted = [requests, input, input, 0];
        let sent_at = now.saturating_sub(local.now.saturating_sub(local.sent_at));
        let unanswered: Vec<u64> = (0..KINDS)
            .map(|kind| {
                self.out.values().map(|out| out.0.get(kind).copied().unwrap_or_default()).sum()
            })
            .collect();
        for (kind, reported) in reported.into_iter().enumerate() {
            let part = |of: &[u64]| of.get(kind).copied().unwrap_or_default();
            // What was under way when it was sent, or since: the server may have counted it or not.
            let others = match &settled {
                Some(settled) => part(&self.sent).saturating_sub(part(settled)),
                None => part(&unanswered),
            };
            let others = others.saturating_sub(part(&counted));
            let (Some(meter), Some(reported)) = (self.meters.get_mut(kind), reported) else {
                continue;
            };
            match meter {
                Some(meter) => meter.update(reported, sent_at, others, now),
                None => *meter = Meter::of(reported, others, now),
            }
            self.reported = now;
        }
        self.leave(local);
        if well && self.width > 0 {
            self.width += 1;
            if self.width >= WIDE || now.saturating_sub(self.reopened) >= SETTLING {
                self.width = 0;
            }
        }
    }

    /// The call is answered, or has ended without an answer.
    pub fn leave(&mut self, local: &Local) {
        let Some((out, _)) = self.out.get_mut(&local.process) else { return };
        for ((out, settled), others) in out.iter_mut().zip(&mut self.settled).zip(local.others) {
            *settled = settled.wrapping_add(out.saturating_sub(others));
            *out = (*out).min(others);
        }
        if *out == [0; KINDS] {
            self.out.remove(&local.process);
        }
    }

    /// The call was not sent.
    pub fn withdrawn(&mut self, local: &Local) {
        self.leave(local);
        for (meter, cost) in self.meters.iter_mut().zip(local.cost) {
            if let Some(meter) = meter {
                meter.untake(cost, self.at);
            }
        }
    }

    /// A call was refused for its rate: no call for this time, and then one as a probe.
    pub fn refused(&mut self, wait: Option<Duration>) {
        let wait = wait.filter(|wait| *wait <= MAX_RETRY_AFTER).unwrap_or_default();
        let until = self.at.saturating_add(i64::try_from(wait.as_millis()).unwrap_or_default());
        self.closed = Some(self.closed.map_or(until, |known| known.max(until)));
    }

    /// The limits have proved wrong.
    pub fn forget(&mut self) {
        (self.meters, self.closed, self.width) = ([None; KINDS], None, 0);
    }
}

fn add(sums: &mut Amounts, more: Amounts) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests;
