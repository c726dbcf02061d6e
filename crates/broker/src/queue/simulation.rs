//! Random histories of a queue: sends, offers, ends, failures, cancels, crashes and clock steps. After each action the real decisions are
//! compared with the reference, which states them a second time.

use proptest::prelude::*;

use super::reference::{Effect, End, Reference, Sent};
use super::tests::{MODES, over};
use super::*;
use model::{DropPolicy, FailedReason, FailureKind, QueueItem, QueueLimits, Route};

const PRINCIPALS: [&str; 2] = ["owner", "guest"];

#[derive(Debug, Clone, Copy)]
enum Action {
    Send(Sent),
    /// The running turn stores a message that it was offered.
    Take,
    /// The running turn ends, also because it was aborted, or because its process died.
    End(End),
    Compact(bool),
    Park,
    /// Time passes, or the clock is put back.
    Clock(i64),
    Suspend(bool),
    /// The host cancels a message, whatever it does.
    Cancel(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Pending,
    Offered,
    Processing,
    Delivered,
    Failed(FailedReason),
}

#[derive(Debug)]
struct Row {
    item: QueueItem,
    status: Status,
}

#[derive(Debug)]
struct Run {
    principal: String,
    compacts: bool,
    is_parked: bool,
    is_ending: bool,
}

/// The rows as the ledger has them, and one process that works on them by the real decisions.
#[derive(Debug)]
struct World {
    limits: QueueLimits,
    rows: Vec<Row>,
    run: Option<Run>,
    now: i64,
    is_suspended: bool,
    /// Dropped messages that no turn has named.
    unnamed: Vec<usize>,
    effects: Vec<Effect>,
}

fn number(id: &str) -> usize {
    id.parse().unwrap()
}

fn numbers(ids: &[String]) -> Vec<usize> {
    ids.iter().map(|id| number(id)).collect()
}

impl World {
    fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            rows: Vec::new(),
            run: None,
            now: 0,
            is_suspended: false,
            unnamed: Vec::new(),
            effects: Vec::new(),
        }
    }

    fn pending(&self) -> Vec<QueueItem> {
        let waits = |row: &&Row| row.status == Status::Pending;
        self.rows.iter().filter(waits).map(|row| row.item.clone()).collect()
    }

    fn set(&mut self, id: usize, from: Status, to: Status) {
        let row = &mut self.rows[id];
        assert_eq!(row.status, from, "{row:?}");
        row.status = to;
    }

    fn send(&mut self, sent: Sent) {
        let Sent { mode, principal, has_channel, is_system } = sent;
        let id = self.rows.len();
        let channel = has_channel.then(|| "telegram".to_owned());
        let mut item = QueueItem {
            id: id.to_string(),
            mode,
            route: Route { channel, ..Route::default() },
            principal: principal.to_owned(),
            is_system,
            tries: 0,
            failures: 0,
            not_before: 0,
        };
        let pending = self.pending();
        let over = over(&pending, &item, self.limits);
        let is_busy = self.run.is_some() || !pending.is_empty();
        let status = match admit(&item, over, is_busy, self.limits, self.now) {
            Admission::Queued { not_before, dropped } => {
                for id in numbers(&dropped) {
                    self.set(id, Status::Pending, Status::Failed(FailedReason::Dropped));
                    self.effects.push(Effect::Dropped(id));
                    if self.limits.drop == DropPolicy::Summarize {
                        self.unnamed.push(id);
                    }
                }
                self.effects.push(Effect::Queued(id, not_before));
                item.not_before = not_before;
                Status::Pending
            }
            Admission::Rejected => {
                self.effects.push(Effect::Rejected(id));
                Status::Failed(FailedReason::Rejected)
            }
        };
        self.rows.push(Row { item, status });
    }

    fn take(&mut self) {
        let offered = self.rows.iter_mut().find(|row| row.status == Status::Offered);
        if let Some(row) = offered.filter(|_| self.run.is_some()) {
            row.status = Status::Processing;
        }
    }

    fn end(&mut self, end: &TurnEnd) {
        if self.run.take().is_none() {
            return;
        }
        for (id, row) in self.rows.iter_mut().enumerate() {
            if row.status == Status::Offered {
                row.status = Status::Pending;
            }
            if row.status != Status::Processing {
                continue;
            }
            let (status, effect) =
                match after_turn(row.item.tries, row.item.failures, end, self.now) {
                    ItemEnd::Delivered => (Status::Delivered, Effect::Delivered(id)),
                    ItemEnd::Failed(reason) => (Status::Failed(reason), Effect::Failed(id, reason)),
                    ItemEnd::Pending { tries, failures, not_before } => {
                        let item = row.item.clone();
                        row.item = QueueItem { tries, failures, not_before, ..item };
                        (Status::Pending, Effect::Again(id, tries, failures, not_before))
                    }
                };
            row.status = status;
            self.effects.push(effect);
        }
    }

    /// Does what is decided, until nothing is left to do. Returns all that became visible since the last time.
    fn settle(&mut self) -> Vec<Effect> {
        loop {
            let pending = self.pending();
            let run = match &self.run {
                None => SessionRun::Idle,
                Some(Run { is_parked: true, is_ending: false, .. }) => SessionRun::Parked,
                Some(run) => SessionRun::Running {
                    principal: &run.principal,
                    is_steerable: !run.compacts && !run.is_parked,
                    is_ending: run.is_ending,
                },
            };
            match decide(&pending, run, self.is_suspended, self.limits.debounce_ms, self.now) {
                Decision::Start(ids) => self.start(&ids, &pending),
                Decision::Steer(ids) => {
                    let ids = numbers(&ids);
                    ids.iter().for_each(|id| self.set(*id, Status::Pending, Status::Offered));
                    self.effects.push(Effect::Offered(ids));
                }
                Decision::Abort => {
                    self.run.as_mut().unwrap().is_ending = true;
                    self.effects.push(Effect::Aborting);
                }
                Decision::Wait(until) => {
                    self.effects.push(Effect::Waits(until));
                    return std::mem::take(&mut self.effects);
                }
            }
        }
    }

    fn start(&mut self, ids: &[String], pending: &[QueueItem]) {
        assert!(self.run.is_none(), "one turn at a time");
        let first = pending.iter().find(|it| it.id == ids[0]).unwrap();
        let principal = first.principal.clone();
        let ids = numbers(ids);
        ids.iter().for_each(|id| self.set(*id, Status::Pending, Status::Processing));
        self.run = Some(Run { principal, compacts: false, is_parked: false, is_ending: false });
        let named = std::mem::take(&mut self.unnamed);
        let texts: Vec<String> = named.iter().map(|id| format!("text {id}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let note = overflow_note(&texts, self.limits.cap);
        self.effects.push(Effect::Started(ids, note));
    }
}

/// A turn's end as the ledger reports it.
fn turn_end(end: End) -> TurnEnd {
    let failed = |kind, is_retryable, has_effect, retry_after_ms| TurnEnd::Failed {
        kind,
        is_retryable,
        has_effect,
        retry_after_ms,
    };
    match end {
        End::Completed => TurnEnd::Moved,
        End::Aborted => TurnEnd::Aborted,
        End::Trouble(wait) => failed(FailureKind::RateLimit, true, false, wait),
        End::Mishap => failed(FailureKind::Unknown, true, false, None),
        End::Refused => failed(FailureKind::Format, false, false, None),
        End::AfterEffect => failed(FailureKind::Network, true, true, None),
        End::Interrupted => TurnEnd::Interrupted,
    }
}

/// The queue by its real decisions, and by the reference.
struct Both {
    world: World,
    reference: Reference,
    wake: Option<i64>,
}

impl Both {
    fn new(limits: QueueLimits) -> Self {
        Self { world: World::new(limits), reference: Reference::new(limits), wake: None }
    }

    fn act(&mut self, action: Action) {
        let (world, reference) = (&mut self.world, &mut self.reference);
        match action {
            Action::Send(sent) => {
                reference.send(world.rows.len(), sent);
                world.send(sent);
            }
            Action::Take => {
                reference.take();
                world.take();
            }
            Action::End(end) => {
                reference.end(end);
                world.end(&turn_end(end));
            }
            Action::Compact(compacts) => {
                reference.compact(compacts);
                world.run.iter_mut().for_each(|run| run.compacts = compacts);
            }
            Action::Park => {
                reference.park();
                world.run.iter_mut().for_each(|run| run.is_parked = !run.is_parked);
            }
            Action::Clock(by) => {
                reference.pass(by);
                world.now += by;
            }
            Action::Suspend(is_suspended) => {
                reference.suspend(is_suspended);
                world.is_suspended = is_suspended;
            }
            Action::Cancel(id) => {
                reference.cancel(id);
                if world.rows.get(id).is_some_and(|row| row.status == Status::Pending) {
                    world.set(id, Status::Pending, Status::Failed(FailedReason::Cancelled));
                    world.effects.push(Effect::Failed(id, FailedReason::Cancelled));
                }
            }
        }
        let real = world.settle();
        assert_eq!(real, reference.settle(), "after {action:?}");
        let Some((Effect::Waits(wake), done)) = real.split_last() else { unreachable!("{real:?}") };
        assert!(wake.is_none_or(|at| at > world.now), "it waits for what is over");
        // Nobody looks at a session before the time that was decided.
        let was_woken = self.wake.is_some_and(|at| at <= world.now);
        assert!(done.is_empty() || was_woken || !matches!(action, Action::Clock(_)), "{done:?}");
        self.wake = *wake;
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    let mode = prop::sample::select(&MODES[..]);
    let send =
        (mode, prop::sample::select(&PRINCIPALS[..]), any::<bool>(), prop::bool::weighted(0.1));
    let end = prop_oneof![
        3 => Just(End::Completed),
        1 => Just(End::Aborted),
        2 => prop::option::of(0_i64..60_000).prop_map(End::Trouble),
        3 => Just(End::Mishap),
        1 => Just(End::Refused),
        1 => Just(End::AfterEffect),
        1 => Just(End::Interrupted),
    ];
    prop_oneof![
        8 => send.prop_map(|(mode, principal, has_channel, is_system)| {
            Action::Send(Sent { mode, principal, has_channel, is_system })
        }),
        2 => Just(Action::Take),
        6 => end.prop_map(Action::End),
        1 => any::<bool>().prop_map(Action::Compact),
        1 => Just(Action::Park),
        4 => (-3_000_i64..12_000).prop_map(Action::Clock),
        1 => prop::bool::weighted(0.3).prop_map(Action::Suspend),
        1 => (0..40_usize).prop_map(Action::Cancel),
    ]
}

fn any_limits() -> impl Strategy<Value = QueueLimits> {
    let drop = prop::sample::select(vec![DropPolicy::Old, DropPolicy::New, DropPolicy::Summarize]);
    let debounce_ms = prop::sample::select(vec![0_i64, 1_000, 5_000]);
    (1..5_usize, drop, debounce_ms).prop_map(|(cap, drop, debounce_ms)| QueueLimits {
        cap,
        drop,
        debounce_ms,
    })
}

proptest! {
    /// In every history the queue does what the reference does, and each message ends exactly once, delivered or visibly failed.
    #[test]
    fn a_queue_does_what_its_reference_does_and_every_message_ends_once(
        limits in any_limits(),
        history in prop::collection::vec(any_action(), 1..80),
    ) {
        let mut both = Both::new(limits);
        for action in history {
            both.act(action);
        }
        both.act(Action::Suspend(false));
        // Each round ends a turn or passes the longest wait.
        let rounds = both.world.rows.len() * 2 + 2;
        for _ in 0..rounds {
            both.act(Action::End(End::Completed));
            both.act(Action::Clock(60_000));
        }
        for row in &both.world.rows {
            prop_assert!(matches!(row.status, Status::Delivered | Status::Failed(_)), "{row:?}");
        }
        prop_assert!(both.reference.is_empty());
    }
}
