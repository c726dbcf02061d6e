//! Approvals: a turn parks with them and gives up its lease, one decision of any process is made, and the turn is taken over
//! with it. A decision must never be made twice, and no other turn may begin meanwhile.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{NOW, begin, opening, short_turn, step, turn};
use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalKind, ApprovalName, ApprovalStatus,
    ApprovalVerdict, ApprovedParams, LedgerPorts, Opened, Parking, StorageErrorKind,
    ToolCallStatus, TurnEnd, TurnStep, Unparked,
};

fn approval(turn: &TurnEnd, id: &str, expires_at: Option<i64>) -> Approval {
    let call = &turn.tool_calls[0];
    Approval {
        id: id.to_owned(),
        kind: ApprovalKind::Approval,
        status: ApprovalStatus::Pending,
        turn_id: turn.turn_id.clone(),
        run_id: turn.header.run_id.clone(),
        session_label: turn.header.session_label.clone(),
        call_id: call.call_id.clone(),
        tool_call_id: call.id.clone(),
        message_id: call.message_id.clone(),
        tool_name: call.tool_name.clone(),
        params: RawValue::from_string(r#"{"n":1}"#.to_owned()).unwrap(),
        params_hash: "h1".to_owned(),
        requested_params: None,
        question: Some("Really?".to_owned()),
        decided_by: None,
        reason: None,
        created_at: NOW,
        expires_at,
        decided_at: None,
        result_json: None,
    }
}

pub(super) fn parking(turn: &TurnEnd, epoch: i64, expires_at: Option<i64>) -> Box<TurnStep> {
    let requested = vec![approval(turn, "a1", expires_at)];
    let waits_for = vec!["a1".to_owned()];
    let parking = Some(Box::new(Parking { requested, waits_for, events: Vec::new() }));
    Box::new(TurnStep { parking, ..*step(turn, epoch, 0..2, ToolCallStatus::Pending) })
}

/// Turn `t1` of `main`, which waits for approval `a1`.
pub async fn parked(ledger: &LedgerPorts, expires_at: Option<i64>) -> TurnEnd {
    let turn = turn("t1", "main", None);
    let epoch = begin(ledger, &turn).await;
    ledger.journal.record(parking(&turn, epoch, expires_at)).await.unwrap();
    turn
}

/// A decision about it.
pub fn decision(verdict: ApprovalVerdict, by: &str) -> ApprovalDecision {
    ApprovalDecision { of: ApprovalName::Id("a1".to_owned()), verdict, by: Some(by.to_owned()) }
}

async fn listed(ledger: &LedgerPorts) -> Vec<(String, ApprovalStatus, Option<String>)> {
    let found = ledger.approvals.approvals(ApprovalFilter::default()).await.unwrap();
    found.items.into_iter().map(|it| (it.id, it.status, it.decided_by)).collect()
}

fn is_pending<T>(wait: &mut model::PortFuture<'_, T>) -> bool {
    matches!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

pub async fn a_parked_turn_waits_in_its_session_until_it_is_taken_over(mut fixture: Fixture) {
    let turn = parked(&fixture.ledger, None).await;
    let elsewhere = fixture.store.other_process().await;
    let next = short_turn("t2", "main", None);
    for ledger in [&fixture.ledger, &elsewhere] {
        let begun = ledger.journal.begin(opening(&next)).await.unwrap();
        assert_eq!(begun, Opened::Parked("t1".to_owned()));
        let parked = ledger.approvals.parked_turn("main").await.unwrap();
        assert_eq!(parked.as_deref(), Some("t1"));
    }
    begin(&elsewhere, &short_turn("o1", "other", None)).await;
    let [open] = &elsewhere.journal.interrupted(None).await.unwrap()[..] else {
        panic!("one turn runs nowhere")
    };
    assert_eq!((open.turn_id.as_str(), open.parked, open.approvals.len()), ("t1", true, 1));
    let Opened::Leased(taken) = elsewhere.journal.reopen("t1").await.unwrap() else {
        panic!("it is free")
    };
    assert!(taken.parked);
    assert_eq!(fixture.ledger.approvals.parked_turn("main").await.unwrap(), None);
    assert_eq!(fixture.ledger.journal.begin(opening(&next)).await.unwrap(), Opened::Busy);
    let stale = fixture.ledger.journal.record(parking(&turn, taken.epoch - 1, None)).await;
    assert_eq!(stale.unwrap_err().kind, StorageErrorKind::StaleWriter);
}

pub async fn a_turn_that_is_taken_over_leaves_another_one_of_its_session_parked(
    mut fixture: Fixture,
) {
    let lost = short_turn("t0", "main", None);
    begin(&fixture.ledger, &lost).await;
    fixture.next_process(ProcessEnd::Killed).await;
    parked(&fixture.ledger, None).await;
    let Opened::Leased(taken) = fixture.ledger.journal.reopen("t0").await.unwrap() else {
        panic!("it is free")
    };
    assert!(!taken.parked);
    let parked = fixture.ledger.approvals.parked_turn("main").await.unwrap();
    assert_eq!(parked.as_deref(), Some("t1"));
}

pub async fn of_two_decisions_the_first_is_made_whichever_process_makes_it(mut fixture: Fixture) {
    parked(&fixture.ledger, None).await;
    let elsewhere = fixture.store.other_process().await;
    let changed = ApprovedParams { json: r#"{"n":2}"#.to_owned(), hash: "h2".to_owned() };
    let approve = decision(ApprovalVerdict::Approve(Some(changed)), "eve");
    let decided = elsewhere.approvals.decide(approve.clone()).await.unwrap();
    assert_eq!((decided.params.get(), decided.params_hash.as_str()), (r#"{"n":2}"#, "h2"));
    assert_eq!(decided.requested_params.unwrap().get(), r#"{"n":1}"#);
    for again in [approve, decision(ApprovalVerdict::Deny("no".to_owned()), "bob")] {
        let refused = fixture.ledger.approvals.decide(again).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::AlreadyDecided);
        assert!(refused.message.contains("by `eve`"), "{}", refused.message);
    }
    let eve = Some("eve".to_owned());
    assert_eq!(listed(&fixture.ledger).await, [("a1".to_owned(), ApprovalStatus::Approved, eve)]);
    let unknown = ApprovalDecision {
        of: ApprovalName::Call("c9".to_owned()),
        ..decision(ApprovalVerdict::Provide("{}".to_owned()), "eve")
    };
    let refused = fixture.ledger.approvals.decide(unknown).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::UnknownApproval);
}

pub async fn a_decision_persists_and_is_taken_over_with_the_turn(mut fixture: Fixture) {
    parked(&fixture.ledger, None).await;
    fixture.next_process(ProcessEnd::Killed).await;
    let deny = decision(ApprovalVerdict::Deny("no".to_owned()), "eve");
    fixture.ledger.approvals.decide(deny).await.unwrap();
    fixture.next_process(ProcessEnd::Killed).await;
    let Opened::Leased(turn) = fixture.ledger.journal.reopen("t1").await.unwrap() else {
        panic!("it is free")
    };
    let [approval] = &turn.approvals[..] else { panic!("one approval") };
    assert_eq!(approval.status, ApprovalStatus::Denied);
    assert_eq!(approval.reason.as_deref(), Some("no"));
}

pub async fn a_parked_turn_wakes_for_a_decision_of_any_process_and_for_its_end(
    mut fixture: Fixture,
) {
    let turn = parked(&fixture.ledger, None).await;
    let elsewhere = fixture.store.other_process().await;
    let mut wait = fixture.ledger.approvals.unparked("t1", vec!["a1".to_owned()]);
    assert!(is_pending(&mut wait));
    elsewhere.approvals.decide(decision(ApprovalVerdict::Approve(None), "eve")).await.unwrap();
    assert_eq!(wait.await.unwrap(), Unparked::Decided);
    let Opened::Leased(taken) = fixture.ledger.journal.reopen("t1").await.unwrap() else {
        panic!("it is free")
    };
    let ended = TurnEnd { epoch: Some(taken.epoch), has_approvals: true, ..turn };
    fixture.ledger.journal.commit(Box::new(ended)).await.unwrap();
    let ended = elsewhere.approvals.unparked("t1", vec!["a1".to_owned()]).await;
    assert_eq!(ended.unwrap(), Unparked::Ended);
    assert_eq!(elsewhere.approvals.parked_turn("main").await.unwrap(), None);
}

pub async fn an_approval_expires_also_while_no_process_lives(mut fixture: Fixture) {
    let turn = parked(&fixture.ledger, Some(NOW + 1_000)).await;
    fixture.next_process(ProcessEnd::Killed).await;
    assert_eq!(listed(&fixture.ledger).await, [("a1".to_owned(), ApprovalStatus::Pending, None)]);
    fixture.store.advance(Duration::from_secs(2));
    assert_eq!(listed(&fixture.ledger).await, [("a1".to_owned(), ApprovalStatus::Expired, None)]);
    let late = decision(ApprovalVerdict::Approve(None), "eve");
    let refused = fixture.ledger.approvals.decide(late).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::AlreadyDecided);
    let woken = fixture.ledger.approvals.unparked("t1", vec!["a1".to_owned()]).await;
    assert_eq!(woken.unwrap(), Unparked::Decided);
    let Opened::Leased(taken) = fixture.ledger.journal.reopen("t1").await.unwrap() else {
        panic!("it is free")
    };
    let ended = TurnEnd { epoch: Some(taken.epoch), has_approvals: true, ..turn };
    fixture.ledger.journal.commit(Box::new(ended)).await.unwrap();
    assert_eq!(listed(&fixture.ledger).await, [("a1".to_owned(), ApprovalStatus::Expired, None)]);
}

pub async fn the_end_of_a_turn_cancels_what_nobody_has_decided(fixture: Fixture) {
    let turn = parked(&fixture.ledger, None).await;
    let Opened::Leased(taken) = fixture.ledger.journal.reopen("t1").await.unwrap() else {
        panic!("it is free")
    };
    let ended = TurnEnd { epoch: Some(taken.epoch), has_approvals: true, ..turn };
    fixture.ledger.journal.commit(Box::new(ended)).await.unwrap();
    assert_eq!(listed(&fixture.ledger).await, [("a1".to_owned(), ApprovalStatus::Cancelled, None)]);
    let late = decision(ApprovalVerdict::Approve(None), "eve");
    let refused = fixture.ledger.approvals.decide(late).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::AlreadyDecided);
    begin(&fixture.ledger, &short_turn("t2", "main", Some("t1"))).await;
}
