//! Stored events: those that are written in batches of any size are read event for event, from any number on.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::events::{event_log, follow};
use crate::lease::owner::Owner;
use model::{
    Follows, LiveRun, Retention, RunEvent, RunEventKind, RunNames, RunRegistration, SessionCommand,
    StorageErrorKind, StreamEvent,
};

fn event(seq: u64, kind: RunEventKind, message: &str, text: &str) -> RunEvent {
    let message_id = (kind != RunEventKind::Event).then(|| Arc::from(message));
    RunEvent { seq, kind, message_id, text: Arc::from(text) }
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
    fn events_are_read_as_they_were_emitted_whatever_the_batches(
        given in prop::collection::vec(any_event(), 1..120),
        batches in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let all: Vec<RunEvent> = (1..)
            .zip(&given)
            .map(|(seq, (kind, message, text))| match kind {
                RunEventKind::Event => {
                    event(seq, *kind, "", &serde_json::json!({ "text": text }).to_string())
                }
                RunEventKind::Token | RunEventKind::Reasoning => event(seq, *kind, message, text),
            })
            .collect();
        let connection = memory();
        let owner = Owner::this(&Clock::default());
        let log = event_log::open(&connection, &names("t"), &owner, NOW).unwrap();
        let (mut rest, mut sizes) = (all.as_slice(), batches.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            let tail = event_log::tail(&connection, log).unwrap();
            event_log::append(&connection, log, tail, now).unwrap();
            rest = later;
        }
        for after in [0, 1, given.len() / 2, given.len()] {
            let mut read = Vec::new();
            loop {
                let last = (after + read.len()) as u64;
                let (page, whole) = event_log::read(&connection, log, last, 3).unwrap();
                read.extend(page);
                if whole {
                    break;
                }
            }
            prop_assert_eq!(&read, &all[after..]);
        }
    }
}

/// A database with the schema and nothing else.
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
    let log =
        event_log::open(&connection, &names("t"), &Owner::this(&Clock::default()), NOW).unwrap();
    let gap = [event(1, RunEventKind::Token, "m", "a"), event(3, RunEventKind::Token, "m", "b")];
    let error = event_log::append(&connection, log, None, &gap).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Corrupt);
}

/// A run that has emitted the events of a test, and records how they are acknowledged.
#[derive(Default)]
struct Run {
    events: Mutex<Vec<RunEvent>>,
    acknowledged: tokio::sync::watch::Sender<u64>,
    aborted: AtomicBool,
    stopped: AtomicBool,
    failed: AtomicBool,
    /// A bug: it panics when its events are requested, or when they are acknowledged.
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

    fn unstored(&self, after: u64) -> Vec<RunEvent> {
        assert!(self.broken != Some(Broken::Unstored), "a bug in a run");
        self.events.lock().unwrap().iter().filter(|event| event.seq > after).cloned().collect()
    }

    fn ack(&self, seq: u64) {
        assert!(self.broken != Some(Broken::Ack), "a bug in a run");
        self.acknowledged.send_replace(seq);
    }

    fn nack(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn stop_storing(&self) {
        self.stopped.store(true, Ordering::Relaxed);
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
        let mut all = run.events.lock().unwrap();
        let seq = all.len() as u64 + 1;
        all.push(event(seq, RunEventKind::Token, "m", text));
        seq
    };
    registration.notify(true);
    run.acknowledged.subscribe().wait_for(|last| *last >= seq).await.unwrap();
}

#[tokio::test]
async fn the_last_event_is_in_the_transaction_of_the_turn() {
    let fixture = Fixture::new();
    let (run, registration) = registered(&fixture.ledger, "t0");
    emit(&run, &*registration, "a").await;
    run.events.lock().unwrap().push(event(2, RunEventKind::Token, "m", "b"));
    let end = StreamEvent::StreamError { error: "x".to_owned(), partial: true, seq: 0 };
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
            r#"{"type":"stream_error","error":"x","partial":true,"seq":3}"#
        ]
    );
}

#[expect(clippy::disallowed_methods, reason = "a reader that stays at what it has seen")]
fn reader(path: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    crate::sqlite::checksum::add(&connection).unwrap();
    connection.execute_batch("BEGIN; SELECT count(*) FROM turns").unwrap();
    connection
}

#[tokio::test]
async fn a_run_that_ends_while_it_is_read_is_not_taken_for_one_that_nobody_runs() {
    let fixture = Fixture::new();
    let (run, registration) = registered(&fixture.ledger, "t0");
    let mut turn = short_turn("t0", "main", None);
    let epoch = super::journal::begin(&fixture.ledger, &turn).await;
    emit(&run, &*registration, "a").await;
    let reader = reader(&fixture.path());
    turn.last_event =
        Some(StreamEvent::StreamError { error: "x".to_owned(), partial: true, seq: 0 });
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
async fn who_lost_the_lease_writes_no_event() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    fixture.commit(short_turn("t0", "main", None)).await.unwrap();
    let (run, registration) = registered(&fixture.ledger, "t1");
    emit(&run, &*registration, "mine").await;
    core.runs.leased("t1", 7);
    run.events.lock().unwrap().push(event(2, RunEventKind::Token, "m", "not mine"));
    registration.notify(true);
    // Behind the batch: the writer serves one after the other.
    core.writer.submit(|_| Ok(())).await.unwrap();
    assert!(run.stopped.load(Ordering::Relaxed));
    assert_eq!(fixture.rows("SELECT max(seq) AS last FROM run_events").await, r#"[{"last":1}]"#);
}

#[tokio::test]
async fn a_run_that_panics_in_a_batch_leaves_no_other_waiting() {
    for broken in [Broken::Unstored, Broken::Ack] {
        let fixture = Fixture::new();
        let core = fixture.ledger.core().unwrap();
        let (well, registration) = registered(&fixture.ledger, "t0");
        let bad = Arc::new(Run { broken: Some(broken), ..Run::default() });
        let weak: std::sync::Weak<Run> = Arc::downgrade(&bad);
        let bad_registration = fixture.ledger.register(names("t1"), weak).unwrap();
        // Both are in the flush that is written when the writer has time.
        let (release, held) = std::sync::mpsc::channel::<()>();
        let gate = core.writer.submit(move |_| {
            let _ = held.recv();
            Ok(())
        });
        for run in [&bad, &well] {
            run.events.lock().unwrap().push(event(1, RunEventKind::Token, "m", "a"));
        }
        bad_registration.notify(true);
        registration.notify(true);
        drop(release);
        gate.await.unwrap();
        core.writer.submit(|_| Ok(())).await.unwrap();
        core.writer.submit(|_| Ok(())).await.unwrap();
        let written = *well.acknowledged.subscribe().borrow() == 1;
        assert!(written || well.failed.load(Ordering::Relaxed), "it is answered either way");
        // What could not be written goes with the next commit point, and the writer serves everybody.
        fixture.commit(short_turn("t0", "main", None)).await.unwrap();
        assert_eq!(
            fixture.rows("SELECT seq FROM run_events r JOIN event_logs l ON l.id = r.log_id WHERE l.turn_id = 't0'").await,
            r#"[{"seq":1}]"#
        );
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

#[test]
fn old_events_go_a_few_rows_at_a_time() {
    let connection = memory();
    let owner = Owner::this(&Clock::default());
    for turn in 0..3 {
        let log = event_log::open(&connection, &names(&format!("t{turn}")), &owner, NOW).unwrap();
        // A row each.
        let long: Vec<RunEvent> =
            (1..=300).map(|seq| event(seq, RunEventKind::Token, "m", &"x".repeat(4_000))).collect();
        event_log::append(&connection, log, None, &long).unwrap();
        if turn < 2 {
            event_log::end(&connection, log, NOW + turn).unwrap();
        }
    }
    let rows = || -> i64 {
        connection.query_row("SELECT count(*) FROM run_events", (), |row| row.get(0)).unwrap()
    };
    let retention = Retention { age: std::time::Duration::from_millis(10), turns: None };
    assert!(!event_log::trim(&connection, &retention, NOW + 9).unwrap());
    let mut left = vec![rows()];
    while event_log::trim(&connection, &retention, NOW + 11).unwrap() {
        left.push(rows());
    }
    assert_eq!(left, [900, 644, 600, 344, 300]);
    let turns = Retention { turns: Some(0), ..Retention::default() };
    assert!(!event_log::trim(&connection, &turns, NOW + 11).unwrap(), "a run under way stays");
}
