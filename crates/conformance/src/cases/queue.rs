//! The queues of a broker: messages are taken and ended in the commit points of their turns, each exactly once
//! (docs/rules/queue.md).

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{NOW, begin, ending, message, opening, raw, short_turn, step, turn};
use model::{
    AgentError, AgentErrorKind, Block, DropPolicy, Enqueued, ErrorDetail, FailedReason,
    FailureKind, ItemStatus, LedgerPorts, MessageLayers, NewItem, Opened, QueryLimits, QueueEnd,
    QueueItem, QueueLease, QueueLimits, QueueMode, QueueTarget, QueueView, Role, Route,
    SessionQueue, StopReason, StorageErrorKind, StoredItem, ToolCallStatus, TurnEnd, TurnStatus,
};

/// A message for the session `label`.
pub fn new_item(id: &str, label: &str) -> NewItem {
    NewItem {
        item: QueueItem {
            id: id.to_owned(),
            mode: QueueMode::Queue,
            route: Route { channel: Some("telegram".to_owned()), ..Route::default() },
            principal: "owner".to_owned(),
            is_system: false,
            tries: 0,
            failures: 0,
            not_before: 0,
        },
        to: QueueTarget::Session(label.to_owned()),
        source: "user".to_owned(),
        message: format!(r#"{{"role":"user","content":"{id}"}}"#),
        request: "{}".to_owned(),
        event_id: None,
        sender: None,
    }
}

/// The row of a message that waits.
fn row(new: &NewItem, label: &str) -> StoredItem {
    StoredItem {
        item: QueueItem { not_before: NOW, ..new.item.clone() },
        session_label: label.to_owned(),
        source: new.source.clone(),
        message: new.message.clone(),
        request: new.request.clone(),
        event_id: new.event_id.clone(),
        sender: None,
        status: ItemStatus::Pending,
        reason: None,
        detail: None,
        turn_id: None,
        created_at: NOW,
        claimed_at: None,
        delivered_at: None,
    }
}

async fn enqueue(ledger: &LedgerPorts, new: &NewItem) -> Enqueued {
    ledger.queue.enqueue(Box::new(new.clone()), QueueLimits::default()).await.unwrap()
}

fn queued(label: &str) -> Enqueued {
    Enqueued::Queued { session_label: label.to_owned(), is_fork: false, dropped: Vec::new() }
}

async fn item(ledger: &LedgerPorts, id: &str) -> StoredItem {
    ledger.queue.queue_item(id).await.unwrap().unwrap()
}

async fn queue(ledger: &LedgerPorts, label: &str) -> SessionQueue {
    ledger.queue.queue(label, QueueView::Whole).await.unwrap()
}

/// Opens `turn` with messages of the queue.
async fn begin_with(ledger: &LedgerPorts, turn: &TurnEnd, items: &[&str]) -> i64 {
    begin_naming(ledger, turn, items, &[]).await
}

/// Opens `turn` with messages of the queue, and names dropped ones.
async fn begin_naming(ledger: &LedgerPorts, turn: &TurnEnd, items: &[&str], named: &[&str]) -> i64 {
    let mut opening = opening(turn);
    opening.items = items.iter().map(|id| (*id).to_owned()).collect();
    opening.named = named.iter().map(|id| (*id).to_owned()).collect();
    match ledger.journal.begin(opening).await.unwrap() {
        Opened::Leased(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

/// W4 of a turn that took `items` as it began.
fn ended(turn: &TurnEnd, epoch: i64, items: &[&str]) -> Box<TurnEnd> {
    let mut end = ending(turn, epoch, 1);
    let items = items.iter().map(|id| (*id).to_owned()).collect();
    end.queue = Some(Box::new(QueueEnd { items, ..QueueEnd::default() }));
    end
}

/// The same turn, which failed with nothing in it.
fn failed(mut end: Box<TurnEnd>, kind: FailureKind, retryable: bool) -> Box<TurnEnd> {
    (end.status, end.stop_reason) = (TurnStatus::Failed, StopReason::Error);
    end.move_pointer = false;
    end.messages.clear();
    end.response_message_id = None;
    end.tool_call_count = 0;
    end.error = Some(AgentError {
        kind: AgentErrorKind::ModelError,
        message: "it failed".to_owned(),
        retryable,
        detail: ErrorDetail {
            kind,
            status: None,
            code: None,
            retry_after_ms: None,
            retry_after_source: None,
        },
    });
    end
}

pub async fn an_event_is_queued_once_wherever_it_would_go(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let first = NewItem { event_id: Some("e1".to_owned()), ..new_item("i1", "main") };
    assert_eq!(enqueue(ledger, &first).await, queued("main"));
    let again = NewItem { event_id: Some("e1".to_owned()), ..new_item("i2", "other") };
    let duplicate =
        Enqueued::Duplicate { item_id: "i1".to_owned(), session_label: "main".to_owned() };
    assert_eq!(enqueue(ledger, &again).await, duplicate);
    let mut elsewhere = NewItem { event_id: Some("e1".to_owned()), ..new_item("i3", "main") };
    elsewhere.item.route.channel = Some("discord".to_owned());
    assert_eq!(enqueue(ledger, &elsewhere).await, queued("main"), "another channel's event");
    let pending = vec![row(&first, "main"), row(&elsewhere, "main")];
    assert_eq!(
        queue(ledger, "main").await,
        SessionQueue { pending: pending.clone(), ..SessionQueue::default() }
    );
    assert_eq!(ledger.queue.waiting_items("main").await.unwrap(), pending);
    assert_eq!(ledger.queue.waiting_sessions().await.unwrap(), ["main"]);
    assert_eq!(ledger.queue.queue_item("i2").await.unwrap(), None);
}

pub async fn of_a_long_queue_the_messages_of_a_running_turn_are_read_alone(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let modes = [
        QueueMode::Queue,
        QueueMode::Steer,
        QueueMode::Collect,
        QueueMode::SteerBacklog,
        QueueMode::Followup,
        QueueMode::Interrupt,
    ];
    for (at, mode) in modes.into_iter().enumerate() {
        let mut new = new_item(&format!("i{at}"), "main");
        new.item.mode = mode;
        enqueue(ledger, &new).await;
    }
    let turn = short_turn("t1", "main", None);
    begin_with(ledger, &turn, &["i0"]).await;
    let read = ledger.queue.queue("main", QueueView::OfRunningTurn).await.unwrap();
    let ids = |queue: &SessionQueue| {
        queue.pending.iter().map(|it| it.item.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&read), ["i1", "i3", "i5"]);
    let whole = queue(ledger, "main").await;
    assert_eq!(ids(&whole), ["i1", "i2", "i3", "i4", "i5"]);
    let pending = read.pending.clone();
    assert_eq!(read, SessionQueue { pending, ..whole }, "all else is the same");
}

pub async fn a_turn_takes_its_messages_as_it_begins_and_delivers_them_as_it_ends(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let (one, two) = (new_item("i1", "main"), new_item("i2", "main"));
    enqueue(ledger, &one).await;
    enqueue(ledger, &two).await;
    let first = short_turn("t1", "main", None);
    let epoch = begin_with(ledger, &first, &["i1"]).await;
    let taken = StoredItem {
        status: ItemStatus::Processing,
        turn_id: Some("t1".to_owned()),
        claimed_at: Some(NOW),
        ..row(&one, "main")
    };
    assert_eq!(item(ledger, "i1").await, taken);
    let now = queue(ledger, "main").await;
    assert_eq!(
        (now.pending, now.open_turn.as_deref()),
        (vec![row(&two, "main")], Some("t1")),
        "the other one waits"
    );
    ledger.journal.commit(ended(&first, epoch, &["i1"])).await.unwrap();
    let delivered = StoredItem { status: ItemStatus::Delivered, delivered_at: Some(NOW), ..taken };
    assert_eq!(item(ledger, "i1").await, delivered);
    assert_eq!(queue(ledger, "main").await.open_turn, None);
}

pub async fn a_message_is_in_one_turn_only(fixture: Fixture) {
    let ledger = &fixture.ledger;
    enqueue(ledger, &new_item("i1", "main")).await;
    let first = short_turn("t1", "main", None);
    let epoch = begin_with(ledger, &first, &["i1"]).await;
    let refused = |id: &'static str, label: &'static str| async move {
        let mut other = opening(&short_turn(id, label, None));
        other.items = vec!["i1".to_owned()];
        ledger.journal.begin(other).await.unwrap_err().kind
    };
    assert_eq!(refused("t2", "other").await, StorageErrorKind::StaleWriter);
    ledger.journal.commit(ended(&first, epoch, &["i1"])).await.unwrap();
    assert_eq!(refused("t3", "other").await, StorageErrorKind::StaleWriter);
    assert!(!ledger.queue.cancel("i1".to_owned()).await.unwrap());
    enqueue(ledger, &new_item("i4", "main")).await;
    assert!(ledger.queue.cancel("i4".to_owned()).await.unwrap());
    let mut cancelled = opening(&short_turn("t4", "main", Some("t1")));
    cancelled.items = vec!["i4".to_owned()];
    let refused = ledger.journal.begin(cancelled).await.unwrap_err().kind;
    assert_eq!(refused, StorageErrorKind::StaleWriter);
    let found = fixture.store.contents().await;
    assert_eq!((found.turns, found.open), (1, 0), "none of them was begun");
}

pub async fn a_failed_turn_without_an_effect_returns_its_messages_until_they_are_poisoned(
    fixture: Fixture,
) {
    let ledger = &fixture.ledger;
    let one = new_item("i1", "main");
    enqueue(ledger, &one).await;
    // Trouble of the provider does not count.
    for (number, kind) in (1..=8).map(|number| match number {
        1 => (number, FailureKind::RateLimit),
        _ => (number, FailureKind::Unknown),
    }) {
        let next = short_turn(&format!("t{number}"), "main", None);
        let epoch = begin_with(ledger, &next, &["i1"]).await;
        ledger.journal.commit(failed(ended(&next, epoch, &["i1"]), kind, true)).await.unwrap();
        if number < 8 {
            let wait = (500 << (number - 1)).min(10_000);
            let waiting = QueueItem {
                tries: number,
                failures: number - 1,
                not_before: NOW + i64::from(wait),
                ..one.item.clone()
            };
            assert_eq!(
                item(ledger, "i1").await,
                StoredItem { item: waiting, ..row(&one, "main") },
                "it waits for try {number}"
            );
        }
    }
    let poisoned = item(ledger, "i1").await;
    assert_eq!(
        (poisoned.status, poisoned.reason, poisoned.turn_id.as_deref()),
        (ItemStatus::Failed, Some(FailedReason::Poisoned), Some("t8"))
    );
    assert_eq!(ledger.queue.waiting_sessions().await.unwrap(), Vec::<String>::new());
}

pub async fn a_turn_that_cannot_be_tried_again_fails_its_messages(fixture: Fixture) {
    let ledger = &fixture.ledger;
    for (number, retryable, has_effect) in [(1, false, false), (2, true, true)] {
        let id = format!("i{number}");
        enqueue(ledger, &new_item(&id, "main")).await;
        let next = short_turn(&format!("t{number}"), "main", None);
        let epoch = begin_with(ledger, &next, &[&id]).await;
        let mut end = failed(ended(&next, epoch, &[&id]), FailureKind::Network, retryable);
        end.queue = Some(Box::new(QueueEnd { has_effect, ..QueueEnd::default() }));
        ledger.journal.commit(end).await.unwrap();
        let ended = item(ledger, &id).await;
        assert_eq!(
            (ended.status, ended.reason, ended.detail.as_deref()),
            (ItemStatus::Failed, Some(FailedReason::RunFailed), Some("it failed"))
        );
    }
    // A turn that never began ends what it was to take.
    enqueue(ledger, &new_item("i3", "main")).await;
    let mut aborted = short_turn("t3", "main", None);
    (aborted.status, aborted.stop_reason) = (TurnStatus::Aborted, StopReason::Aborted);
    aborted.move_pointer = false;
    let items = vec!["i3".to_owned()];
    aborted.queue = Some(Box::new(QueueEnd { items, ..QueueEnd::default() }));
    fixture.commit(aborted).await.unwrap();
    assert_eq!(item(ledger, "i3").await.status, ItemStatus::Delivered);
}

pub async fn the_messages_of_a_killed_process_stay_in_their_turn_until_it_is_taken_over(
    mut fixture: Fixture,
) {
    for id in ["i1", "i2"] {
        enqueue(&fixture.ledger, &new_item(id, "main")).await;
    }
    let first = turn("t1", "main", None);
    begin_with(&fixture.ledger, &first, &["i1"]).await;
    fixture.next_process(ProcessEnd::Killed).await;
    let ledger = &fixture.ledger;
    let now = queue(ledger, "main").await;
    assert_eq!((now.open_turn.as_deref(), now.lease), (Some("t1"), QueueLease::Free));
    assert_eq!(now.pending.len(), 1);
    let reopen = || async { ledger.journal.reopen("t1").await.unwrap() };
    let Opened::Leased(taken) = reopen().await else { panic!("its process has ended") };
    assert_eq!(item(ledger, "i1").await.status, ItemStatus::Processing, "until the turn ends");
    let mut closed = failed(ended(&first, taken.epoch, &[]), FailureKind::Unknown, true);
    let interrupted = |has_effect| {
        Some(Box::new(QueueEnd { is_interrupted: true, has_effect, ..QueueEnd::default() }))
    };
    closed.queue = interrupted(false);
    ledger.journal.commit(closed).await.unwrap();
    let again = item(ledger, "i1").await;
    assert_eq!((again.status, again.item.tries), (ItemStatus::Pending, 1), "nothing had begun");

    let second = turn("t2", "main", None);
    begin_with(ledger, &second, &["i1"]).await;
    fixture.next_process(ProcessEnd::Killed).await;
    let ledger = &fixture.ledger;
    let Opened::Leased(taken) = ledger.journal.reopen("t2").await.unwrap() else {
        panic!("its process has ended")
    };
    let mut closed = failed(ended(&second, taken.epoch, &[]), FailureKind::Unknown, true);
    closed.queue = interrupted(true);
    ledger.journal.commit(closed).await.unwrap();
    let ended = item(ledger, "i1").await;
    assert_eq!(
        (ended.status, ended.reason),
        (ItemStatus::Failed, Some(FailedReason::Interrupted)),
        "a tool had begun"
    );
}

pub async fn a_steered_message_is_the_turns_with_the_step_that_stores_it(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let first = turn("t1", "main", None);
    let epoch = begin(ledger, &first).await;
    enqueue(ledger, &new_item("i1", "main")).await;
    let (ids, turn_id) = (vec!["i1".to_owned()], "t1".to_owned());
    assert_eq!(ledger.queue.offer(ids.clone(), turn_id.clone()).await.unwrap(), ids);
    assert_eq!(ledger.queue.offer(ids.clone(), turn_id).await.unwrap(), Vec::<String>::new());
    assert!(!ledger.queue.cancel("i1".to_owned()).await.unwrap(), "it was offered");
    let mut steered = step(&first, epoch, 1..3, ToolCallStatus::Completed);
    steered.messages.push(message("u1", Role::User, 3, vec![Block::text("i1")]));
    steered.items = ids;
    ledger.journal.record(steered).await.unwrap();
    let taken = item(ledger, "i1").await;
    assert_eq!((taken.status, taken.turn_id.as_deref()), (ItemStatus::Processing, Some("t1")));
    let mut end = ended(&first, epoch, &[]);
    end.messages = vec![first.messages[3].clone()];
    end.messages[0].sequence = 4;
    ledger.journal.commit(end).await.unwrap();
    assert_eq!(item(ledger, "i1").await.status, ItemStatus::Delivered);
}

pub async fn a_message_that_was_offered_and_not_taken_waits_again(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let first = short_turn("t1", "main", None);
    let epoch = begin(ledger, &first).await;
    let (one, two) = (new_item("i1", "main"), new_item("i2", "main"));
    enqueue(ledger, &one).await;
    enqueue(ledger, &two).await;
    let offer = |id: &str| ledger.queue.offer(vec![id.to_owned()], "t1".to_owned());
    offer("i1").await.unwrap();
    ledger.queue.withdraw("t1".to_owned()).await.unwrap();
    assert_eq!(item(ledger, "i1").await, row(&one, "main"));
    offer("i2").await.unwrap();
    ledger.journal.commit(ended(&first, epoch, &[])).await.unwrap();
    assert_eq!(queue(ledger, "main").await.pending, [row(&one, "main"), row(&two, "main")]);
}

pub async fn a_full_queue_drops_a_message_that_the_next_turn_names_once(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let limits = |drop| QueueLimits { cap: 1, drop, ..QueueLimits::default() };
    let add = |new: NewItem, drop| ledger.queue.enqueue(Box::new(new), limits(drop));
    let (one, two) = (new_item("i1", "main"), new_item("i2", "main"));
    add(one.clone(), DropPolicy::Summarize).await.unwrap();
    let dropping = add(two.clone(), DropPolicy::Summarize).await.unwrap();
    let dropped = |id: &str| Enqueued::Queued {
        session_label: "main".to_owned(),
        is_fork: false,
        dropped: vec![id.to_owned()],
    };
    assert_eq!(dropping, dropped("i1"));
    let rejected = add(new_item("i3", "main"), DropPolicy::New).await.unwrap();
    assert_eq!(rejected, Enqueued::Rejected { session_label: "main".to_owned() });
    assert_eq!(item(ledger, "i3").await.reason, Some(FailedReason::Rejected));
    let unnamed = StoredItem {
        status: ItemStatus::Failed,
        reason: Some(FailedReason::Dropped),
        ..row(&one, "main")
    };
    let now = queue(ledger, "main").await;
    assert_eq!((now.pending, now.dropped), (vec![row(&two, "main")], vec![unnamed.clone()]));
    // One that was dropped after its turn was decided is in no turn.
    let mut late = opening(&short_turn("t0", "main", None));
    late.items = vec!["i1".to_owned()];
    let refused = ledger.journal.begin(late).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::StaleWriter);
    // A turn that is not in the session has named nothing.
    let first = short_turn("t1", "main", None);
    let epoch = begin_naming(ledger, &first, &["i2"], &["i1"]).await;
    assert_eq!(queue(ledger, "main").await.dropped, []);
    let end = failed(ended(&first, epoch, &["i2"]), FailureKind::Network, true);
    ledger.journal.commit(end).await.unwrap();
    assert_eq!(queue(ledger, "main").await.dropped, [unnamed]);
    let second = short_turn("t2", "main", None);
    let epoch = begin_naming(ledger, &second, &["i2"], &["i1"]).await;
    ledger.journal.commit(ended(&second, epoch, &["i2"])).await.unwrap();
    let now = queue(ledger, "main").await;
    assert_eq!(now, SessionQueue { lease: QueueLease::Here, ..SessionQueue::default() });
    let named = item(ledger, "i1").await;
    assert_eq!((named.status, named.turn_id.as_deref()), (ItemStatus::Failed, Some("t2")));
    // Another policy drops without a word.
    add(new_item("i4", "main"), DropPolicy::Old).await.unwrap();
    assert_eq!(add(new_item("i5", "main"), DropPolicy::Old).await.unwrap(), dropped("i4"));
    assert_eq!(queue(ledger, "main").await.dropped, []);
}

pub async fn a_thread_is_continued_in_its_session_or_in_a_fork(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    let ledger = &fixture.ledger;
    let to = |id: &str, turn_id: &str| NewItem {
        to: QueueTarget::Thread { turn_id: turn_id.to_owned(), fork: format!("fork-{id}") },
        ..new_item(id, "")
    };
    assert_eq!(enqueue(ledger, &to("i1", "t2")).await, queued("main"));
    let forked = |is_fork| Enqueued::Queued {
        session_label: "fork-i2".to_owned(),
        is_fork,
        dropped: Vec::new(),
    };
    assert_eq!(enqueue(ledger, &to("i2", "t1")).await, forked(true));
    assert_eq!(enqueue(ledger, &to("i3", "t1")).await, forked(false), "it is the fork's head");
    assert_eq!(ledger.journal.head("fork-i2").await.unwrap().as_deref(), Some("t1"));
    let unknown = to("i4", "t9");
    let refused = ledger.queue.enqueue(Box::new(unknown), QueueLimits::default()).await;
    assert_eq!(refused.unwrap_err().kind, StorageErrorKind::UnknownTurn);
}

pub async fn a_queue_is_suspended_and_cancelled_by_any_process(mut fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let elsewhere = fixture.store.other_process().await;
    let ledger = &fixture.ledger;
    let one = NewItem { request: raw(r#"{"a":1}"#).get().to_owned(), ..new_item("i1", "main") };
    enqueue(ledger, &one).await;
    enqueue(&elsewhere, &new_item("i2", "main")).await;
    elsewhere.queue.suspend("main".to_owned(), true).await.unwrap();
    elsewhere.queue.suspend("main".to_owned(), true).await.unwrap();
    assert!(queue(ledger, "main").await.is_suspended);
    ledger.queue.suspend("main".to_owned(), false).await.unwrap();
    assert!(!queue(&elsewhere, "main").await.is_suspended);
    let refused = ledger.queue.refuse(vec!["i1".to_owned()], "no agent".to_owned());
    refused.await.unwrap();
    let ended = item(&elsewhere, "i1").await;
    assert_eq!(
        (ended.reason, ended.detail.as_deref()),
        (Some(FailedReason::RunFailed), Some("no agent"))
    );
    assert_eq!(elsewhere.queue.clear("main".to_owned()).await.unwrap(), ["i2"]);
    assert_eq!(item(ledger, "i2").await.reason, Some(FailedReason::Cancelled));
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(ledger, &second).await;
    assert_eq!(queue(&elsewhere, "main").await.lease, QueueLease::RunsElsewhere);
    assert_eq!(queue(ledger, "main").await.lease, QueueLease::Here);
    ledger.journal.commit(ending(&second, epoch, 1)).await.unwrap();
    assert_eq!(queue(&elsewhere, "main").await.lease, QueueLease::Elsewhere);
}

pub async fn the_layers_of_messages_are_stored_with_them(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let layers = |id: &str| MessageLayers {
        message_id: id.to_owned(),
        json: format!(r#"[{{"name":"persona","source":"broker","tokens":1,"hash":"{id}"}}]"#),
    };
    for id in ["i1", "i2"] {
        enqueue(ledger, &new_item(id, "main")).await;
    }
    let mut first = turn("t1", "main", None);
    first.settings.layers = Some(layers("t1-m0"));
    let epoch = begin_with(ledger, &first, &[]).await;
    // A message that is composed for the running turn comes with its step, another one with its end.
    ledger.queue.offer(vec!["i1".to_owned(), "i2".to_owned()], "t1".to_owned()).await.unwrap();
    let mut results = step(&first, epoch, 1..3, ToolCallStatus::Completed);
    let steered = |id: &str, sequence| message(id, Role::User, sequence, vec![Block::text("also")]);
    results.messages.push(steered("t1-s1", 3));
    (results.items, results.layers) = (vec!["i1".to_owned()], vec![layers("t1-s1")]);
    ledger.journal.record(results).await.unwrap();
    let mut end = ended(&first, epoch, &[]);
    end.messages =
        vec![steered("t1-s2", 4), message("t1-m9", Role::Assistant, 5, vec![Block::text("done")])];
    end.response_message_id = Some("t1-m9".to_owned());
    end.queue = Some(Box::new(QueueEnd {
        steered: vec!["i1".to_owned(), "i2".to_owned()],
        layers: vec![layers("t1-s2")],
        ..QueueEnd::default()
    }));
    ledger.journal.commit(end).await.unwrap();
    // A turn that is written at once.
    let mut at_once = short_turn("t2", "main", Some("t1"));
    at_once.settings.layers = Some(layers("t2-m0"));
    fixture.commit(at_once).await.unwrap();
    let sql = "SELECT id, context_json FROM messages WHERE context_json IS NOT NULL ORDER BY id";
    let found = ledger.read.query(sql.to_owned(), "[]".to_owned(), QueryLimits::default());
    let rows = found.await.unwrap().rows;
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.values.iter().map(|it| it.as_str().unwrap().to_owned()).collect())
        .collect();
    let expected =
        ["t1-m0", "t1-s1", "t1-s2", "t2-m0"].map(|id| vec![id.to_owned(), layers(id).json]);
    assert_eq!(rows, expected);
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn a_rejected_message_leaves_its_event_free(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let limits = QueueLimits { cap: 1, drop: DropPolicy::New, ..QueueLimits::default() };
    let send = |new: &NewItem| ledger.queue.enqueue(Box::new(new.clone()), limits);
    assert_eq!(send(&new_item("i1", "main")).await.unwrap(), queued("main"));
    let of = |id: &str| NewItem { event_id: Some("e1".to_owned()), ..new_item(id, "main") };
    let rejected = Enqueued::Rejected { session_label: "main".to_owned() };
    for id in ["i2", "i3"] {
        assert_eq!(send(&of(id)).await.unwrap(), rejected);
        assert_eq!(item(ledger, id).await.reason, Some(FailedReason::Rejected));
    }
    assert!(ledger.queue.cancel("i1".to_owned()).await.unwrap());
    assert_eq!(send(&of("i4")).await.unwrap(), queued("main"));
    let duplicate =
        Enqueued::Duplicate { item_id: "i4".to_owned(), session_label: "main".to_owned() };
    assert_eq!(send(&of("i5")).await.unwrap(), duplicate);
}
