//! The outbox of a broker: a turn's delivery is written with its end, and one process at a time has it (docs/rules/deliveries.md).

use std::time::Duration;

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{NOW, begin, ending, short_turn};
use model::{
    Block, ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStatus, LedgerPorts,
    NewItem, QueueEnd, QueueItem, QueueLimits, QueueMode, QueueTarget, Route, StoredDelivery,
    TurnEnd,
};

/// Where the answers of a message go.
pub const TARGET: &str = r#"{"target":{"chat": 7},"outbox":{"silent":["NO_REPLY"]}}"#;

/// A turn of `label` that has taken a message with `request`, and has ended.
pub async fn answer(ledger: &LedgerPorts, turn: &TurnEnd, request: &str) {
    let (id, label) = (format!("item-{}", turn.turn_id), turn.header.session_label.clone());
    let new = NewItem {
        item: QueueItem {
            id: id.clone(),
            mode: QueueMode::Queue,
            route: Route::default(),
            principal: "owner".to_owned(),
            is_system: false,
            tries: 0,
            failures: 0,
            not_before: 0,
        },
        to: QueueTarget::Session(label),
        source: "user".to_owned(),
        message: r#"{"role":"user","content":"hi"}"#.to_owned(),
        request: request.to_owned(),
        event_id: None,
        sender: None,
    };
    ledger.queue.enqueue(Box::new(new), QueueLimits::default()).await.unwrap();
    let epoch = begin(ledger, turn).await;
    let mut end = ending(turn, epoch, 1);
    end.queue = Some(Box::new(QueueEnd { items: vec![id], ..QueueEnd::default() }));
    ledger.journal.commit(end).await.unwrap();
}

/// The delivery of a turn that has just ended.
fn waiting(turn_id: &str, label: &str) -> StoredDelivery {
    StoredDelivery {
        turn_id: turn_id.to_owned(),
        session_label: label.to_owned(),
        target: r#"{"chat": 7}"#.to_owned(),
        status: DeliveryStatus::Pending,
        tries: 0,
        failures: 0,
        not_before: NOW,
        error: None,
        created_at: NOW,
        delivered_at: None,
        epoch: 0,
    }
}

/// The same, as the process that has claimed it for the first time gets it.
fn first(turn_id: &str, label: &str) -> StoredDelivery {
    StoredDelivery { tries: 1, epoch: 1, ..waiting(turn_id, label) }
}

async fn claim(ledger: &LedgerPorts) -> Vec<StoredDelivery> {
    ledger.deliveries.claim(10).await.unwrap().deliveries
}

async fn end(
    ledger: &LedgerPorts,
    claimed: &StoredDelivery,
    outcome: DeliveryOutcome,
) -> Option<StoredDelivery> {
    let StoredDelivery { turn_id, epoch, .. } = claimed.clone();
    ledger.deliveries.end_claim(turn_id, epoch, outcome).await.unwrap()
}

async fn list(ledger: &LedgerPorts, status: DeliveryStatus, label: Option<&str>) -> Vec<String> {
    let session_label = label.map(ToOwned::to_owned);
    let filter = DeliveryFilter { status, session_label, after: None, limit: 10 };
    let rows = ledger.deliveries.deliveries(filter).await.unwrap();
    rows.into_iter().map(|row| row.turn_id).collect()
}

pub async fn a_turn_with_a_target_has_one_delivery_and_a_silent_one_has_none(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let first_turn = short_turn("t1", "main", None);
    answer(ledger, &first_turn, TARGET).await;
    let mut silent = short_turn("t2", "main", Some("t1"));
    silent.messages[1].blocks = vec![Block::text("NO_REPLY")];
    answer(ledger, &silent, TARGET).await;
    // The host passes this one on itself.
    answer(ledger, &short_turn("t3", "main", Some("t2")), r#"{"target":{"chat":7}}"#).await;
    assert_eq!(claim(ledger).await, [first("t1", "main")]);
    assert_eq!(list(ledger, DeliveryStatus::Pending, None).await, ["t1"]);
}

pub async fn the_deliveries_of_a_session_are_claimed_in_the_order_of_its_turns(fixture: Fixture) {
    let ledger = &fixture.ledger;
    answer(ledger, &short_turn("t1", "main", None), TARGET).await;
    answer(ledger, &short_turn("t2", "main", Some("t1")), TARGET).await;
    answer(ledger, &short_turn("u1", "other", None), TARGET).await;
    let claimed = claim(ledger).await;
    assert_eq!(claimed, [first("t1", "main"), first("u1", "other")], "the second one waits");
    assert_eq!(claim(ledger).await, [], "this process has them");
    let done = end(ledger, &claimed[0], DeliveryOutcome::Delivered).await;
    let delivered = StoredDelivery {
        status: DeliveryStatus::Delivered,
        delivered_at: Some(NOW),
        ..first("t1", "main")
    };
    assert_eq!(done, Some(delivered));
    assert_eq!(end(ledger, &claimed[0], DeliveryOutcome::Delivered).await, None, "a second answer");
    assert_eq!(claim(ledger).await, [first("t2", "main")]);
    assert_eq!(list(ledger, DeliveryStatus::Delivered, Some("main")).await, ["t1"]);
}

pub async fn a_delivery_that_fails_is_tried_again_and_parked_after_the_seventh_time(
    fixture: Fixture,
) {
    let ledger = &fixture.ledger;
    answer(ledger, &short_turn("t1", "main", None), TARGET).await;
    answer(ledger, &short_turn("t2", "main", Some("t1")), TARGET).await;
    let mut now = NOW;
    for failures in 1..=7_u32 {
        let claimed = claim(ledger).await;
        let [only] = claimed.as_slice() else { panic!("{claimed:?}") };
        assert_eq!((only.turn_id.as_str(), only.tries), ("t1", failures), "it blocks the next");
        let failed = end(ledger, only, DeliveryOutcome::Failed("no network".to_owned())).await;
        let failed = failed.unwrap();
        assert_eq!((failed.failures, failed.error.as_deref()), (failures, Some("no network")));
        if failures < 7 {
            let early = ledger.deliveries.claim(10).await.unwrap();
            assert_eq!((early.deliveries, early.next_at), (Vec::new(), Some(failed.not_before)));
            let wait = u64::try_from(failed.not_before - now).unwrap();
            fixture.store.advance(Duration::from_millis(wait));
            now = failed.not_before;
        } else {
            assert_eq!(failed.status, DeliveryStatus::Parked);
        }
    }
    assert_eq!(list(ledger, DeliveryStatus::Parked, None).await, ["t1"]);
    assert_eq!(claim(ledger).await.len(), 1, "a parked one blocks none behind it");
    let again = |turn_id: &str| ledger.deliveries.hand_out_again(turn_id.to_owned());
    assert!(again("t1").await.unwrap());
    assert!(!again("t1").await.unwrap() && !again("t2").await.unwrap(), "they are not parked");
    let claimed = claim(ledger).await;
    assert_eq!(claimed.len(), 1, "it is before the others of its session again");
    assert_eq!((claimed[0].turn_id.as_str(), claimed[0].failures), ("t1", 0));
}

pub async fn a_delivery_is_taken_over_from_a_process_that_has_ended_and_from_no_other(
    mut fixture: Fixture,
) {
    answer(&fixture.ledger, &short_turn("t1", "main", None), TARGET).await;
    let claimed = claim(&fixture.ledger).await;
    let other = fixture.store.other_process().await;
    assert_eq!(claim(&other).await, [], "a living process has it");
    fixture.next_process(ProcessEnd::Killed).await;
    let taken = claim(&fixture.ledger).await;
    assert_eq!(taken, [StoredDelivery { tries: 2, epoch: 2, ..waiting("t1", "main") }]);
    assert_eq!(
        end(&fixture.ledger, &claimed[0], DeliveryOutcome::Delivered).await,
        None,
        "the answer of the former process comes too late"
    );
    let released = end(&fixture.ledger, &taken[0], DeliveryOutcome::Released).await.unwrap();
    assert_eq!((released.status, released.failures), (DeliveryStatus::Pending, 0));
    assert_eq!(claim(&fixture.ledger).await[0].epoch, 3);
}

pub async fn a_claim_that_is_not_renewed_expires(mut fixture: Fixture) {
    answer(&fixture.ledger, &short_turn("t1", "main", None), TARGET).await;
    let ClaimedDeliveries { deliveries, renew_ms, .. } =
        fixture.ledger.deliveries.claim(10).await.unwrap();
    let other = fixture.store.other_process().await;
    let lease = fixture.store.lease();
    assert!(Duration::from_millis(renew_ms) < lease / 2);
    fixture.store.advance(lease / 2);
    let claims = vec![(deliveries[0].turn_id.clone(), deliveries[0].epoch)];
    fixture.ledger.deliveries.renew(claims).await.unwrap();
    fixture.store.advance(lease / 2);
    assert_eq!(claim(&other).await, []);
    fixture.store.advance(lease / 2);
    assert_eq!(claim(&other).await.len(), 1);
}

pub async fn a_host_acknowledges_a_delivery_itself_whoever_has_it(fixture: Fixture) {
    let ledger = &fixture.ledger;
    answer(ledger, &short_turn("t1", "main", None), TARGET).await;
    let claimed = claim(ledger).await;
    let acknowledge = |turn_id: &str| ledger.deliveries.acknowledge(turn_id.to_owned());
    assert!(acknowledge("t1").await.unwrap());
    assert!(!acknowledge("t1").await.unwrap() && !acknowledge("t2").await.unwrap());
    assert_eq!(end(ledger, &claimed[0], DeliveryOutcome::Failed("late".to_owned())).await, None);
    assert_eq!(list(ledger, DeliveryStatus::Delivered, None).await, ["t1"]);
}
