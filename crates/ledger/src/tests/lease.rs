//! Leases between processes: several owners on one connection, with a clock that the test sets.

use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::journal_rows::run_rows::{self, RunLease};
use crate::journal_rows::running::{Entrance, enter, leased_run, running_turn};
use crate::lease::claim::Claim;
use crate::lease::held::RunningTurn;
use crate::lease::owner::Owner;
use model::{RunNames, StorageErrorKind, TurnLease};

/// The claim of another process in another pid namespace, so that only the time shows its end.
fn other(fixture: &Fixture, id: &str, lease_ms: i64) -> Claim {
    let mine = fixture.ledger.core().unwrap().claim.clone();
    let owner = Owner {
        id: id.to_owned(),
        pid_space: format!("space of {id}"),
        ..mine.owner.as_ref().clone()
    };
    Claim { owner: Arc::new(owner), held: Arc::default(), lease_ms, ..mine }
}

/// Runs `work` as a job of the writer.
async fn write<T: Send + 'static>(
    fixture: &Fixture,
    work: impl FnMut(&Connection) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    fixture.ledger.core().unwrap().writer.submit(work).await
}

async fn session(fixture: &Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
}

/// Opens a turn, as W0 does. Returns the epoch; `None` while the session is busy.
fn begin(connection: &Connection, claim: &Claim, id: &str) -> Result<Option<i64>, StorageError> {
    let Entrance::Free(free) = enter(connection, claim, "main")? else { return Ok(None) };
    let epoch = free.lease(connection, claim, "main")?;
    let names = RunNames {
        turn_id: id.to_owned(),
        run_id: id.to_owned(),
        session_label: "main".to_owned(),
        resumes: false,
    };
    let lease = RunLease { epoch, context_id: 1 };
    let this = Owner::this(&Clock::default());
    run_rows::add(
        connection,
        run_rows::next(connection)?,
        &names,
        NOW,
        Some(lease),
        (None, &this),
    )?;
    claim.held.begin("main", RunningTurn { turn_id: id.to_owned(), epoch });
    Ok(Some(epoch))
}

/// What every write of a turn checks.
fn check(
    connection: &Connection,
    claim: &Claim,
    id: &str,
    epoch: i64,
) -> Result<(), StorageErrorKind> {
    let lease = TurnLease { turn_id: id.to_owned(), epoch };
    leased_run(connection, claim, "main", &lease).map(drop).map_err(|error| error.kind)
}

/// Ends a turn, as W4 does.
fn commit(connection: &Connection, claim: &Claim, id: &str, epoch: i64) {
    assert_eq!(check(connection, claim, id, epoch), Ok(()));
    let run = run_rows::of_turn(connection, id).unwrap().unwrap();
    run_rows::end(connection, run.n, NOW).unwrap();
    claim.held.commit("main", &RunningTurn { turn_id: id.to_owned(), epoch });
}

#[tokio::test]
async fn a_session_belongs_to_the_process_of_its_open_turn_until_that_ends_or_its_lease_expires() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let (one, two) = (other(&fixture, "one", 60_000), other(&fixture, "two", 60_000));
    let (gone, next) = (other(&fixture, "gone", 0), other(&fixture, "next", 60_000));
    write(&fixture, move |connection| {
        let stale = Err(StorageErrorKind::StaleWriter);
        assert_eq!(running_turn(connection, &two, "main")?, None);
        assert_eq!(begin(connection, &one, "t2")?, Some(1));
        let running = Some(RunningTurn { turn_id: "t2".to_owned(), epoch: 1 });
        assert_eq!(running_turn(connection, &two, "main")?, running);
        commit(connection, &one, "t2", 1);
        assert_eq!(running_turn(connection, &two, "main")?, None);
        assert_eq!(check(connection, &one, "t2", 1), stale, "it has ended");
        // The process that left the lease uses it again.
        assert_eq!(begin(connection, &one, "t3")?, Some(1));
        assert_eq!(check(connection, &one, "t2", 1), stale, "the lease is another turn's");
        commit(connection, &one, "t3", 1);
        assert_eq!(begin(connection, &two, "t4")?, Some(2));
        // A stale epoch releases nothing and renews nothing.
        one.release(connection, "main", 1)?;
        one.renew(connection, "main", 1)?;
        assert_eq!(check(connection, &two, "t4", 2), Ok(()));
        commit(connection, &two, "t4", 2);
        // Another process had the session meanwhile.
        assert_eq!(begin(connection, &one, "t5")?, Some(3));
        commit(connection, &one, "t5", 3);

        assert_eq!(begin(connection, &gone, "t6")?, Some(4));
        // No other process has taken the lease, so its owner may still write.
        assert_eq!(check(connection, &gone, "t6", 4), Ok(()));
        assert_eq!(running_turn(connection, &next, "main")?, None, "it ended as it began");
        assert_eq!(begin(connection, &next, "t7")?, Some(5));
        assert_eq!(check(connection, &gone, "t6", 4), stale);
        assert_eq!(check(connection, &next, "t7", 5), Ok(()));
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_turn_that_ended_without_a_commit_leaves_no_lease_that_is_used_again() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let one = other(&fixture, "one", 60_000);
    write(&fixture, move |connection| {
        assert_eq!(begin(connection, &one, "t2")?, Some(1));
        one.held.end("main", &RunningTurn { turn_id: "t2".to_owned(), epoch: 1 });
        // The release was not written: the row still names the process and the epoch of the open turn.
        assert_eq!(begin(connection, &one, "t3")?, Some(2));
        assert!(!one.runs(connection, "main", 1)?, "`t2` is interrupted");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_lease_that_is_used_again_is_written_only_when_a_part_of_its_time_has_passed() {
    let folder = tempfile::tempdir().unwrap();
    let times = Arc::new(base::clock::TestTimes::default());
    let options = LedgerOptions::at(folder.path().join("ledger.db"));
    let ledger = Ledger::open(&options, Clock::set(&times)).unwrap();
    let fixture = Fixture { ledger, folder };
    session(&fixture).await;
    let one = other(&fixture, "one", 60_000);
    write(&fixture, move |connection| {
        let mut ends = Vec::new();
        for (number, passed) in [(2, 0), (3, 9_999), (4, 10_001), (5, 5_000), (6, 3_600_000)] {
            times.shared.fetch_add(passed, std::sync::atomic::Ordering::SeqCst);
            let id = format!("t{number}");
            assert_eq!(begin(connection, &one, &id)?, Some(1));
            let lease = one.read(connection, "main")?.unwrap();
            ends.push(lease.expires_at - one.now().ms);
            commit(connection, &one, &id, 1);
        }
        assert_eq!(ends, [60_000, 50_001, 60_000, 55_000, 60_000]);
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_session_of_a_dead_process_is_free_at_once_and_its_place_in_the_queue_delays_nobody() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let mine = fixture.ledger.core().unwrap().claim.clone();
    let gone =
        Owner { id: "gone".to_owned(), pid: i64::from(i32::MAX), ..mine.owner.as_ref().clone() };
    let dead = Claim { owner: Arc::new(gone), held: Arc::default(), ..mine.clone() };
    let one = other(&fixture, "one", 60_000);
    write(&fixture, move |connection| {
        assert_eq!(begin(connection, &one, "t2")?, Some(1));
        assert_eq!(begin(connection, &dead, "t3")?, None);
        commit(connection, &one, "t2", 1);
        if !cfg!(target_os = "linux") {
            return Ok(());
        }
        assert_eq!(begin(connection, &mine, "t4")?, Some(2), "it goes before a dead process");
        commit(connection, &mine, "t4", 2);
        assert_eq!(begin(connection, &dead, "t3")?, Some(3));
        assert_eq!(running_turn(connection, &mine, "main")?, None);
        assert_eq!(begin(connection, &mine, "t5")?, Some(4));
        Ok(())
    })
    .await
    .unwrap();
}
