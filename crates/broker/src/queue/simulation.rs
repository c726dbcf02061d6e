//! Random histories of a queue: sends, ends, failures, aborts, crashes and clock steps, against what a queue promises.

use proptest::prelude::*;

use super::*;
use model::{DropPolicy, FailedReason, FailureKind, QueueItem, QueueLimits, QueueMode, Route};

const LIMITS: QueueLimits = QueueLimits { cap: 4, drop: DropPolicy::Old, debounce_ms: 1_000 };
const PRINCIPALS: [&str; 2] = ["owner", "guest"];

#[derive(Debug, Clone, Copy)]
enum Happens {
    Send {
        mode: QueueMode,
        principal: usize,
        channel: bool,
        is_system: bool,
    },
    /// The running turn ends, or is aborted where that was requested.
    End(usize),
    /// Its process dies. A turn without effects is closed as failed, another one as interrupted.
    Crash {
        has_effect: bool,
    },
    Compact(bool),
    Park,
    Clock(i64),
    Suspend(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Pending,
    Processing,
    Delivered,
    Failed(FailedReason),
}

#[derive(Debug)]
struct Row {
    item: QueueItem,
    status: Status,
    /// Failures that were not the provider's trouble.
    counted: u32,
}

#[derive(Debug, Default)]
struct Run {
    principal: String,
    taken: Vec<String>,
    compacts: bool,
    is_parked: bool,
    is_ending: bool,
}

/// The rows as the ledger has them, and one process that works on them.
#[derive(Debug, Default)]
struct World {
    rows: Vec<Row>,
    run: Option<Run>,
    now: i64,
    is_suspended: bool,
}

impl World {
    fn pending(&self) -> Vec<QueueItem> {
        let waits = |row: &&Row| row.status == Status::Pending;
        self.rows.iter().filter(waits).map(|row| row.item.clone()).collect()
    }

    fn row(&mut self, id: &str) -> &mut Row {
        self.rows.iter_mut().find(|row| row.item.id == id).unwrap()
    }

    fn set(&mut self, id: &str, from: Status, to: Status) {
        let row = self.row(id);
        assert_eq!(row.status, from, "{row:?}");
        row.status = to;
    }

    fn send(&mut self, mode: QueueMode, principal: usize, channel: bool, is_system: bool) {
        let route = Route { channel: channel.then(|| "telegram".to_owned()), ..Route::default() };
        let mut item = QueueItem {
            id: format!("item {}", self.rows.len()),
            mode,
            route,
            principal: PRINCIPALS[principal].to_owned(),
            is_system,
            tries: 0,
            failures: 0,
            not_before: 0,
        };
        let pending = self.pending();
        match admit(&item, &pending, self.run.is_some(), LIMITS, self.now) {
            Admission::Queued { not_before, dropped } => {
                for id in &dropped {
                    assert!(!self.row(id).item.is_system);
                    self.set(id, Status::Pending, Status::Failed(FailedReason::Dropped));
                }
                item.not_before = not_before;
                self.rows.push(Row { item, status: Status::Pending, counted: 0 });
            }
            Admission::Rejected => unreachable!("the policy is to drop the oldest"),
        }
        if !is_system && mode != QueueMode::Interrupt {
            let waiting = self.pending().iter().filter(|it| !it.is_system).count();
            assert!(waiting <= LIMITS.cap, "{waiting}");
        }
    }

    fn end(&mut self, end: &TurnEnd) {
        let Some(run) = self.run.take() else { return };
        let counts = matches!(end, TurnEnd::Failed { kind: FailureKind::Unknown, .. });
        for id in &run.taken {
            let now = self.now;
            let row = self.row(id);
            row.counted += u32::from(counts);
            let to = match after_turn(row.item.tries, row.item.failures, end, now) {
                ItemEnd::Delivered => Status::Delivered,
                ItemEnd::Failed(reason) => Status::Failed(reason),
                ItemEnd::Pending { tries, failures, not_before } => {
                    assert!(not_before > now, "a failed message is not tried again at once");
                    assert_eq!((tries, failures), (row.item.tries + 1, row.counted));
                    row.item = QueueItem { tries, failures, not_before, ..row.item.clone() };
                    Status::Pending
                }
            };
            assert_eq!(to == Status::Failed(FailedReason::Poisoned), counts && row.counted == 7);
            self.set(id, Status::Processing, to);
        }
    }

    /// Does what is decided, until nothing is left to do.
    fn pump(&mut self) {
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
            match decide(&pending, run, self.is_suspended, LIMITS.debounce_ms, self.now) {
                Decision::Start(ids) => self.start(ids, &pending),
                Decision::Steer(ids) => self.steer(ids),
                Decision::Abort => {
                    let run = self.run.as_mut().unwrap();
                    assert!(!run.is_ending, "a run is aborted once");
                    run.is_ending = true;
                }
                Decision::Wait(until) => {
                    assert!(until.is_none_or(|until| until > self.now));
                    return;
                }
            }
        }
    }

    fn start(&mut self, ids: Vec<String>, pending: &[QueueItem]) {
        assert!(self.run.is_none(), "one turn at a time");
        assert!(!self.is_suspended);
        let item = |id: &String| pending.iter().find(|it| it.id == *id).unwrap();
        let items: Vec<&QueueItem> = ids.iter().map(item).collect();
        let first = items[0];
        let now = self.now;
        let is_due = |it: &QueueItem| it.mode == QueueMode::Interrupt && it.not_before <= now;
        let interrupts = items.iter().any(|it| is_due(it));
        assert!(items.iter().all(|it| it.principal == first.principal));
        if !interrupts {
            assert!(!pending.iter().any(is_due));
            assert!(items.len() == 1 || items.iter().all(|it| it.mode == QueueMode::Collect));
            assert!(items.iter().all(|it| it.route == first.route));
            let steers = pending.iter().any(|it| it.mode == QueueMode::Steer);
            assert!(steers || pending[0].id == first.id, "in the order of arrival");
            assert!(first.not_before <= self.now || first.mode == QueueMode::Collect);
        }
        let run = Run { principal: first.principal.clone(), taken: ids.clone(), ..Run::default() };
        for id in &ids {
            self.set(id, Status::Pending, Status::Processing);
        }
        self.run = Some(run);
    }

    fn steer(&mut self, ids: Vec<String>) {
        for id in &ids {
            self.set(id, Status::Pending, Status::Processing);
        }
        let run = self.run.as_mut().unwrap();
        assert!(!run.compacts && !run.is_parked && !run.is_ending);
        run.taken.extend(ids);
    }

    fn happens(&mut self, what: Happens) {
        let failed = |kind, is_retryable| TurnEnd::Failed {
            kind,
            is_retryable,
            has_effect: false,
            retry_after_ms: None,
        };
        match what {
            Happens::Send { mode, principal, channel, is_system } => {
                self.send(mode, principal, channel, is_system);
            }
            Happens::End(how) => {
                let end = match how {
                    0 | 1 => TurnEnd::Moved,
                    2 => TurnEnd::Aborted,
                    3 => failed(FailureKind::RateLimit, true),
                    4 => failed(FailureKind::Unknown, true),
                    _ => failed(FailureKind::Format, false),
                };
                self.end(&end);
            }
            Happens::Crash { has_effect: true } => self.end(&TurnEnd::Interrupted),
            Happens::Crash { has_effect: false } => self.end(&failed(FailureKind::Unknown, true)),
            Happens::Compact(compacts) => {
                if let Some(run) = &mut self.run {
                    run.compacts = compacts;
                }
            }
            Happens::Park => {
                if let Some(run) = &mut self.run {
                    run.is_parked = !run.is_parked;
                }
            }
            Happens::Clock(by) => self.now += by,
            Happens::Suspend(is_suspended) => self.is_suspended = is_suspended,
        }
        self.pump();
    }
}

fn any_event() -> impl Strategy<Value = Happens> {
    let mode = prop::sample::select(vec![
        QueueMode::Queue,
        QueueMode::Followup,
        QueueMode::Collect,
        QueueMode::Interrupt,
        QueueMode::Steer,
        QueueMode::SteerBacklog,
    ]);
    let send = (mode, 0..2_usize, any::<bool>(), prop::bool::weighted(0.1));
    prop_oneof![
        8 => send.prop_map(|(mode, principal, channel, is_system)| Happens::Send { mode, principal, channel, is_system }),
        6 => (0..6_usize).prop_map(Happens::End),
        1 => any::<bool>().prop_map(|has_effect| Happens::Crash { has_effect }),
        1 => any::<bool>().prop_map(Happens::Compact),
        1 => Just(Happens::Park),
        4 => (0_i64..12_000).prop_map(Happens::Clock),
        1 => any::<bool>().prop_map(Happens::Suspend),
    ]
}

proptest! {
    /// In every history each message ends exactly once, delivered or visibly failed.
    #[test]
    fn every_message_ends_exactly_once(history in prop::collection::vec(any_event(), 1..60)) {
        let mut world = World::default();
        for what in history {
            world.happens(what);
        }
        world.happens(Happens::Suspend(false));
        // Each round ends a turn or passes the longest wait.
        let rounds = world.rows.len() * 2 + 2;
        for _ in 0..rounds {
            world.happens(Happens::End(0));
            world.happens(Happens::Clock(12_000));
        }
        for row in &world.rows {
            prop_assert!(matches!(row.status, Status::Delivered | Status::Failed(_)), "{row:?}");
        }
    }
}
