//! The writer: groups, isolated failures of jobs, full disks, panics, and closing.

use futures_util::future::join_all;

use super::*;
use crate::sqlite::error;
use crate::sqlite::writer::{Job, Writer};
use model::StorageErrorKind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_sessions_commit_together_and_none_is_lost() {
    let fixture = Fixture::new();
    let sessions = (0..10).map(|session| {
        let fixture = &fixture;
        async move {
            let label = format!("s{session}");
            let mut head: Option<String> = None;
            for number in 0..20 {
                let id = format!("{label}-{number}");
                let receipt = fixture.commit(turn(&id, &label, head.as_deref())).await.unwrap();
                assert_eq!(receipt.head.as_deref(), Some(id.as_str()));
                head = receipt.head;
            }
        }
    });
    join_all(sessions).await;
    assert_eq!(
        fixture.counts().await,
        r#"[{"turns":200,"messages":800,"calls":200,"sessions":10,"moves":200}]"#
    );
}

/// A job that blocks the writer until the sender is dropped, so that what is submitted meanwhile is queued.
fn gate(
    writer: &Writer,
) -> (std::sync::mpsc::Sender<()>, impl Future<Output = Result<(), StorageError>> + use<>) {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let gate = writer.submit(move |_| {
        // Also when the job is run a second time.
        let _ = held.recv();
        Ok(())
    });
    (release, gate)
}

#[tokio::test]
async fn a_failed_job_affects_no_other_job() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let (release, gate) = gate(&core.writer);
    let results = [
        fixture.ledger.commit(Box::new(turn("a", "a", None))),
        fixture.ledger.commit(Box::new(turn("b", "b", Some("missing")))),
        fixture.ledger.commit(Box::new(turn("c", "c", None))),
        fixture.ledger.commit(Box::new(turn("a", "d", None))),
        fixture.ledger.commit(Box::new(turn("e", "e", None))),
    ];
    let panicking =
        core.writer.submit(|_| -> Result<(), StorageError> { panic!("a bug in a job") });
    drop(release);
    gate.await.unwrap();
    let outcomes: Vec<_> = join_all(results)
        .await
        .into_iter()
        .map(|result| result.map(|receipt| receipt.turn_id).map_err(|error| error.kind))
        .collect();
    assert_eq!(
        outcomes,
        [
            Ok("a".to_owned()),
            Err(StorageErrorKind::StaleHead),
            Ok("c".to_owned()),
            Err(StorageErrorKind::Constraint),
            Ok("e".to_owned()),
        ]
    );
    assert_eq!(panicking.await.unwrap_err().kind, StorageErrorKind::Io);
    assert_eq!(
        fixture.counts().await,
        r#"[{"turns":3,"messages":12,"calls":3,"sessions":3,"moves":3}]"#
    );
}

#[tokio::test]
async fn a_job_that_finds_the_queue_full_is_done_although_nobody_polls_its_answer() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let (release, gate) = gate(&core.writer);
    // More than the queue has room for.
    let (done, mut all) = tokio::sync::mpsc::unbounded_channel();
    let mut answers = Vec::new();
    for n in 0..1_500 {
        let done = done.clone();
        answers.push(core.writer.submit(move |_| done.send(n).map_err(|_| error::closed())));
    }
    drop(release);
    for n in 0..1_500 {
        assert_eq!(all.recv().await, Some(n));
    }
    gate.await.unwrap();
    assert!(join_all(answers).await.into_iter().all(|answer| answer.is_ok()));
}

/// A job that panics in a chosen method, and reports its answer.
struct Panicking {
    runs: bool,
    answers: bool,
    alone: bool,
    reports: std::sync::mpsc::Sender<Option<StorageErrorKind>>,
}

impl Job for Panicking {
    fn run(&mut self, connection: &rusqlite::Connection) -> bool {
        connection.execute("INSERT INTO personas VALUES ('p', 'm', 1, 1, 1)", ()).unwrap();
        assert!(!self.runs, "a bug in a job");
        true
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        self.reports.send(failure.map(|failure| failure.kind)).unwrap();
        assert!(!self.answers, "a bug in an answer");
    }
}

#[tokio::test]
async fn a_panicking_job_of_any_kind_is_answered_and_stops_neither_the_writer_nor_other_jobs() {
    for (runs, answers, alone) in [
        (true, false, false),
        (false, true, false),
        (true, true, false),
        (true, false, true),
        (true, true, true),
    ] {
        let fixture = Fixture::new();
        let core = fixture.ledger.core().unwrap();
        let (release, gate) = gate(&core.writer);
        let before = fixture.ledger.commit(Box::new(turn("a", "a", None)));
        let (reports, answered) = std::sync::mpsc::channel();
        core.writer.post(Box::new(Panicking { runs, answers, alone, reports }));
        let after = fixture.ledger.commit(Box::new(turn("b", "b", None)));
        drop(release);
        gate.await.unwrap();
        assert_eq!(before.await.unwrap().turn_id, "a");
        assert_eq!(after.await.unwrap().turn_id, "b");
        let failed = runs.then_some(StorageErrorKind::Io);
        assert_eq!(answered.recv().unwrap(), failed, "{runs} {answers} {alone}");
        // A job that runs alone has no transaction that could be rolled back.
        let personas = if runs && !alone { 0 } else { 1 };
        assert_eq!(
            fixture.rows("SELECT count(*) AS n FROM personas").await,
            format!(r#"[{{"n":{personas}}}]"#)
        );
        // The writer continues.
        fixture.commit(turn("c", "c", None)).await.unwrap();
        fixture.ledger.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_callback_after_a_commit_may_panic_and_the_committed_turn_is_answered() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let then: crate::sqlite::writer::Then = Box::new(|_| panic!("a bug in a callback"));
    core.writer.submit_then(|_| Ok(7), Some(then)).await.unwrap();
    fixture.commit(turn("a", "a", None)).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_fails_the_turn_that_does_not_fit_and_works_again_with_space() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    let cap = |pages: i64| {
        core.writer.submit(move |connection| {
            connection
                .query_row(&format!("PRAGMA max_page_count = {pages}"), (), |row| {
                    row.get::<_, i64>(0)
                })
                .map_err(|error| error::sqlite("cap", &error))
        })
    };
    let before = fixture.counts().await;
    let pages = cap(1).await.unwrap();
    cap(pages + 8).await.unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let gate = core.writer.submit(move |_| {
        // Ends when the sender is dropped; also when the job is run a second time.
        let _ = held.recv();
        Ok(())
    });
    let mut large = turn("t2", "main", Some("t1"));
    large.messages[0].blocks = vec![Block::text(noise(400_000))];
    let fits = fixture.ledger.commit(Box::new(short_turn("o1", "other", None)));
    let fails = fixture.ledger.commit(Box::new(large.clone()));
    drop(release);
    gate.await.unwrap();
    // Both jobs are in one group: SQLite rolls it back, and the job that fits is then committed alone.
    fits.await.unwrap();
    assert_eq!(fails.await.unwrap_err().kind, StorageErrorKind::Full);
    assert_ne!(fixture.counts().await, before);
    assert_eq!(
        fixture.ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(),
        Some("t1")
    );
    cap(1 << 30).await.unwrap();
    fixture.commit(large).await.unwrap();
    assert_eq!(
        fixture.counts().await,
        r#"[{"turns":3,"messages":10,"calls":2,"sessions":2,"moves":3}]"#
    );
}

#[tokio::test]
async fn dropping_the_future_does_not_undo_the_commit() {
    let fixture = Fixture::new();
    drop(fixture.ledger.commit(Box::new(turn("t1", "main", None))));
    // The next job runs after the checkpoint.
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    assert!(fixture.ledger.turn("t1").await.unwrap().is_some());
}

#[tokio::test]
async fn closing_commits_the_submitted_jobs_and_refuses_the_rest() {
    let fixture = Fixture::new();
    let pending = fixture.ledger.commit(Box::new(turn("t1", "main", None)));
    fixture.ledger.close().await.unwrap();
    pending.await.unwrap();
    let closed = StorageErrorKind::Closed;
    assert_eq!(fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap_err().kind, closed);
    assert_eq!(fixture.ledger.session("main").await.unwrap_err().kind, closed);
    assert_eq!(fixture.ledger.fork("t1", None).await.unwrap_err().kind, closed);
    assert_eq!(
        Journal::history(&*fixture.ledger, "main", None, None).await.unwrap_err().kind,
        closed
    );
    fixture.ledger.close().await.unwrap();
    // With the last handle, the log was copied into the file and removed.
    assert!(!fixture.folder.path().join("ledger.db-wal").exists());
    let again = open(&fixture.path()).unwrap();
    assert!(again.turn("t1").await.unwrap().is_some());
}

#[tokio::test]
async fn a_lock_held_by_another_process_is_reported_as_such() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let impatient = core.writer.submit(|connection| {
        connection
            .busy_timeout(std::time::Duration::ZERO)
            .map_err(|error| error::sqlite("hurry", &error))
    });
    impatient.await.unwrap();
    let Some(mut other) = super::file::sqlite3(&fixture.path()) else { return };
    other.send("BEGIN IMMEDIATE; SELECT 'locked';");
    assert_eq!(other.receive(), "locked");
    let error = fixture.commit(turn("t1", "main", None)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Locked);
    other.send("ROLLBACK; SELECT 'free';");
    assert_eq!(other.receive(), "free");
    fixture.commit(turn("t1", "main", None)).await.unwrap();
}
