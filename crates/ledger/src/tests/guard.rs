//! The guard: no commit to a file that is no longer at its path is acknowledged, and no read pins the log for long.

use std::fs;
use std::sync::mpsc;

use super::*;
use crate::search::search_indexer;
use crate::sqlite::guard::Reads;
use crate::sqlite::{file, readers};
use model::StorageErrorKind;

const LOG: &str = "ledger.db-wal";
const INDEX: &str = "ledger.db-shm";

/// Removes something from an open ledger with one turn. Returns the errors of a second turn, of a read, and of a check.
async fn after(take: impl FnOnce(&Path)) -> (Fixture, [StorageErrorKind; 3]) {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    take(fixture.folder.path());
    let refused = fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap_err();
    let read = fixture.ledger.session("main").await.unwrap_err();
    let verified = fixture.ledger.verify().await.unwrap_err();
    assert!(refused.message.contains("open it again"), "{}", refused.message);
    (fixture, [refused.kind, read.kind, verified.kind])
}

const REPLACED: [StorageErrorKind; 3] = [StorageErrorKind::Replaced; 3];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_ledger_acknowledges_nothing_more_and_is_created_again() {
    let (fixture, kinds) = after(|folder| fs::remove_file(folder.join("ledger.db")).unwrap()).await;
    assert_eq!(kinds, REPLACED);
    // While its engine is open, the log of the lost ledger is at the path.
    assert_eq!(open(&fixture.path()).unwrap_err().kind, StorageErrorKind::Replaced);
    fixture.ledger.close().await.unwrap();
    let anew = open(&fixture.path()).unwrap();
    assert_eq!(anew.session("main").await.unwrap(), None);
    anew.commit(Box::new(turn("t1", "main", None))).await.unwrap();
    assert!(anew.verify().await.unwrap().ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_renamed_over_it_is_never_written_and_its_own_turns_are_read_afterwards() {
    let other = Fixture::new();
    other.commit(turn("o1", "other", None)).await.unwrap();
    other.ledger.close().await.unwrap();
    let theirs = fs::read(other.path()).unwrap();
    let copy = other.folder.path().join("copy.db");
    fs::copy(other.path(), &copy).unwrap();
    let (fixture, kinds) =
        after(|folder| fs::rename(&copy, folder.join("ledger.db")).unwrap()).await;
    assert_eq!(kinds, REPLACED);
    fixture.ledger.close().await.unwrap();
    assert_eq!(fs::read(fixture.path()).unwrap(), theirs);
    // The log of the old ledger is empty, and is not replayed into the new one.
    let anew = open(&fixture.path()).unwrap();
    assert!(anew.verify().await.unwrap().ok);
    assert!(anew.turn("o1").await.unwrap().is_some());
    assert!(anew.turn("t1").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_was_moved_aside_has_its_turns() {
    let (fixture, kinds) = after(|folder| {
        fs::rename(folder.join("ledger.db"), folder.join("aside.db")).unwrap();
    })
    .await;
    assert_eq!(kinds, REPLACED);
    fixture.ledger.close().await.unwrap();
    let aside = open(&fixture.folder.path().join("aside.db")).unwrap();
    assert!(aside.verify().await.unwrap().ok);
    assert!(aside.turn("t1").await.unwrap().is_some());
    assert!(aside.turn("t2").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_log_or_index_is_noticed_before_a_write() {
    for gone in [LOG, INDEX] {
        let (fixture, kinds) = after(|folder| fs::remove_file(folder.join(gone)).unwrap()).await;
        assert_eq!(kinds, REPLACED, "{gone}");
        // The log's later frames must not be copied into a file that other processes may have written.
        let before = fs::read(fixture.path()).unwrap();
        fixture.ledger.close().await.unwrap();
        assert_eq!(fs::read(fixture.path()).unwrap(), before, "{gone}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_to_a_ledger_that_is_removed_meanwhile_is_not_acknowledged() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let (path, core) = (fixture.path(), fixture.ledger.core().unwrap());
    let taken = core.writer.submit(move |_| {
        // The job may run twice, but the file can be removed only once.
        fs::remove_file(&path).unwrap();
        Ok(())
    });
    assert_eq!(taken.await.unwrap_err().kind, StorageErrorKind::Replaced);
}

fn bounded(folder: &Path, log_bound: u64) -> Arc<Ledger> {
    let path = folder.join("ledger.db");
    Ledger::open(&LedgerOptions { log_bound, ..LedgerOptions::at(path) }, Clock::fixed(NOW))
        .unwrap()
}

fn log_bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join(LOG)).map_or(0, |metadata| metadata.len())
}

const BOUND: u64 = 8 << 20;

/// Commits turns until the ledger warns of its log, at most `most`, after which it would have warned.
async fn write_until_warned(ledger: &Ledger, from: u32, most: u32) -> Option<u32> {
    for number in from..from + most {
        let (id, label) = (format!("t{number}"), format!("s{number}"));
        let mut turn = turn(&id, &label, None);
        turn.messages[0].blocks = vec![Block::text(noise(20_000))];
        ledger.commit(Box::new(turn)).await.unwrap();
        if !ledger.warnings().is_empty() {
            return Some(number);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_read_that_pins_the_log_over_its_bound_is_ended_and_the_log_is_folded_in() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = bounded(folder.path(), BOUND);
    let core = ledger.core().unwrap();
    let (pinned, is_pinned) = mpsc::channel();
    let (release, resume) = mpsc::channel::<()>();
    let work = move |connection: &rusqlite::Connection| {
        let one = |sql: &str| {
            connection
                .query_row(sql, (), |row| row.get::<_, i64>(0))
                .map_err(|error| crate::sqlite::error::sqlite("count", &error))
        };
        one("SELECT count(*) FROM turns")?;
        pinned.send(()).unwrap();
        resume.recv().unwrap();
        // The statement is endless, and stops when the read is ended.
        one(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        )
    };
    let read = core.readers.run(|connection| readers::snapshot(connection, work));
    let writes = async {
        is_pinned.recv().unwrap();
        let warned = write_until_warned(&ledger, 0, 2_000).await;
        assert!(warned.is_some_and(|turns| turns > 0), "the log grew without a warning");
        assert!(log_bytes(folder.path()) >= BOUND);
        assert_eq!(ledger.warnings()[0].code, "ledger_log_grew");
        release.send(()).unwrap();
    };
    let (read, ()) = tokio::join!(read, writes);
    let error = read.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::ReadExpired, "{}", error.message);
    // The next commits copy the log into the file and reset it.
    for number in 0..20 {
        let label = format!("later{number}");
        ledger.commit(Box::new(turn(&label, &label, None))).await.unwrap();
    }
    assert_eq!(ledger.warnings(), []);
    assert!(log_bytes(folder.path()) < 2 * BOUND);
    // Words that are indexed meanwhile would grow the log, and end the check as they would any read.
    while core.writer.submit(search_indexer::slice).await.unwrap() {}
    assert!(ledger.verify().await.unwrap().ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_another_process_is_warned_of_and_ends_none_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = bounded(folder.path(), BOUND);
    let Some(mut other) = super::file::sqlite3(&folder.path().join("ledger.db")) else { return };
    other.send("BEGIN; SELECT count(*) FROM turns;");
    other.receive();
    let warned =
        write_until_warned(&ledger, 0, 2_000).await.expect("the log grew without a warning");
    for number in 0..20 {
        let label = format!("s{number}");
        assert!(ledger.session(&label).await.unwrap().is_some());
        ledger
            .commit(Box::new(turn(&format!("l{number}"), &format!("l{number}"), None)))
            .await
            .unwrap();
    }
    other.send("COMMIT; SELECT 'over';");
    assert_eq!(other.receive(), "over");
    assert!(write_until_warned(&ledger, warned + 1, 1).await.is_none_or(|at| at == warned + 1));
    // The log is copied into the file after an answer and before the next job.
    ledger.core().unwrap().writer.submit(|_| Ok(())).await.unwrap();
    assert_eq!(ledger.warnings(), []);
}

#[test]
fn only_a_read_with_its_own_share_of_the_growth_is_ended_and_the_oldest_first() {
    let mut connections: Vec<rusqlite::Connection> =
        (0..3).map(|_| crate::tests::memory()).collect();
    let reads = Reads::new(1_000);
    let [one, two, three] = &mut connections[..] else { unreachable!() };
    let first = reads.begin(one);
    reads.committed(4, 100);
    let second = reads.begin(two);
    reads.committed(9, 100);
    // A log within its bound, or one that was copied, ends no read.
    reads.bound_log(999, false);
    reads.bound_log(5_000, true);
    assert!(first.check().is_ok() && !reads.is_over());
    reads.bound_log(1_000, false);
    assert!(reads.is_over());
    assert!(first.check().is_err() && second.check().is_ok());
    drop(first);
    // The log was reset: 900 bytes were written, then 400. The second read saw 500 and 400 of them.
    reads.committed(4, 100);
    let third = reads.begin(three);
    reads.bound_log(1_000, false);
    assert!(second.check().is_err());
    drop(second);
    reads.bound_log(1_000, false);
    assert!(third.check().is_ok());
    reads.bound_log(10, false);
    assert!(!reads.is_over());
}

#[test]
fn a_missing_file_has_no_identity() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(file::id_at(&folder.path().join("none")).unwrap(), None);
    // A folder of the path was replaced by a file.
    assert_eq!(file::id_at(&file.join("below")).unwrap(), None);
    assert!(file::id_at(&file).unwrap().is_some());
}
