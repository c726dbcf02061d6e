//! Leases between processes: the lease of a process without a heartbeat is valid until it expires, a session without a turn
//! goes to the process that waits for it longest, and a process whose session was taken over must never write again
//! (docs/rules/sessions-and-ledger.md#lease).

use std::time::Duration;

use crate::store::Fixture;
use crate::turns::{begin, ending, opening, release, step, turn};
use model::{LedgerPorts, Opened, StorageErrorKind, ToolCallStatus, TurnEnd};

/// Whether every read of this process shows that turn `t2` of `main` belongs to another process.
async fn is_busy(ledger: &LedgerPorts) -> bool {
    let third = turn("t3", "main", Some("t1"));
    let busy = match ledger.journal.begin(opening(&third)).await.unwrap() {
        Opened::Busy => true,
        Opened::Leased(epoch) => {
            release(ledger, &third, epoch);
            false
        }
        Opened::Moved | Opened::Parked(_) => panic!("no other process has moved or parked it"),
    };
    let interrupted = ledger.journal.interrupted(Some("t2")).await.unwrap();
    assert_eq!(interrupted.is_empty(), busy, "it runs, or it is interrupted");
    busy
}

pub async fn an_expired_lease_is_taken_over_and_its_former_process_writes_nothing_more(
    mut fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.other_process().await;
    let lease = fixture.store.lease();
    assert!(is_busy(&elsewhere).await);
    fixture.store.advance(lease - Duration::from_millis(1));
    assert!(is_busy(&elsewhere).await);
    assert!(matches!(elsewhere.journal.reopen("t2").await.unwrap(), Opened::Busy));
    fixture.store.advance(Duration::from_millis(1));
    let listed = elsewhere.journal.interrupted(None).await.unwrap();
    assert_eq!(listed.iter().map(|turn| turn.turn_id.as_str()).collect::<Vec<_>>(), ["t2"]);
    let Opened::Leased(taken) = elsewhere.journal.reopen("t2").await.unwrap() else {
        panic!("its time is up");
    };
    assert_eq!(taken.epoch, epoch + 1);
    // The process that lost the lease is alive, and its next write is refused.
    let journal = &fixture.ledger.journal;
    let before = fixture.store.contents().await;
    let late = journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await;
    assert_eq!(late.unwrap_err().kind, StorageErrorKind::StaleWriter);
    let late = journal.commit(ending(&second, epoch, 1)).await;
    assert_eq!(late.unwrap_err().kind, StorageErrorKind::StaleWriter);
    release(&fixture.ledger, &second, epoch);
    assert!(matches!(journal.reopen("t2").await.unwrap(), Opened::Busy), "it gave nothing back");
    assert_eq!(fixture.store.contents().await, before);
    let receipt = elsewhere.journal.commit(ending(&second, taken.epoch, 1)).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t2"));
    assert_eq!(fixture.ledger.journal.head("main").await.unwrap().as_deref(), Some("t2"));
}

pub async fn an_expired_lease_is_valid_for_its_owner_until_it_is_taken_over(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.other_process().await;
    fixture.store.advance(fixture.store.lease() * 3);
    let journal = &fixture.ledger.journal;
    journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    // Its write renewed the lease.
    assert!(is_busy(&elsewhere).await);
    journal.commit(ending(&second, epoch, 2)).await.unwrap();
    assert_eq!(elsewhere.journal.head("main").await.unwrap().as_deref(), Some("t2"));
}

pub async fn a_write_in_the_second_half_of_a_lease_renews_it(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.other_process().await;
    let two_thirds = fixture.store.lease() * 2 / 3;
    fixture.store.advance(two_thirds);
    let journal = &fixture.ledger.journal;
    journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    fixture.store.advance(two_thirds);
    assert!(is_busy(&elsewhere).await, "its time began again");
    fixture.store.advance(two_thirds);
    assert!(!is_busy(&elsewhere).await);
}

pub async fn a_session_is_free_for_every_process_as_soon_as_its_turn_has_ended(
    mut fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.other_process().await;
    assert!(is_busy(&elsewhere).await);
    fixture.ledger.journal.commit(ending(&second, epoch, 1)).await.unwrap();
    let third = turn("t3", "main", Some("t2"));
    let next = elsewhere.journal.begin(opening(&third)).await.unwrap();
    assert_eq!(next, Opened::Leased(epoch + 1));
    let own = fixture.ledger.journal.begin(opening(&turn("t4", "main", Some("t2")))).await;
    assert_eq!(own.unwrap(), Opened::Busy);
}

/// Opens a turn after `parent`; `None` while the session is busy.
async fn begun(ledger: &LedgerPorts, id: &str, parent: &str) -> Option<i64> {
    match ledger.journal.begin(opening(&turn(id, "main", Some(parent)))).await.unwrap() {
        Opened::Leased(epoch) => Some(epoch),
        Opened::Busy => None,
        Opened::Moved | Opened::Parked(_) => panic!("the parent is the head, and nothing waits"),
    }
}

async fn end(ledger: &LedgerPorts, id: &str, parent: &str, epoch: i64) {
    let ended = turn(id, "main", Some(parent));
    ledger.journal.commit(ending(&ended, epoch, 1)).await.unwrap();
}

pub async fn a_process_that_waits_for_a_session_has_it_after_the_turn_that_runs(
    mut fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let first = fixture.ledger.clone();
    let second = fixture.store.other_process().await;
    let third = fixture.store.other_process().await;
    let epoch = begun(&first, "t2", "t1").await.unwrap();
    assert_eq!(begun(&second, "t3", "t1").await, None);
    assert_eq!(begun(&third, "t4", "t1").await, None);
    end(&first, "t2", "t1", epoch).await;
    // The process that ran the session joins the queue behind those that have waited.
    assert_eq!(begun(&first, "t5", "t2").await, None);
    assert_eq!(begun(&third, "t4", "t2").await, None);
    // It read the session before the turn ended, and remains the first while it reads it again.
    let read_before = opening(&turn("t3", "main", Some("t1")));
    assert_eq!(second.journal.begin(read_before).await.unwrap(), Opened::Moved);
    assert_eq!(begun(&first, "t5", "t2").await, None);
    let epoch = begun(&second, "t3", "t2").await.unwrap();
    end(&second, "t3", "t2", epoch).await;
    assert_eq!(begun(&second, "t6", "t3").await, None, "one turn, then the next process");
    let epoch = begun(&third, "t4", "t3").await.unwrap();
    end(&third, "t4", "t3", epoch).await;
    let epoch = begun(&first, "t5", "t4").await.unwrap();
    end(&first, "t5", "t4", epoch).await;
    let epoch = begun(&second, "t6", "t5").await.unwrap();
    end(&second, "t6", "t5", epoch).await;
    // Nobody waits any more.
    begun(&second, "t7", "t6").await.unwrap();
}

pub async fn a_process_that_stops_waiting_delays_no_other(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let first = fixture.ledger.clone();
    let [second, third] =
        [fixture.store.other_process().await, fixture.store.other_process().await];
    let epoch = begun(&first, "t2", "t1").await.unwrap();
    for waiting in [&second, &third] {
        assert_eq!(begun(waiting, "t3", "t1").await, None);
    }
    end(&first, "t2", "t1", epoch).await;
    assert_eq!(begun(&first, "t4", "t2").await, None);
    second.journal.stop_waiting("main");
    written(&second).await;
    assert_eq!(begun(&first, "t4", "t2").await, None, "the third one still waits");
    // A process that hangs keeps its place as long as a lease.
    fixture.store.advance(fixture.store.lease());
    begun(&first, "t4", "t2").await.unwrap();
}

/// Waits until what was submitted before is written.
async fn written(ledger: &LedgerPorts) {
    ledger.admin.uncompact("nobody").await.unwrap_err();
}

/// A turn that was begun.
#[derive(Clone)]
struct Begun {
    turn: TurnEnd,
    who: usize,
    epoch: i64,
}

/// A process in the queue, and whether its entry has not expired.
#[derive(Clone, Copy, PartialEq)]
struct Waits {
    who: usize,
    is_live: bool,
}

/// What every process must see of the session `main`.
struct Expected {
    head: String,
    running: Option<Begun>,
    /// Whether the lease of the running turn has not expired.
    is_live: bool,
    queue: Vec<Waits>,
    /// The newest epoch, and the process that may use it again.
    newest: (i64, Option<usize>),
    /// Turns that their processes may not write any more.
    over: Vec<Begun>,
    committed: usize,
}

impl Expected {
    /// Whether `who` may begin a turn now.
    fn is_free(&self, who: usize) -> bool {
        let runs = self.running.as_ref().is_some_and(|it| it.who == who || self.is_live);
        let earlier = self.queue.iter().take_while(|waits| waits.who != who);
        !runs && !earlier.into_iter().any(|waits| waits.is_live)
    }

    fn waits(&mut self, who: usize) {
        if self.running.as_ref().is_some_and(|it| it.who == who) {
            return;
        }
        if let Some(own) = self.queue.iter_mut().find(|waits| waits.who == who) {
            own.is_live = true;
            return;
        }
        self.queue.retain(|waits| waits.is_live);
        self.queue.push(Waits { who, is_live: true });
    }
}

pub async fn three_processes_share_a_session_in_any_order_of_events(mut fixture: Fixture) {
    fixture.commit(turn("t000", "main", None)).await.unwrap();
    let processes = [
        fixture.ledger.clone(),
        fixture.store.other_process().await,
        fixture.store.other_process().await,
    ];
    let mut expected = Expected {
        head: "t000".to_owned(),
        running: None,
        is_live: false,
        queue: Vec::new(),
        newest: (0, None),
        over: Vec::new(),
        committed: 1,
    };
    let mut random = 7_u64;
    let mut roll = move |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    let (mut again, mut waited) = (0, 0);
    for number in 1..600 {
        let who = roll(3) as usize;
        let ledger = &processes[who];
        match roll(20) {
            // Most turns begin and end.
            0..=8 => {
                let begins = turn(&format!("t{number:03}"), "main", Some(&expected.head));
                let answer = ledger.journal.begin(opening(&begins)).await.unwrap();
                if !expected.is_free(who) {
                    assert_eq!(answer, Opened::Busy, "{number}");
                    expected.waits(who);
                    continue;
                }
                let Opened::Leased(epoch) = answer else { panic!("{number}: {answer:?}") };
                let (newest, idle) = expected.newest;
                assert!(epoch > newest || epoch == newest && idle == Some(who), "{number}");
                again += u32::from(epoch == newest);
                let before = expected.queue.len();
                expected.queue.retain(|waits| waits.who != who);
                waited += before - expected.queue.len();
                expected.over.extend(expected.running.take());
                expected.running = Some(Begun { turn: begins, who, epoch });
                (expected.newest, expected.is_live) = ((epoch, None), true);
            }
            9..=14 => {
                let Some(Begun { turn, who, epoch }) = expected.running.take() else { continue };
                let receipt = processes[who].journal.commit(ending(&turn, epoch, 1)).await.unwrap();
                assert_eq!(receipt.head.as_deref(), Some(turn.turn_id.as_str()));
                expected.head.clone_from(&turn.turn_id);
                expected.newest.1 = Some(who);
                expected.over.push(Begun { turn, who, epoch });
                expected.committed += 1;
            }
            15 => {
                let Some(running) = &expected.running else { continue };
                let step = step(&running.turn, running.epoch, 1..2, ToolCallStatus::Running);
                processes[running.who].journal.record(step).await.unwrap();
                expected.is_live = true;
            }
            16 => {
                // It ends without a commit.
                let Some(running) = expected.running.take() else { continue };
                release(&processes[running.who], &running.turn, running.epoch);
                written(&processes[running.who]).await;
                expected.over.push(running);
            }
            17 => {
                ledger.journal.stop_waiting("main");
                written(ledger).await;
                expected.queue.retain(|waits| waits.who != who);
            }
            18 => {
                fixture.store.advance(fixture.store.lease());
                expected.is_live = false;
                for waits in &mut expected.queue {
                    waits.is_live = false;
                }
            }
            _ => {
                let Some(late) = (!expected.over.is_empty())
                    .then(|| &expected.over[roll(expected.over.len() as u64) as usize])
                else {
                    continue;
                };
                let journal = &processes[late.who].journal;
                let step = step(&late.turn, late.epoch, 1..2, ToolCallStatus::Running);
                let error = journal.record(step).await.unwrap_err();
                assert_eq!(error.kind, StorageErrorKind::StaleWriter, "{number}");
                let error = journal.commit(ending(&late.turn, late.epoch, 1)).await.unwrap_err();
                assert_eq!(error.kind, StorageErrorKind::StaleWriter, "{number}");
                release(&processes[late.who], &late.turn, late.epoch);
                written(&processes[late.who]).await;
            }
        }
    }
    assert!(again > 5 && waited > 20, "{again} leases were used again, {waited} turns had waited");
    let contents = fixture.store.contents().await;
    assert_eq!(contents.turns, expected.committed);
    let thread = contents.threads.iter().find(|thread| thread.turn_id == expected.head).unwrap();
    assert_eq!(thread.ancestry.len(), expected.committed, "one thread");
}
