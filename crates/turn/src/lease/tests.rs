//! The rules for each holder and clock, and random processes over one row.

use proptest::prelude::*;

use super::{Holder, Lease, Now, QueuePosition, ends_at, queue_position};

const OTHER: Holder = Holder::Other { known_dead: false };

fn lease(holder: Holder) -> Lease {
    Lease { epoch: 3, holder, heartbeat_at: 1_000, expires_at: 2_000 }
}

fn at(ms: i64) -> Now {
    Now { ms, can_step: false }
}

#[test]
fn a_lease_is_live_while_its_holder_runs_or_may_be_alive() {
    let wall = |ms| Now { ms, can_step: true };
    for (name, holder, now, live) in [
        ("given back", Holder::Released, at(1_500), false),
        ("own, running", Holder::Own { running: Some(3) }, at(1_500), true),
        // The expiry does not matter to the process that runs the session.
        ("own, late", Holder::Own { running: Some(3) }, at(9_000), true),
        ("own, of an earlier epoch", Holder::Own { running: Some(2) }, at(1_500), false),
        ("own, not running", Holder::Own { running: None }, at(1_500), false),
        ("another's", OTHER, at(1_500), true),
        ("another's, at its end", OTHER, at(2_000), false),
        ("another's, over", OTHER, at(2_001), false),
        ("another's, dead", Holder::Other { known_dead: true }, at(1_500), false),
        // A monotonic clock began with the system: a heartbeat in the future is a reading error.
        ("another's, before its heartbeat", OTHER, at(500), true),
        // After a clock was set back, the age of the heartbeat is unknown, so the lease counts as expired.
        ("another's, on a clock that was set back", OTHER, wall(500), false),
        ("another's, on a clock that may be set", OTHER, wall(1_500), true),
    ] {
        assert_eq!(lease(holder).is_live(now), live, "{name}");
        assert_eq!(lease(holder).runs(3, now), live, "{name}");
        assert!(!lease(holder).runs(2, now), "{name}: another epoch");
    }
}

#[test]
fn only_the_owner_of_the_newest_epoch_writes_and_renews_in_time() {
    for (holder, may) in [
        (Holder::Own { running: Some(3) }, true),
        (Holder::Own { running: None }, true),
        (OTHER, false),
        (Holder::Released, false),
    ] {
        assert_eq!(lease(holder).may_write(3), may, "{holder:?}");
        assert!(!lease(holder).may_write(2) && !lease(holder).may_write(4), "{holder:?}");
    }
    let own = lease(Holder::Own { running: Some(3) });
    assert_eq!(
        [1_499, 1_500, 1_501, 5_000].map(|ms| own.is_due(at(ms), 1_000)),
        [false, false, true, true]
    );
    // A next turn begins under it: of 1,000 ms, more than 5/6 must be left.
    assert_eq!([1_100, 1_169, 1_170].map(|ms| own.is_fresh(at(ms), 1_000)), [true, true, false]);
    assert_eq!([None, Some(2), Some(3)].map(|idle| own.continues(idle)), [false, false, true]);
    assert!(!lease(OTHER).continues(Some(3)) && !lease(Holder::Released).continues(Some(3)));
    assert_eq!(ends_at(at(1_500), 1_000), 2_500);
    assert_eq!(ends_at(at(i64::MAX), 1_000), i64::MAX);
}

#[test]
fn the_first_in_the_queue_that_may_be_alive_has_the_session() {
    let own = lease(Holder::Own { running: None });
    let dead = lease(Holder::Other { known_dead: true });
    let other = lease(OTHER);
    for (name, entries, ms, expected) in [
        ("nobody waits", vec![], 1_500, QueuePosition::First(None)),
        ("another waits", vec![other], 1_500, QueuePosition::Behind(None)),
        ("another waits behind", vec![own, other], 1_500, QueuePosition::First(Some(own))),
        ("another waits before", vec![other, own], 1_500, QueuePosition::Behind(Some(own))),
        ("a dead one waits before", vec![dead, own], 1_500, QueuePosition::First(Some(own))),
        ("a dead one and another", vec![dead, other, own], 1_500, QueuePosition::Behind(Some(own))),
        ("an expired one waits before", vec![other, own], 2_000, QueuePosition::First(Some(own))),
    ] {
        assert_eq!(queue_position(&entries, at(ms)), expected, "{name}");
    }
}

/// The row, with the process that owns it, and whether a turn is open under its epoch.
#[derive(Debug, Clone, Copy)]
struct Row {
    epoch: i64,
    owner: Option<usize>,
    is_open: bool,
    expires_at: i64,
    heartbeat_at: i64,
}

/// A process, the epoch it runs under, and the one that its last commit has left.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    running: Option<i64>,
    idle: Option<i64>,
    dead: bool,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Take(usize),
    Write(usize),
    Beat(usize),
    Commit(usize),
    GiveBack(usize),
    Die(usize),
    Wait(i64),
    /// The clock is set back or forward.
    Step(i64),
}

const LEASE: i64 = 1_000;

fn seen(row: Row, who: usize, processes: &[Process], sees_deaths: bool) -> Lease {
    let holder = match row.owner {
        None => Holder::Released,
        Some(owner) if owner == who => Holder::Own { running: processes[who].running },
        Some(owner) => Holder::Other { known_dead: sees_deaths && processes[owner].dead },
    };
    let Row { epoch, expires_at, heartbeat_at, .. } = row;
    Lease { epoch, holder, expires_at, heartbeat_at }
}

fn any_act() -> impl Strategy<Value = Act> {
    let who = 0..3_usize;
    prop_oneof![
        4 => who.clone().prop_map(Act::Take),
        4 => who.clone().prop_map(Act::Write),
        3 => who.clone().prop_map(Act::Beat),
        4 => who.clone().prop_map(Act::Commit),
        2 => who.clone().prop_map(Act::GiveBack),
        1 => who.prop_map(Act::Die),
        3 => (0..1_500_i64).prop_map(Act::Wait),
        1 => (-5_000..5_000_i64).prop_map(Act::Step),
    ]
}

proptest! {
    /// For any processes and clocks: one turn writes at a time, epochs only grow, a lease is used again only by the process
    /// that has had it since, and no process that renews in time on a monotonic clock loses a running turn.
    #[test]
    fn one_epoch_writes(acts in proptest::collection::vec(any_act(), 1..80), can_step: bool, sees_deaths: bool) {
        let mut row = Row { epoch: 0, owner: None, is_open: false, expires_at: 0, heartbeat_at: 0 };
        let mut processes = [Process::default(); 3];
        let mut now = Now { ms: 10_000, can_step };
        let mut writers: Vec<(usize, i64)> = Vec::new();
        for act in acts {
            let lease = |who| seen(row, who, &processes, sees_deaths);
            match act {
                Act::Take(who) if !processes[who].dead => {
                    if row.is_open && lease(who).is_live(now) {
                        continue;
                    }
                    if let Some(owner) = row.owner && owner != who && !processes[owner].dead && !can_step
                        && processes[owner].running == Some(row.epoch) {
                        prop_assert!(row.expires_at <= now.ms, "it was alive and in time");
                    }
                    let again = lease(who).continues(processes[who].idle);
                    if again {
                        prop_assert!(!row.is_open && row.owner == Some(who), "nobody has had it since");
                    }
                    let renewed = !again || !lease(who).is_fresh(now, LEASE);
                    row.epoch += i64::from(!again);
                    (row.owner, row.is_open) = (Some(who), true);
                    if renewed {
                        (row.expires_at, row.heartbeat_at) = (ends_at(now, LEASE), now.ms);
                    }
                    (processes[who].running, processes[who].idle) = (Some(row.epoch), None);
                    writers.push((who, row.epoch));
                }
                Act::Write(who) if !processes[who].dead => {
                    for (writer, epoch) in writers.iter().filter(|(writer, _)| *writer == who) {
                        let newest = *epoch == row.epoch && row.owner == Some(*writer);
                        prop_assert_eq!(lease(who).may_write(*epoch), newest);
                    }
                }
                Act::Beat(who)
                    if !processes[who].dead
                        && processes[who].running.is_some_and(|it| lease(who).may_write(it)) =>
                {
                    (row.expires_at, row.heartbeat_at) = (ends_at(now, LEASE), now.ms);
                }
                Act::Commit(who) if !processes[who].dead => {
                    let Some(epoch) = processes[who].running else { continue };
                    let may_write = lease(who).may_write(epoch);
                    processes[who].running = None;
                    if may_write {
                        row.is_open = false;
                        processes[who].idle = Some(epoch);
                    }
                }
                Act::GiveBack(who) if !processes[who].dead => {
                    let given = processes[who].running;
                    if given.is_some_and(|epoch| lease(who).may_write(epoch)) {
                        row.owner = None;
                    }
                    processes[who].running = None;
                }
                Act::Die(who) => processes[who].dead = true,
                Act::Wait(ms) => now.ms += ms,
                Act::Step(ms) if can_step => now.ms += ms,
                _ => {}
            }
        }
        // Some process eventually gets the session, whichever clock was set or process ended, unless one of them runs it.
        now.ms = now.ms.max(row.expires_at);
        let is_live = |who: &usize| row.is_open && seen(row, *who, &processes, sees_deaths).is_live(now);
        let live: Vec<usize> = (0..3).filter(is_live).collect();
        prop_assert!(live.iter().all(|who| row.owner == Some(*who)), "nobody waits for ever: {live:?}");
    }
}
