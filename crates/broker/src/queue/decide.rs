//! What a session does next: start a turn, steer the running one, abort it, or wait (docs/rules/queue.md#modes).
//!
//! It decides from what is stored, so that any process that takes a session over decides the same. It must never remember
//! anything.

use model::{QueueItem, QueueMode};

/// How many debounces a group of `collect` messages waits at most: somebody who never stops writing is answered too.
const DEBOUNCES: i64 = 10;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRun<'a> {
    /// Nothing.
    Idle,
    /// A turn runs.
    Running {
        /// For whom, with which permissions.
        principal: &'a str,
        /// Whether a message can enter it: it streams, and does not compact.
        is_steerable: bool,
        /// Whether it is being aborted.
        is_ending: bool,
    },
    /// A turn waits for an approval.
    Parked,
}

/// What is done next. The ids are in the order in which their messages stand in the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// One turn begins with these messages, each a user message of its own.
    Start(Vec<String>),
    /// These messages enter the running turn.
    Steer(Vec<String>),
    /// The running turn is aborted; a parked one is denied first.
    Abort,
    /// Nothing until the queue or the run changes, or until this time (Unix milliseconds).
    Wait(Option<i64>),
}

/// Whether a message of this mode waits while a turn runs, whatever the turn does.
#[must_use]
pub fn follows(mode: QueueMode) -> bool {
    match mode {
        QueueMode::Queue | QueueMode::Followup | QueueMode::Collect => true,
        QueueMode::Interrupt | QueueMode::Steer | QueueMode::SteerBacklog => false,
    }
}

/// Decides what a session does. `pending` is what waits, in the order of arrival.
#[must_use]
pub fn decide(
    pending: &[QueueItem],
    run: SessionRun<'_>,
    is_suspended: bool,
    debounce_ms: i64,
    now: i64,
) -> Decision {
    if is_suspended {
        return Decision::Wait(None);
    }
    // One that waits for another try interrupts nothing before its time.
    let interrupts = || pending.iter().filter(|it| it.mode == QueueMode::Interrupt);
    let interrupt = interrupts().find(|it| it.not_before <= now);
    let next_interrupt = interrupts().map(|it| it.not_before).min();
    match run {
        SessionRun::Running { is_ending: true, .. } => Decision::Wait(None),
        SessionRun::Running { .. } | SessionRun::Parked if interrupt.is_some() => Decision::Abort,
        SessionRun::Parked => Decision::Wait(next_interrupt),
        SessionRun::Running { principal, is_steerable, .. } => {
            let steers = |it: &&QueueItem| {
                is_steerable
                    && matches!(it.mode, QueueMode::Steer | QueueMode::SteerBacklog)
                    && it.principal == principal
            };
            let steering = || pending.iter().filter(steers);
            let steered = ids(steering().filter(|it| it.not_before <= now));
            if !steered.is_empty() {
                return Decision::Steer(steered);
            }
            Decision::Wait(
                next_interrupt.into_iter().chain(steering().map(|it| it.not_before)).min(),
            )
        }
        SessionRun::Idle => match interrupt {
            Some(interrupt) => Decision::Start(backlog(pending, interrupt)),
            None => match start(pending, debounce_ms, now) {
                // An interrupt does not wait for what is before it.
                Decision::Wait(Some(at)) => {
                    Decision::Wait(next_interrupt.min(Some(at)).or(Some(at)))
                }
                decision => decision,
            },
        },
    }
}

/// The messages of an interrupt's turn: all of its principal that arrived before the last interrupt of that principal.
fn backlog(pending: &[QueueItem], interrupt: &QueueItem) -> Vec<String> {
    let same = |it: &&QueueItem| it.principal == interrupt.principal;
    let is_last = |it: &QueueItem| same(&it) && it.mode == QueueMode::Interrupt;
    let end = pending.iter().rposition(is_last).map_or(pending.len(), |last| last + 1);
    ids(pending.iter().take(end).filter(same))
}

fn start(pending: &[QueueItem], debounce_ms: i64, now: i64) -> Decision {
    // A message that was to steer a run which then ended is the next to run.
    let steering = pending.iter().find(|it| it.mode == QueueMode::Steer);
    let Some(first) = steering.or(pending.first()) else { return Decision::Wait(None) };
    if first.mode != QueueMode::Collect || first.is_system {
        return match first.not_before {
            due if due > now => Decision::Wait(Some(due)),
            _ => Decision::Start(vec![first.id.clone()]),
        };
    }
    let shares = |it: &&QueueItem| {
        let alike = it.route == first.route && it.principal == first.principal;
        it.mode == QueueMode::Collect && !it.is_system && alike
    };
    let group = || pending.iter().take_while(shares);
    let last = group().map(|it| it.not_before).max().unwrap_or(first.not_before);
    let latest = first.not_before.saturating_add(debounce_ms.max(0).saturating_mul(DEBOUNCES));
    let due = last.min(latest);
    if due > now { Decision::Wait(Some(due)) } else { Decision::Start(ids(group())) }
}

fn ids<'a>(items: impl Iterator<Item = &'a QueueItem>) -> Vec<String> {
    items.map(|it| it.id.clone()).collect()
}
