//! The events of runs: delivered events must never be withdrawn, even if the process of the run ends.

use crate::live_run::{PlayedRun, ended_json, error_event};
use crate::store::{Fixture, ProcessEnd};
use crate::turns::{begin, ending, opening, short_turn};
use model::{
    Cursor, Follows, LedgerPorts, Opened, RunFilter, RunStatus, StorageErrorKind, TurnEnd,
};

/// After the id of every turn.
const LAST: &str = "t9";

/// The events that a reader of a run has received.
#[derive(Default)]
struct Seen {
    events: Vec<String>,
    last: u64,
    over: bool,
}

impl Seen {
    async fn next_page(&mut self, ledger: &LedgerPorts, turn_id: &str) {
        let of = Follows::Turn(turn_id.to_owned());
        let page = ledger.read.follow(of, self.last).await.unwrap();
        assert_eq!(page.last, self.last + page.events.len() as u64, "without a gap");
        self.events.extend(page.events);
        (self.last, self.over) = (page.last, page.over);
    }

    /// Follows until it has `count` events.
    async fn until(&mut self, ledger: &LedgerPorts, turn_id: &str, count: usize) {
        while self.events.len() < count {
            assert!(!self.over, "the run has not ended");
            self.next_page(ledger, turn_id).await;
        }
    }
}

/// All events that a later reader receives.
async fn replay(ledger: &LedgerPorts, turn_id: &str) -> Vec<String> {
    let mut seen = Seen::default();
    while !seen.over {
        seen.next_page(ledger, turn_id).await;
    }
    seen.events
}

pub async fn after_a_kill_the_events_of_a_follower_are_a_prefix_of_a_later_followers(
    mut fixture: Fixture,
) {
    for seen in 1..=12 {
        let (id, label) = (format!("t{seen:02}"), format!("s{seen}"));
        let turn = short_turn(&id, &label, None);
        let run = PlayedRun::new(&fixture.ledger, &turn);
        begin(&fixture.ledger, &turn).await;
        let elsewhere = fixture.store.other_process().await;
        let (mut here, mut there) = (Seen::default(), Seen::default());
        let mut emitted = Vec::new();
        for number in 1..=seen {
            emitted.push(match number % 4 {
                3 => run.emit_control(&format!("control {number}")),
                other => run.emit(&format!("text {number}"), other == 0),
            });
            // The first half is read one by one, the others in pages.
            if number <= seen / 2 {
                here.until(&fixture.ledger, &id, number).await;
            }
        }
        here.until(&fixture.ledger, &id, seen).await;
        there.until(&elsewhere, &id, seen.div_ceil(2)).await;
        // No reader has received these.
        emitted.extend((0..3).map(|number| run.emit(&format!("unseen {number}"), number == 2)));
        let acknowledged = usize::try_from(run.acknowledged()).unwrap();
        fixture.next_process(ProcessEnd::Killed).await;
        drop(run);
        let later = replay(&fixture.ledger, &id).await;
        assert!(later.len() >= acknowledged, "killed after {seen}");
        for followed in [&here, &there] {
            let retained = later.get(..followed.events.len());
            assert_eq!(retained, Some(followed.events.as_slice()), "killed after {seen}");
        }
        assert_eq!(Some(later.as_slice()), emitted.get(..later.len()), "killed after {seen}");
    }
}

pub async fn a_resumed_turn_continues_after_the_events_that_were_seen(mut fixture: Fixture) {
    let turn = short_turn("t1", "main", None);
    let run = PlayedRun::new(&fixture.ledger, &turn);
    begin(&fixture.ledger, &turn).await;
    let mut expected = vec![run.emit("a", true), run.emit("b", true)];
    let mut seen = Seen::default();
    seen.until(&fixture.ledger, "t1", 2).await;
    fixture.next_process(ProcessEnd::Killed).await;
    drop(run);
    let ledger = &fixture.ledger;
    assert_eq!(ledger.read.last_event("t1").await.unwrap(), 2);
    let run = PlayedRun::resuming(ledger, &turn, 2);
    let Opened::Leased(open) = ledger.journal.reopen("t1").await.unwrap() else {
        panic!("its process has ended");
    };
    expected.push(run.emit("c", false));
    seen.until(ledger, "t1", 3).await;
    assert_eq!(seen.events, expected);
    // Events that are not stored yet are written with the end of the turn, before its terminal event.
    expected.push(run.emit("d", false));
    let mut ended = ending(&turn, open.epoch, 1);
    ended.last_event = Some(error_event("it broke"));
    ledger.journal.commit(ended).await.unwrap();
    drop(run);
    expected.push(ended_json(&turn, "it broke", 5));
    while !seen.over {
        seen.next_page(ledger, "t1").await;
    }
    assert_eq!(seen.events, expected);
    fixture.next_process(ProcessEnd::Killed).await;
    assert_eq!(replay(&fixture.ledger, "t1").await, expected);
}

pub async fn a_refused_end_is_no_event(fixture: Fixture) {
    let turn = short_turn("t1", "main", None);
    let run = PlayedRun::new(&fixture.ledger, &turn);
    let epoch = begin(&fixture.ledger, &turn).await;
    let mut expected = vec![run.emit("a", true)];
    let mut seen = Seen::default();
    seen.until(&fixture.ledger, "t1", 1).await;
    let mut refused = ending(&turn, epoch, 1);
    // The calls refer to a message that does not exist.
    refused.tool_calls = crate::turns::turn("t1", "main", None).tool_calls;
    refused.last_event = Some(error_event("too early"));
    let error = fixture.ledger.journal.commit(refused).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
    expected.push(run.emit("b", true));
    let mut ended = ending(&turn, epoch, 1);
    ended.last_event = Some(error_event("it broke"));
    fixture.ledger.journal.commit(ended).await.unwrap();
    drop(run);
    expected.push(ended_json(&turn, "it broke", 3));
    assert_eq!(replay(&fixture.ledger, "t1").await, expected);
}

pub async fn a_session_is_watched_from_run_to_run_without_a_gap(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let mut expected = Vec::new();
    let (mut cursor, mut watched): (Option<Cursor>, _) = (None, Vec::new());
    for (id, parent) in [("t1", None), ("t2", Some("t1"))] {
        let turn = short_turn(id, "main", parent);
        let run = PlayedRun::new(ledger, &turn);
        let epoch = begin(ledger, &turn).await;
        let names = |event: String| (format!("run-{id}"), id.to_owned(), event);
        expected.push(names(run.emit("a", true)));
        while watched.len() < expected.len() {
            let page = ledger.read.watch("main", cursor.clone(), LAST).await.unwrap();
            watched.extend(page.events);
            cursor = Some(page.cursor);
        }
        let mut ended = ending(&turn, epoch, 1);
        ended.last_event = Some(error_event("over"));
        ledger.journal.commit(ended).await.unwrap();
        expected.push(names(ended_json(&turn, "over", 2)));
    }
    while watched.len() < expected.len() {
        let page = ledger.read.watch("main", cursor.clone(), LAST).await.unwrap();
        watched.extend(page.events);
        cursor = Some(page.cursor);
    }
    assert_eq!(watched, expected);
    // Who watches from before the second run on reads that as well, though it has ended.
    let page = ledger.read.watch("main", None, "t1").await.unwrap();
    assert_eq!(page.events, expected[2..]);
    let page = ledger.read.watch("main", None, LAST).await.unwrap();
    assert_eq!(page.events, []);
}

pub async fn a_run_without_events_is_refused_with_the_reason(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    for (of, kind) in [
        (Follows::Turn("t1".to_owned()), StorageErrorKind::EventsExpired),
        (Follows::Run("run-t1".to_owned()), StorageErrorKind::EventsExpired),
        (Follows::Turn("t2".to_owned()), StorageErrorKind::UnknownRun),
        (Follows::Run("run-t2".to_owned()), StorageErrorKind::UnknownRun),
    ] {
        assert_eq!(fixture.ledger.read.follow(of, 0).await.unwrap_err().kind, kind);
    }
}

/// The run of `turn` waits for the session, which another turn has.
async fn waits(ledger: &LedgerPorts, turn: &TurnEnd) {
    let opened = ledger.journal.begin(opening(turn)).await.unwrap();
    assert!(matches!(opened, Opened::Busy), "{opened:?}");
}

/// The id of the run's turn and where it is, once the ledger has the run.
async fn found(ledger: &LedgerPorts, run_id: &str) -> (String, RunStatus) {
    loop {
        if let Some(run) = ledger.read.run_info(run_id).await.unwrap() {
            return (run.turn_id, run.status);
        }
    }
}

pub async fn a_run_that_waits_for_its_session_is_known_to_every_process(mut fixture: Fixture) {
    let first = short_turn("t1", "main", None);
    let running = PlayedRun::new(&fixture.ledger, &first);
    let epoch = begin(&fixture.ledger, &first).await;
    let before = running.emit("a", true);
    let elsewhere = fixture.store.other_process().await;
    let second = short_turn("t2", "main", Some("t1"));
    let waiting = PlayedRun::new(&elsewhere, &second);
    let mut expected = vec![waiting.emit("it waits", true)];
    waits(&elsewhere, &second).await;
    let ledger = &fixture.ledger;
    assert_eq!(found(ledger, "run-t2").await, ("t2".to_owned(), RunStatus::Waiting));
    let filter = RunFilter { session: Some("main".to_owned()), ..RunFilter::default() };
    let listed = ledger.read.runs(filter).await.unwrap();
    let listed = listed.items.iter().map(|run| (run.turn_id.as_str(), run.status));
    let both = [("t2", RunStatus::Waiting), ("t1", RunStatus::Running)];
    assert_eq!(listed.collect::<Vec<_>>(), both);
    // Its events are delivered before it has a turn.
    let mut seen = Seen::default();
    seen.until(ledger, "t2", 1).await;
    assert_eq!(seen.events, expected);
    assert_eq!(waiting.acknowledged(), 1);
    let mut watched: Vec<(String, String)> = Vec::new();
    let mut cursor = None;
    while watched.len() < 2 {
        let page = ledger.read.watch("main", cursor, LAST).await.unwrap();
        watched.extend(page.events.into_iter().map(|(_, turn, event)| (turn, event)));
        cursor = Some(page.cursor);
    }
    let names = |turn: &str, event: &str| (turn.to_owned(), event.to_owned());
    watched.sort();
    assert_eq!(watched, [names("t1", &before), names("t2", &expected[0])]);
    // Its id is used, in any session.
    let mut same = short_turn("t3", "other", None);
    same.header.run_id = "run-t2".to_owned();
    let refused = ledger.journal.begin(opening(&same)).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::DuplicateRun);
    // Its turn takes its place, and its events go on.
    ledger.journal.commit(ending(&first, epoch, 1)).await.unwrap();
    drop(running);
    let epoch = begin(&elsewhere, &second).await;
    assert_eq!(found(ledger, "run-t2").await, ("t2".to_owned(), RunStatus::Running));
    let mut ended = ending(&second, epoch, 1);
    ended.last_event = Some(error_event("over"));
    elsewhere.journal.commit(ended).await.unwrap();
    expected.push(ended_json(&second, "over", 2));
    assert_eq!(replay(ledger, "t2").await, expected);
    watched.clear();
    while !watched.iter().any(|(turn, _)| turn == "t2") {
        let page = ledger.read.watch("main", cursor, LAST).await.unwrap();
        watched.extend(page.events.into_iter().map(|(_, turn, event)| (turn, event)));
        cursor = Some(page.cursor);
    }
    watched.retain(|(turn, _)| turn == "t2");
    assert_eq!(watched, [names("t2", &expected[1])]);
}

pub async fn the_id_of_a_run_that_waited_is_free_after_the_end_of_its_process(
    mut fixture: Fixture,
) {
    let first = short_turn("t1", "main", None);
    begin(&fixture.ledger, &first).await;
    let elsewhere = fixture.store.other_process().await;
    let second = short_turn("t2", "main", Some("t1"));
    let waiting = PlayedRun::new(&elsewhere, &second);
    waiting.emit("lost", true);
    waits(&elsewhere, &second).await;
    assert_eq!(found(&fixture.ledger, "run-t2").await, ("t2".to_owned(), RunStatus::Waiting));
    fixture.next_process(ProcessEnd::Killed).await;
    let ledger = &fixture.ledger;
    assert_eq!(found(ledger, "run-t2").await, ("t2".to_owned(), RunStatus::Interrupted));
    let mut again = short_turn("t3", "other", None);
    again.header.run_id = "run-t2".to_owned();
    let run = PlayedRun::new(ledger, &again);
    let mut expected = vec![run.emit("anew", true)];
    let epoch = begin(ledger, &again).await;
    let mut ended = ending(&again, epoch, 1);
    ended.last_event = Some(error_event("over"));
    ledger.journal.commit(ended).await.unwrap();
    expected.push(ended_json(&again, "over", 2));
    assert_eq!(found(ledger, "run-t2").await, ("t3".to_owned(), RunStatus::Completed));
    assert_eq!(replay(ledger, "t3").await, expected);
    let lost = ledger.read.follow(Follows::Turn("t2".to_owned()), 0).await.unwrap_err();
    assert_eq!(lost.kind, StorageErrorKind::UnknownRun);
    // Until here: the end of a run removes its row, and a killed process has none.
    drop(waiting);
}
