//! Reservations that ride in the transactions of a turn: all of it is written, or the write alone.

use super::super::journal::begin;
use super::*;
use model::{CallCost, Opened, Overdrawn, Reservation, ReservedAccount};

fn call(id: &str, tokens: u64) -> Box<Reservation> {
    let account = ReservedAccount {
        id: "session:main".to_owned(),
        max_tokens: Some(100),
        max_nanos: None,
        spent: CallCost { tokens: 10, nanos: 0 },
    };
    let most = CallCost { tokens, nanos: 7 };
    Box::new(Reservation { call_id: id.to_owned(), most, accounts: vec![account] })
}

const OPEN: &str = "SELECT call_id, account, tokens, nanos FROM budget_reservations";
const REFUSED: Overdrawn = Overdrawn { account: 0, left: 30, is_cost: false };

#[tokio::test]
async fn a_turn_begins_with_the_reservation_of_its_call_or_without_it() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let first = turn("t1", "main", None);
    let begun = ledger.begin_reserving(opening(&first), call("c1", 60)).await.unwrap();
    assert_eq!(begun, (Opened::Leased(1), Some(Ok(()))));
    let one = r#"[{"call_id":"c1","account":"session:main","tokens":60,"nanos":7}]"#;
    assert_eq!(fixture.rows(OPEN).await, one);
    // The session is busy: nothing is reserved for a turn that has not begun.
    let moved = turn("t2", "main", Some("nowhere"));
    let other = ledger.begin_reserving(opening(&moved), call("c2", 1)).await.unwrap();
    assert_eq!((other, fixture.rows(OPEN).await.as_str()), ((Opened::Busy, None), one));
    let beside = turn("t3", "beside", None);
    let begun = ledger.begin_reserving(opening(&beside), call("c3", 31)).await.unwrap();
    assert_eq!(begun, (Opened::Leased(1), Some(Err(REFUSED))));
    assert_eq!(fixture.rows(OPEN).await, one);
}

#[tokio::test]
async fn results_are_stored_with_the_reservation_of_the_next_call_or_without_it() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let turn = turn("t1", "main", None);
    let epoch = begin(ledger, &turn).await;
    ledger.record(step(&turn, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    let results = step(&turn, epoch, 2..3, ToolCallStatus::Completed);
    let reserved = ledger.record_reserving(results, call("c1", 60)).await.unwrap();
    assert_eq!(reserved, Some(Ok(())));
    let repeated = step(&turn, epoch, 0..3, ToolCallStatus::Completed);
    let refused = ledger.record_reserving(repeated, call("c2", 31)).await.unwrap();
    assert_eq!(refused, Some(Err(REFUSED)));
    // A write that another process has overtaken reserves nothing.
    let stale = step(&turn, epoch - 1, 0..3, ToolCallStatus::Completed);
    ledger.record_reserving(stale, call("c3", 1)).await.unwrap_err();
    ledger.settle("c1".to_owned(), CallCost { tokens: 5, nanos: 2 });
    ledger.commit(ending(&turn, epoch, 3)).await.unwrap();
    assert_eq!(fixture.rows(OPEN).await, "[]");
    assert_eq!(
        fixture.rows("SELECT id, tokens, nanos FROM budget_accounts").await,
        r#"[{"id":"session:main","tokens":15,"nanos":2}]"#
    );
}
