//! Stored events: they are read as they were emitted, after any number and for any division into batches.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::events::follow;
use crate::journal_rows::archive_rows::{self, Sweep};
use crate::journal_rows::{event_rows, run_rows};
use crate::lease::owner::Owner;
use model::{
    Follows, LiveRun, Retention, RunEvent, RunEventKind, RunNames, RunRegistration, SessionCommand,
    StorageErrorKind, StreamEvent,
};

fn run_event(seq: u64, kind: RunEventKind, message: &str, text: &str) -> RunEvent {
    let message_id = (kind != RunEventKind::Event).then(|| Arc::from(message));
    RunEvent { seq, kind, message_id, text: Arc::from(text), added: None }
}

fn names(turn_id: &str) -> RunNames {
    RunNames {
        turn_id: turn_id.to_owned(),
        run_id: format!("run-{turn_id}"),
        session_label: "main".to_owned(),
        resumes: false,
    }
}

fn any_event() -> impl Strategy<Value = (RunEventKind, String, String)> {
    let kind = prop_oneof![
        6 => Just(RunEventKind::Token),
        2 => Just(RunEventKind::Reasoning),
        1 => Just(RunEventKind::Event),
    ];
    (kind, "[ab]", prop_oneof![4 => ".{0,12}", 1 => "[\\n\\r\"\\\\🙂]{1,9}", 1 => "x{900,4000}"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn events_are_read_as_they_were_emitted_in_any_batches(
        given in prop::collection::vec(any_event(), 1..120),
        batches in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let all: Vec<RunEvent> = (1..)
            .zip(&given)
            .map(|(seq, (kind, message, text))| match kind {
                RunEventKind::Event => {
                    run_event(seq, *kind, "", &serde_json::json!({ "text": text }).to_string())
                }
                RunEventKind::Token | RunEventKind::Reasoning => run_event(seq, *kind, message, text),
            })
            .collect();
        let connection = memory();
        let n = add_run(&connection, "t");
        let (mut rest, mut sizes, mut last) = (all.as_slice(), batches.iter().cycle(), 0);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            // Of a transaction that is rolled back, the id of the entry may be that of a later one.
            connection.execute_batch("SAVEPOINT lost").unwrap();
            let lost = event_rows::append(&connection, n, last, rest, last == 0).unwrap();
            connection.execute_batch("ROLLBACK TO lost; RELEASE lost").unwrap();
            let run = run_rows::of_turn(&connection, "t").unwrap().unwrap();
            prop_assert_eq!(event_rows::last(&connection, &run, lost).unwrap(), last);
            let newest = event_rows::append(&connection, n, last, now, last == 0).unwrap();
            last = now.last().unwrap().seq;
            for newest in [0, lost, newest] {
                prop_assert_eq!(event_rows::last(&connection, &run, newest).unwrap(), last);
            }
            rest = later;
        }
        read_from_anywhere(&connection, &all)?;
        run_rows::end(&connection, n, NOW).unwrap();
        read_from_anywhere(&connection, &all)?;
        let mut sweep = Sweep::default();
        while archive_rows::slice(&connection, &mut sweep).unwrap() {
            read_from_anywhere(&connection, &all)?;
        }
        read_from_anywhere(&connection, &all)?;
        let run = run_rows::of_turn(&connection, "t").unwrap().unwrap();
        prop_assert!(run.is_archived());
        prop_assert_eq!(event_rows::last(&connection, &run, 0).unwrap(), last);
        prop_assert_eq!(count(&connection, "journal"), 1, "the newest entry stays");
    }
}

/// Every page of the events of turn `t`, from several numbers on.
fn read_from_anywhere(
    connection: &rusqlite::Connection,
    all: &[RunEvent],
) -> Result<(), TestCaseError> {
    let run = run_rows::of_turn(connection, "t").unwrap().unwrap();
    for after in [0, 1, all.len() / 2, all.len()] {
        let mut read = Vec::new();
        loop {
            let last = (after + read.len()) as u64;
            let (page, whole) = event_rows::read_some(connection, &run, last, 2_000).unwrap();
            read.extend(page);
            if whole {
                break;
            }
        }
        prop_assert_eq!(&read, &all[after.min(all.len())..]);
    }
    Ok(())
}

fn count(connection: &rusqlite::Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap()
}

/// Adds the run of a turn; returns its number, which its first entry must have.
fn add_run(connection: &rusqlite::Connection, turn_id: &str) -> i64 {
    let n = run_rows::next(connection).unwrap();
    let owner = Owner::this(&Clock::default());
    run_rows::add(connection, n, &names(turn_id), NOW, None, (Some(&owner), &owner)).unwrap().n
}

/// An empty database with the schema.
#[expect(clippy::disallowed_methods, reason = "a schema without a file")]
fn memory() -> rusqlite::Connection {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    crate::sqlite::checksum::add(&connection).unwrap();
    crate::sqlite::schema::migrate(&connection, crate::sqlite::schema::MIGRATIONS).unwrap();
    connection
}

#[test]
fn an_event_that_does_not_follow_the_last_one_is_refused() {
    let connection = memory();
    let n = add_run(&connection, "t");
    let gap =
        [run_event(1, RunEventKind::Token, "m", "a"), run_event(3, RunEventKind::Token, "m", "b")];
    let error = event_rows::append(&connection, n, 0, &gap, true).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Corrupt);
}

/// A run that emits the events of a test, and records its acknowledgements.
#[derive(Default)]
struct Run {
    emitted: Mutex<Vec<RunEvent>>,
    acknowledged: tokio::sync::watch::Sender<u64>,
    aborted: AtomicBool,
    stopped_storing: AtomicBool,
    nacked: AtomicBool,
    /// A simulated bug: the method that panics.
    broken: Option<Broken>,
}

#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Unstored,
    Ack,
}

impl LiveRun for Run {
    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }

    fn steer(&self, _text: &str) -> bool {
        true
    }

    fn newest(&self) -> u64 {
        self.emitted.lock().unwrap().last().map_or(0, |event| event.seq)
    }

    fn unstored(&self, after: u64) -> Vec<RunEvent> {
        assert!(self.broken != Some(Broken::Unstored), "a bug in a run");
        self.emitted.lock().unwrap().iter().filter(|emitted| emitted.seq > after).cloned().collect()
    }

    fn ack(&self, seq: u64) {
        assert!(self.broken != Some(Broken::Ack), "a bug in a run");
        self.acknowledged.send_replace(seq);
    }

    fn nack(&self) {
        self.nacked.store(true, Ordering::Relaxed);
    }

    fn refuse(&self, _error: &StorageError) {}

    fn stop_storing(&self) {
        self.stopped_storing.store(true, Ordering::Relaxed);
    }
}

fn registered(ledger: &Ledger, turn_id: &str) -> (Arc<Run>, Arc<dyn RunRegistration>) {
    let run = Arc::new(Run::default());
    let weak: std::sync::Weak<Run> = Arc::downgrade(&run);
    let registration = ledger.register(names(turn_id), weak).unwrap();
    (run, registration)
}

async fn emit(run: &Run, registration: &dyn RunRegistration, text: &str) {
    let seq = {
        let mut all = run.emitted.lock().unwrap();
        let seq = all.len() as u64 + 1;
        all.push(run_event(seq, RunEventKind::Token, "m", text));
        seq
    };
    registration.notify(true);
    run.acknowledged.subscribe().wait_for(|acknowledged| *acknowledged >= seq).await.unwrap();
}

#[tokio::test]
async fn the_last_event_is_in_the_transaction_of_the_turn() {
    let fixture = Fixture::new();
    let (run, registration) = registered(&fixture.ledger, "t0");
    emit(&run, &*registration, "a").await;
    run.emitted.lock().unwrap().push(run_event(2, RunEventKind::Token, "m", "b"));
    let end = StreamEvent::error("x".to_owned(), true);
    let mut refused = short_turn("t0", "main", Some("nobody"));
    refused.last_event = Some(end.clone());
    fixture.commit(refused).await.unwrap_err();
    let page = fixture.ledger.follow(Follows::Run("run-t0".to_owned()), 0).await.unwrap();
    assert_eq!((page.last, page.over), (1, false));
    let mut turn = short_turn("t0", "main", None);
    turn.last_event = Some(end);
    fixture.commit(turn).await.unwrap();
    drop(registration);
    let page = fixture.ledger.follow(Follows::Run("run-t0".to_owned()), 1).await.unwrap();
    assert_eq!((page.last, page.over), (3, true));
    assert_eq!(
        page.events,
        [
            r#"{"type":"token","text":"b","messageId":"m","seq":2}"#,
            // The stored event has no outcome: it is that of the row.
            &::conformance::live_run::ended_json(&short_turn("t0", "main", None), "x", 3)
        ]
    );
}

#[tokio::test]
async fn events_of_a_turn_whose_end_was_refused_are_written_by_its_next_step() {
    let fixture = Fixture::new();
    let (run, registration) = registered(&fixture.ledger, "t0");
    let turn = turn("t0", "main", None);
    let epoch = super::journal::begin(&fixture.ledger, &turn).await;
    emit(&run, &*registration, "a").await;
    let mut refused = super::ending(&turn, epoch, 1);
    refused.header.expected_head = Some("nobody".to_owned());
    refused.on_stale_head = model::OnStaleHead::Refuse;
    refused.last_event = Some(StreamEvent::error("x".to_owned(), true));
    fixture.ledger.commit(refused).await.unwrap_err();
    run.emitted.lock().unwrap().push(run_event(2, RunEventKind::Token, "m", "b"));
    fixture.ledger.record(super::step(&turn, epoch, 0..1, ToolCallStatus::Pending)).await.unwrap();
    assert_eq!(fixture.ledger.last_event("t0").await.unwrap(), 2);
}

/// A job that holds the writer's thread until it is released.
struct Hold {
    began: tokio::sync::oneshot::Receiver<()>,
    release: std::sync::mpsc::Sender<()>,
}

fn hold(ledger: &Ledger) -> Hold {
    let (begins, began) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel();
    let mut begins = Some(begins);
    drop(ledger.core().unwrap().writer.submit(move |_| {
        if let Some(begins) = begins.take() {
            begins.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok(())
    }));
    Hold { began, release }
}

#[tokio::test]
async fn a_flush_that_precedes_a_commit_point_writes_no_event_that_refers_to_its_rows() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let core = ledger.core().unwrap();
    let (run, registration) = registered(ledger, "t0");
    let turn = turn("t0", "main", None);
    let epoch = super::journal::begin(ledger, &turn).await;
    emit(&run, &*registration, "a").await;
    // The last flush has ended, so that the next event submits one.
    core.writer.submit(|_| Ok(())).await.unwrap();
    let first = hold(ledger);
    first.began.await.unwrap();
    let second = hold(ledger);
    run.emitted.lock().unwrap().push(run_event(2, RunEventKind::Token, "m", "b"));
    registration.notify(true);
    first.release.send(()).unwrap();
    second.began.await.unwrap();
    // The flush is in the transaction of the second one, and the commit point is in a later one.
    let third = hold(ledger);
    let recorded = ledger.record(super::step(&turn, epoch, 1..2, ToolCallStatus::Pending));
    let message = &turn.messages[1];
    let refers = format!(r#"{{"type":"user_message","messageId":"{}","seq":3}}"#, message.id);
    run.emitted.lock().unwrap().push(run_event(3, RunEventKind::Event, "", &refers));
    registration.notify(true);
    second.release.send(()).unwrap();
    third.began.await.unwrap();
    let file = reader(&fixture.path());
    let of = || Follows::Turn("t0".to_owned());
    let between = follow::events_after(&core.claim, &core.runs, of(), 0)(&file).unwrap();
    assert_eq!(between.page.last, 2, "{:?}", between.page.events);
    third.release.send(()).unwrap();
    recorded.await.unwrap();
    let file = reader(&fixture.path());
    let after = follow::events_after(&core.claim, &core.runs, of(), 2)(&file).unwrap();
    let text = serde_json::to_string(&model::EventRows::text_of(message)).unwrap();
    assert_eq!(after.page.last, 3);
    assert!(after.page.events[0].contains(&format!(r#""text":{text}"#)), "{:?}", after.page.events);
    assert_eq!(*run.acknowledged.borrow(), 3);
}

#[tokio::test]
async fn events_that_come_after_the_write_of_a_commit_point_are_written_when_it_ends() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let (run, registration) = registered(ledger, "t0");
    let turn = turn("t0", "main", None);
    let epoch = super::journal::begin(ledger, &turn).await;
    emit(&run, &*registration, "a").await;
    let first = hold(ledger);
    first.began.await.unwrap();
    let recorded = ledger.record(super::step(&turn, epoch, 1..2, ToolCallStatus::Pending));
    let second = hold(ledger);
    first.release.send(()).unwrap();
    // The commit point has written, in a transaction that has not ended.
    second.began.await.unwrap();
    run.emitted.lock().unwrap().push(run_event(2, RunEventKind::Token, "m", "b"));
    registration.notify(true);
    second.release.send(()).unwrap();
    recorded.await.unwrap();
    run.acknowledged.subscribe().wait_for(|acknowledged| *acknowledged == 2).await.unwrap();
    assert_eq!(ledger.last_event("t0").await.unwrap(), 2);
}

#[expect(clippy::disallowed_methods, reason = "a reader that stays at what it has seen")]
fn reader(path: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    crate::sqlite::checksum::add(&connection).unwrap();
    connection.execute_batch("BEGIN; SELECT count(*) FROM turns").unwrap();
    connection
}

#[tokio::test]
async fn a_run_that_ends_during_a_read_is_not_reported_as_interrupted() {
    let fixture = Fixture::new();
    let (run, registration) = registered(&fixture.ledger, "t0");
    let mut turn = short_turn("t0", "main", None);
    let epoch = super::journal::begin(&fixture.ledger, &turn).await;
    emit(&run, &*registration, "a").await;
    let reader = reader(&fixture.path());
    turn.last_event = Some(StreamEvent::error("x".to_owned(), true));
    fixture.ledger.commit(super::ending(&turn, epoch, 1)).await.unwrap();
    drop(registration);
    let core = fixture.ledger.core().unwrap();
    let of = || Follows::Turn("t0".to_owned());
    let before = follow::events_after(&core.claim, &core.runs, of(), 1)(&reader).unwrap();
    assert!(before.interrupted && !before.page.over, "what is read is older than the end");
    let now = fixture.ledger.follow(of(), 1).await.unwrap();
    assert_eq!((now.last, now.over), (2, true));
}

#[tokio::test]
async fn a_run_without_its_lease_writes_no_event() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    fixture.commit(short_turn("t0", "main", None)).await.unwrap();
    let (run, registration) = registered(&fixture.ledger, "t1");
    emit(&run, &*registration, "mine").await;
    core.runs.leased("t1", 7);
    run.emitted.lock().unwrap().push(run_event(2, RunEventKind::Token, "m", "not mine"));
    registration.notify(true);
    // This job runs after the batch, because the writer runs jobs in order.
    core.writer.submit(|_| Ok(())).await.unwrap();
    assert!(run.stopped_storing.load(Ordering::Relaxed));
    assert_eq!(fixture.ledger.last_event("t1").await.unwrap(), 1);
}

#[tokio::test]
async fn a_run_that_panics_in_a_batch_leaves_no_other_waiting() {
    for broken in [Broken::Unstored, Broken::Ack] {
        let fixture = Fixture::new();
        let core = fixture.ledger.core().unwrap();
        let (well, registration) = registered(&fixture.ledger, "t0");
        let bad = Arc::new(Run { broken: Some(broken), ..Run::default() });
        let weak: std::sync::Weak<Run> = Arc::downgrade(&bad);
        let other = fixture.ledger.register(names("t1"), weak).unwrap();
        // Both runs are in the batch that is written when the writer is free.
        let (release, held) = std::sync::mpsc::channel::<()>();
        let release_gate = core.writer.submit(move |_| {
            let _ = held.recv();
            Ok(())
        });
        for run in [&bad, &well] {
            run.emitted.lock().unwrap().push(run_event(1, RunEventKind::Token, "m", "a"));
        }
        other.notify(true);
        registration.notify(true);
        drop(release);
        release_gate.await.unwrap();
        // The other run is answered either way, and the writer continues.
        while *well.acknowledged.subscribe().borrow() != 1 && !well.nacked.load(Ordering::Relaxed) {
            core.writer.submit(|_| Ok(())).await.unwrap();
        }
        // The next commit point writes the remaining events, and the writer serves all runs.
        fixture.commit(short_turn("t0", "main", None)).await.unwrap();
        assert_eq!(fixture.ledger.last_event("t0").await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_command_without_a_run_is_refused() {
    let fixture = Fixture::new();
    fixture.commit(short_turn("t0", "main", None)).await.unwrap();
    let error = fixture.ledger.command("main", SessionCommand::Abort).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::NotRunning);
    assert_eq!(fixture.rows("SELECT count(*) AS n FROM session_commands").await, r#"[{"n":0}]"#);
}

/// Adds an ended run with this number of pieces in the archive.
fn add_archived(connection: &rusqlite::Connection, turn_id: &str, pieces: u64, ended_at: i64) {
    let n = add_run(connection, turn_id);
    let events: Vec<RunEvent> = (1..=pieces)
        .map(|seq| run_event(seq, RunEventKind::Token, "m", &"x".repeat(70_000)))
        .collect();
    event_rows::append(connection, n, 0, &events, true).unwrap();
    run_rows::end(connection, n, ended_at).unwrap();
    let mut sweep = Sweep::default();
    while archive_rows::slice(connection, &mut sweep).unwrap() {}
}

#[test]
fn old_events_are_deleted_a_few_pieces_at_a_time() {
    let connection = memory();
    add_archived(&connection, "t0", 300, NOW);
    add_archived(&connection, "t1", 300, NOW + 1);
    let n = add_run(&connection, "t2");
    event_rows::append(&connection, n, 0, &[run_event(1, RunEventKind::Token, "m", "a")], true)
        .unwrap();
    let retention = Retention { age: std::time::Duration::from_millis(10), turns: None };
    assert!(!archive_rows::trim(&connection, &retention, NOW + 9).unwrap());
    let mut left = vec![(count(&connection, "event_archive"), count(&connection, "runs"))];
    while archive_rows::trim(&connection, &retention, NOW + 11).unwrap() {
        left.push((count(&connection, "event_archive"), count(&connection, "runs")));
    }
    assert_eq!(left, [(600, 3), (344, 3), (300, 2), (44, 2), (0, 1)]);
    let turns = Retention { turns: Some(0), ..Retention::default() };
    assert!(
        !archive_rows::trim(&connection, &turns, NOW + 11).unwrap(),
        "events of a running turn stay"
    );
}

#[test]
fn a_long_run_does_not_stop_the_deletion_of_entries() {
    let connection = memory();
    let event = |seq| [run_event(seq, RunEventKind::Token, "m", "a")];
    let long = add_run(&connection, "long");
    event_rows::append(&connection, long, 0, &event(1), true).unwrap();
    let mut sweep = Sweep::default();
    let mut most = 0;
    for n in 0..6_000_u64 {
        let turn = format!("t{n}");
        let run = add_run(&connection, &turn);
        event_rows::append(&connection, run, 0, &event(1), true).unwrap();
        event_rows::append(&connection, run, 1, &event(2), false).unwrap();
        event_rows::append(&connection, long, n + 1, &event(n + 2), false).unwrap();
        run_rows::end(&connection, run, NOW).unwrap();
        if n % 64 == 63 {
            while archive_rows::slice(&connection, &mut sweep).unwrap() {}
            most = most.max(count(&connection, "journal") - i64::try_from(n).unwrap());
        }
    }
    assert!(most < 3_500, "{most} entries of ended runs");
    let run = run_rows::of_turn(&connection, "long").unwrap().unwrap();
    assert_eq!(event_rows::last(&connection, &run, 0).unwrap(), 6_001);
    run_rows::end(&connection, long, NOW).unwrap();
    while archive_rows::slice(&connection, &mut sweep).unwrap() {}
    assert_eq!((count(&connection, "journal"), count(&connection, "runs")), (1, 6_001));
}

#[test]
fn events_that_cannot_be_read_are_neither_archived_nor_deleted_nor_passed_over() {
    let connection = memory();
    let n = add_run(&connection, "t");
    for seq in 1..=3 {
        let event = [run_event(seq, RunEventKind::Token, "m", "a")];
        event_rows::append(&connection, n, seq - 1, &event, seq == 1).unwrap();
    }
    connection
        .execute("UPDATE journal SET entry = zeroblob(length(entry)) WHERE id = ?1", (n + 1,))
        .unwrap();
    run_rows::end(&connection, n, NOW).unwrap();
    let mut sweep = Sweep::default();
    for _ in 0..2 {
        while archive_rows::slice(&connection, &mut sweep).unwrap() {}
        assert_eq!(count(&connection, "journal"), 3);
        let run = run_rows::of_turn(&connection, "t").unwrap().unwrap();
        let error = event_rows::read(&connection, &run, 0).unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::Corrupt);
        assert!(error.message.contains("from `2` on are not as they were written"), "{error:?}");
    }
    let turns = Retention { turns: Some(0), ..Retention::default() };
    while archive_rows::trim(&connection, &turns, NOW + 11).unwrap() {}
    assert_eq!((count(&connection, "runs"), count(&connection, "journal")), (0, 1));
}

#[tokio::test]
async fn many_runs_are_counted_once_in_some_turns_and_few_after_each() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let to_check = |turns| {
        let retention = Retention { turns: Some(turns), ..Retention::default() };
        core.runs.to_check(&retention).turns
    };
    let mut counted = Vec::new();
    for number in 0..130 {
        assert_eq!(to_check(64), Some(64));
        if to_check(65).is_some() {
            counted.push(number);
        }
        let parent = (number > 0).then(|| format!("t{}", number - 1));
        let turn = short_turn(&format!("t{number}"), "main", parent.as_deref());
        fixture.commit(turn).await.unwrap();
    }
    assert_eq!(counted, [0, 64, 128]);
}
