//! Reservations that ride in the commit points of a turn: all of it is written, or the write alone.

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{begin, ending, opening, step, turn};
use model::{
    CallCost, LedgerPorts, Opened, Overdrawn, Reservation, ReservedAccount, ToolCallStatus,
};

/// Of an account of 100 tokens, of which 10 are spent.
pub fn call(id: &str, tokens: u64) -> Box<Reservation> {
    let account = ReservedAccount {
        id: "session:main".to_owned(),
        max_tokens: Some(100),
        max_nanos: None,
        spent: CallCost { tokens: 10, nanos: 0 },
    };
    let most = CallCost { tokens, nanos: 7 };
    Box::new(Reservation { call_id: id.to_owned(), most, accounts: vec![account] })
}

fn refused(left: u64) -> Overdrawn {
    Overdrawn { account: 0, left, is_cost: false }
}

/// What is left of the account: more than that is refused.
pub async fn assert_left(ledger: &LedgerPorts, left: u64) {
    let over = ledger.journal.reserve(call("over", left + 1)).await.unwrap();
    assert_eq!(over, Some(Err(refused(left))));
}

pub async fn a_turn_begins_with_the_reservation_of_its_call_or_without_it(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let first = turn("t1", "main", None);
    let begun = ledger.journal.begin_reserving(opening(&first), call("c1", 60)).await.unwrap();
    assert_eq!(begun, (Opened::Leased(1), Some(Ok(()))));
    assert_left(ledger, 30).await;
    // The session is busy: nothing is reserved for a turn that has not begun.
    let moved = turn("t2", "main", Some("nowhere"));
    let other = ledger.journal.begin_reserving(opening(&moved), call("c2", 1)).await.unwrap();
    assert_eq!(other, (Opened::Busy, None));
    assert_left(ledger, 30).await;
    let beside = turn("t3", "beside", None);
    let begun = ledger.journal.begin_reserving(opening(&beside), call("c3", 31)).await.unwrap();
    assert_eq!(begun, (Opened::Leased(1), Some(Err(refused(30)))));
    assert_left(ledger, 30).await;
}

pub async fn results_are_stored_with_the_reservation_of_the_next_call_or_without_it(
    mut fixture: Fixture,
) {
    let ledger = &fixture.ledger;
    let turn = turn("t1", "main", None);
    let epoch = begin(ledger, &turn).await;
    ledger.journal.record(step(&turn, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    let results = step(&turn, epoch, 2..3, ToolCallStatus::Completed);
    let reserved = ledger.journal.record_reserving(results, call("c1", 60)).await.unwrap();
    assert_eq!(reserved, Some(Ok(())));
    let repeated = step(&turn, epoch, 0..3, ToolCallStatus::Completed);
    let over = ledger.journal.record_reserving(repeated, call("c2", 31)).await.unwrap();
    assert_eq!(over, Some(Err(refused(30))));
    // A write that another process has overtaken reserves nothing.
    let stale = step(&turn, epoch - 1, 0..3, ToolCallStatus::Completed);
    ledger.journal.record_reserving(stale, call("c3", 1)).await.unwrap_err();
    assert_left(ledger, 30).await;
    ledger.journal.settle("c1".to_owned(), CallCost { tokens: 5, nanos: 2 });
    ledger.journal.commit(ending(&turn, epoch, 3)).await.unwrap();
    // What was settled is written when the process has closed the ledger.
    fixture.next_process(ProcessEnd::Closed).await;
    assert_left(&fixture.ledger, 85).await;
}

pub async fn what_a_killed_process_had_reserved_is_spent_at_its_maximum(mut fixture: Fixture) {
    let reserved = fixture.ledger.journal.reserve(call("c1", 60)).await.unwrap();
    assert_eq!(reserved, Some(Ok(())));
    fixture.next_process(ProcessEnd::Killed).await;
    assert_left(&fixture.ledger, 30).await;
    let reserved = fixture.ledger.journal.reserve(call("c2", 10)).await.unwrap();
    assert_eq!(reserved, Some(Ok(())));
    // What it would have used in the end counts no more.
    for id in ["c1", "c2"] {
        fixture.ledger.journal.settle(id.to_owned(), CallCost { tokens: 5, nanos: 2 });
    }
    fixture.next_process(ProcessEnd::Closed).await;
    assert_left(&fixture.ledger, 25).await;
}
