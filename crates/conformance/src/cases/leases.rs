//! Leases between processes: the lease of a process without a heartbeat is valid until it expires, and a process whose
//! session was taken over writes nothing more (docs/rules/sessions-and-ledger.md#lease).

use std::time::Duration;

use crate::store::Fixture;
use crate::turns::{begin, ending, opening, step, turn};
use model::{LedgerPorts, Opened, StorageErrorKind, ToolCallStatus};

/// Whether every read of this process shows that turn `t2` of `main` belongs to another process.
async fn is_busy(ledger: &LedgerPorts) -> bool {
    let third = opening(&turn("t3", "main", Some("t1")));
    let busy = match ledger.journal.begin(third).await.unwrap() {
        Opened::Busy => true,
        Opened::Leased(epoch) => {
            ledger.journal.release("main", epoch);
            false
        }
        Opened::Moved => panic!("nobody has moved it"),
    };
    let interrupted = ledger.journal.interrupted(Some("t2")).await.unwrap();
    assert_eq!(interrupted.is_empty(), busy, "it runs, or it is interrupted");
    busy
}

/// A case.
pub async fn a_lease_is_taken_over_when_its_time_is_up_and_its_process_writes_nothing_more(
    mut fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.beside().await;
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
    journal.release("main", epoch);
    assert!(matches!(journal.reopen("t2").await.unwrap(), Opened::Busy), "it gave nothing back");
    assert_eq!(fixture.store.contents().await, before);
    let receipt = elsewhere.journal.commit(ending(&second, taken.epoch, 1)).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t2"));
    assert_eq!(fixture.ledger.journal.head("main").await.unwrap().as_deref(), Some("t2"));
}

/// A case.
pub async fn a_lease_whose_time_is_up_is_its_owners_until_it_is_taken_over(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.beside().await;
    fixture.store.advance(fixture.store.lease() * 3);
    let journal = &fixture.ledger.journal;
    journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    // Its write renewed the lease.
    assert!(is_busy(&elsewhere).await);
    journal.commit(ending(&second, epoch, 2)).await.unwrap();
    assert_eq!(elsewhere.journal.head("main").await.unwrap().as_deref(), Some("t2"));
}

/// A case.
pub async fn a_write_in_the_second_half_of_a_lease_renews_it(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.beside().await;
    let two_thirds = fixture.store.lease() * 2 / 3;
    fixture.store.advance(two_thirds);
    let journal = &fixture.ledger.journal;
    journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    fixture.store.advance(two_thirds);
    assert!(is_busy(&elsewhere).await, "its time began again");
    fixture.store.advance(two_thirds);
    assert!(!is_busy(&elsewhere).await);
}

/// A case.
pub async fn a_lease_that_was_given_back_is_free_for_every_process_at_once(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    let elsewhere = fixture.store.beside().await;
    assert!(is_busy(&elsewhere).await);
    fixture.ledger.journal.commit(ending(&second, epoch, 1)).await.unwrap();
    let third = turn("t3", "main", Some("t2"));
    let next = elsewhere.journal.begin(opening(&third)).await.unwrap();
    assert_eq!(next, Opened::Leased(epoch + 1));
    let own = fixture.ledger.journal.begin(opening(&turn("t4", "main", Some("t2")))).await;
    assert_eq!(own.unwrap(), Opened::Busy);
}
