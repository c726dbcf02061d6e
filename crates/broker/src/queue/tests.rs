//! The queue through its public functions.

use super::*;
use model::{DropPolicy, FailedReason, FailureKind, QueueItem, QueueLimits, QueueMode, Route};

fn item(id: &str, mode: QueueMode) -> QueueItem {
    QueueItem {
        id: id.to_owned(),
        mode,
        route: Route::default(),
        principal: "owner".to_owned(),
        is_system: false,
        tries: 0,
        failures: 0,
        not_before: 0,
    }
}

fn at(channel: &str, item: QueueItem) -> QueueItem {
    QueueItem { route: Route { channel: Some(channel.to_owned()), ..Route::default() }, ..item }
}

fn of(principal: &str, item: QueueItem) -> QueueItem {
    QueueItem { principal: principal.to_owned(), ..item }
}

fn after(time: i64, item: QueueItem) -> QueueItem {
    QueueItem { not_before: time, ..item }
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

const RUNNING: SessionRun<'_> =
    SessionRun::Running { principal: "owner", is_steerable: true, is_ending: false };
const COMPACTING: SessionRun<'_> =
    SessionRun::Running { principal: "owner", is_steerable: false, is_ending: false };
const ENDING: SessionRun<'_> =
    SessionRun::Running { principal: "owner", is_steerable: true, is_ending: true };

fn next(pending: &[QueueItem], run: SessionRun<'_>, now: i64) -> Decision {
    decide(pending, run, false, 1_000, now)
}

pub(super) const MODES: [QueueMode; 6] = [
    QueueMode::Queue,
    QueueMode::Followup,
    QueueMode::Collect,
    QueueMode::Interrupt,
    QueueMode::Steer,
    QueueMode::SteerBacklog,
];

#[test]
fn an_idle_session_runs_the_oldest_message_alone_in_every_mode() {
    for mode in MODES {
        let pending = [item("a", mode), item("b", QueueMode::Queue)];
        assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a"])), "{mode:?}");
    }
}

#[test]
fn queue_and_followup_wait_for_the_run() {
    let pending = [item("a", QueueMode::Queue), item("b", QueueMode::Followup)];
    assert_eq!(next(&pending, RUNNING, 0), Decision::Wait(None));
}

#[test]
fn collected_messages_of_one_route_and_principal_share_a_turn() {
    let pending = [
        item("a", QueueMode::Collect),
        item("b", QueueMode::Collect),
        at("telegram", item("c", QueueMode::Collect)),
        item("d", QueueMode::Collect),
    ];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a", "b"])));
    assert_eq!(next(&pending[2..], SessionRun::Idle, 0), Decision::Start(ids(&["c"])));
    let pending = [item("a", QueueMode::Collect), of("guest", item("b", QueueMode::Collect))];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a"])));
}

#[test]
fn a_message_restarts_the_debounce_of_its_group_ten_times_at_most() {
    let pending = |last| {
        [after(1_000, item("a", QueueMode::Collect)), after(last, item("b", QueueMode::Collect))]
    };
    assert_eq!(next(&pending(1_700), SessionRun::Idle, 1_000), Decision::Wait(Some(1_700)));
    assert_eq!(next(&pending(1_700), SessionRun::Idle, 1_700), Decision::Start(ids(&["a", "b"])));
    assert_eq!(next(&pending(60_000), SessionRun::Idle, 1_000), Decision::Wait(Some(11_000)));
}

#[test]
fn an_interrupt_ends_the_run_once_and_then_takes_the_backlog_of_its_principal() {
    let pending = [
        after(90_000, item("a", QueueMode::Queue)),
        of("guest", item("b", QueueMode::Queue)),
        item("c", QueueMode::Interrupt),
        item("d", QueueMode::Queue),
    ];
    assert_eq!(next(&pending, RUNNING, 0), Decision::Abort);
    assert_eq!(next(&pending, COMPACTING, 0), Decision::Abort);
    assert_eq!(next(&pending, SessionRun::Parked, 0), Decision::Abort);
    assert_eq!(next(&pending, ENDING, 0), Decision::Wait(None));
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a", "c"])));
}

#[test]
fn an_interrupt_that_is_tried_again_waits_for_its_time_in_every_state() {
    let again = after(500, item("b", QueueMode::Interrupt));
    let pending = [after(900, item("a", QueueMode::Queue)), again.clone()];
    for run in [SessionRun::Idle, RUNNING, COMPACTING, SessionRun::Parked] {
        assert_eq!(next(&pending, run, 499), Decision::Wait(Some(500)), "{run:?}");
    }
    assert_eq!(next(&pending, RUNNING, 500), Decision::Abort);
    assert_eq!(next(&pending, SessionRun::Parked, 500), Decision::Abort);
    assert_eq!(next(&pending, SessionRun::Idle, 500), Decision::Start(ids(&["a", "b"])));
    // It holds back what came after it, and a newer interrupt takes it along at once.
    let later = [again.clone(), item("c", QueueMode::Queue)];
    assert_eq!(next(&later, SessionRun::Idle, 499), Decision::Wait(Some(500)));
    let newer = [again, item("c", QueueMode::Queue), item("d", QueueMode::Interrupt)];
    assert_eq!(next(&newer, SessionRun::Idle, 0), Decision::Start(ids(&["b", "c", "d"])));
}

#[test]
fn several_interrupts_of_one_principal_share_a_turn() {
    let pending = [
        item("a", QueueMode::Interrupt),
        item("b", QueueMode::Queue),
        item("c", QueueMode::Interrupt),
    ];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a", "b", "c"])));
}

#[test]
fn steering_enters_a_run_of_its_principal_only() {
    let pending = [
        item("a", QueueMode::Queue),
        item("b", QueueMode::Steer),
        of("guest", item("c", QueueMode::Steer)),
        item("d", QueueMode::SteerBacklog),
    ];
    assert_eq!(next(&pending, RUNNING, 0), Decision::Steer(ids(&["b", "d"])));
    assert_eq!(next(&pending, COMPACTING, 0), Decision::Wait(None));
    assert_eq!(next(&pending, SessionRun::Parked, 0), Decision::Wait(None));
}

#[test]
fn a_steer_that_missed_the_run_is_next_and_a_steer_backlog_waits_for_its_turn() {
    let pending = [item("a", QueueMode::Queue), item("b", QueueMode::Steer)];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["b"])));
    let pending = [item("a", QueueMode::Queue), item("b", QueueMode::SteerBacklog)];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Start(ids(&["a"])));
}

#[test]
fn a_message_that_waits_for_another_try_holds_back_the_later_ones() {
    let pending = [after(500, item("a", QueueMode::Queue)), item("b", QueueMode::Queue)];
    assert_eq!(next(&pending, SessionRun::Idle, 0), Decision::Wait(Some(500)));
    assert_eq!(next(&pending, SessionRun::Idle, 500), Decision::Start(ids(&["a"])));
}

#[test]
fn a_system_message_that_is_tried_again_waits_in_every_mode() {
    for mode in [QueueMode::Queue, QueueMode::Collect, QueueMode::Steer, QueueMode::Interrupt] {
        let pending = [QueueItem { is_system: true, ..after(500, item("a", mode)) }];
        assert_eq!(next(&pending, SessionRun::Idle, 499), Decision::Wait(Some(500)), "{mode:?}");
        assert_eq!(next(&pending, SessionRun::Idle, 500), Decision::Start(ids(&["a"])));
    }
}

#[test]
fn a_message_that_is_tried_again_enters_a_run_at_its_time() {
    let pending = [after(500, item("a", QueueMode::Steer))];
    assert_eq!(next(&pending, RUNNING, 499), Decision::Wait(Some(500)));
    assert_eq!(next(&pending, RUNNING, 500), Decision::Steer(ids(&["a"])));
    assert_eq!(next(&pending, COMPACTING, 499), Decision::Wait(None));
}

#[test]
fn a_suspended_queue_does_nothing() {
    let pending = [item("a", QueueMode::Interrupt)];
    for run in [SessionRun::Idle, RUNNING, SessionRun::Parked] {
        assert_eq!(decide(&pending, run, true, 1_000, 0), Decision::Wait(None));
    }
}

#[test]
fn a_message_that_follows_changes_nothing_while_a_turn_runs() {
    for mode in MODES {
        let waiting = [after(50, item("a", QueueMode::Interrupt)), item("b", QueueMode::Queue)];
        let with = [waiting.to_vec(), vec![item("c", mode)]].concat();
        let changed = [RUNNING, COMPACTING, ENDING, SessionRun::Parked]
            .iter()
            .any(|run| next(&waiting, *run, 0) != next(&with, *run, 0));
        assert_eq!(changed, !follows(mode), "{mode:?}");
    }
}

fn limits(cap: usize, drop: DropPolicy) -> QueueLimits {
    QueueLimits { cap, drop, debounce_ms: 1_000 }
}

/// The messages that there is no room for beside a new one, as a ledger finds them.
pub(super) fn over(pending: &[QueueItem], new: &QueueItem, limits: QueueLimits) -> Vec<String> {
    let Some(Counted { interrupts_only, room }) = Counted::of(new, limits) else {
        return Vec::new();
    };
    let counts =
        |it: &&QueueItem| !it.is_system && (!interrupts_only || it.mode == QueueMode::Interrupt);
    let mut ids: Vec<String> = pending.iter().filter(counts).map(|it| it.id.clone()).collect();
    ids.truncate(ids.len().saturating_sub(room as usize));
    ids
}

fn admitted(
    new: &QueueItem,
    pending: &[QueueItem],
    is_busy: bool,
    limits: QueueLimits,
    now: i64,
) -> Admission {
    admit(new, over(pending, new, limits), is_busy || !pending.is_empty(), limits, now)
}

#[test]
fn a_full_queue_follows_its_drop_policy() {
    let pending = [item("a", QueueMode::Queue), item("b", QueueMode::Queue)];
    let new = item("c", QueueMode::Queue);
    let admit = |drop| admitted(&new, &pending, true, limits(2, drop), 7);
    let dropped = Admission::Queued { not_before: 7, dropped: ids(&["a"]) };
    assert_eq!(admit(DropPolicy::Old), dropped);
    assert_eq!(admit(DropPolicy::Summarize), dropped);
    assert_eq!(admit(DropPolicy::New), Admission::Rejected);
}

#[test]
fn system_messages_and_interrupts_are_exempt_from_the_cap() {
    let system = |id| QueueItem { is_system: true, ..item(id, QueueMode::Collect) };
    let pending = [system("a"), item("b", QueueMode::Queue)];
    let queued = Admission::Queued { not_before: 0, dropped: Vec::new() };
    let admit = |new: &QueueItem| admitted(new, &pending, true, limits(1, DropPolicy::Old), 0);
    assert_eq!(admit(&system("c")), queued);
    assert_eq!(admit(&item("c", QueueMode::Interrupt)), queued);
    let dropped = Admission::Queued { not_before: 0, dropped: ids(&["b"]) };
    assert_eq!(admit(&item("c", QueueMode::Queue)), dropped);
}

#[test]
fn interrupts_that_wait_have_the_same_cap_among_themselves() {
    let pending = [
        item("a", QueueMode::Interrupt),
        item("b", QueueMode::Queue),
        item("c", QueueMode::Interrupt),
    ];
    let new = item("d", QueueMode::Interrupt);
    let admit = |drop, cap| admitted(&new, &pending, false, limits(cap, drop), 0);
    let queued = |dropped| Admission::Queued { not_before: 0, dropped };
    assert_eq!(admit(DropPolicy::Old, 3), queued(Vec::new()));
    assert_eq!(admit(DropPolicy::Old, 2), queued(ids(&["a"])));
    assert_eq!(admit(DropPolicy::Summarize, 1), queued(ids(&["a", "c"])));
    assert_eq!(admit(DropPolicy::New, 2), Admission::Rejected);
}

#[test]
fn only_a_collected_message_of_a_busy_session_is_debounced() {
    let queued = |not_before| Admission::Queued { not_before, dropped: Vec::new() };
    let none = QueueLimits::default();
    let new = item("a", QueueMode::Collect);
    assert_eq!(admitted(&new, &[], false, none, 5), queued(5));
    assert_eq!(admitted(&new, &[], true, none, 5), queued(1_005));
    assert_eq!(admitted(&item("a", QueueMode::Queue), &[], true, none, 5), queued(5));
}

fn failed(kind: FailureKind, retry_after_ms: Option<i64>) -> TurnEnd {
    TurnEnd::Failed { kind, is_retryable: true, has_effect: false, retry_after_ms }
}

#[test]
fn a_turn_in_the_session_delivers_its_messages_and_an_effect_is_never_repeated() {
    assert_eq!(after_turn(0, 0, &TurnEnd::Moved, 0), ItemEnd::Delivered);
    assert_eq!(after_turn(0, 0, &TurnEnd::Aborted, 0), ItemEnd::Delivered);
    let interrupted = ItemEnd::Failed(FailedReason::Interrupted);
    assert_eq!(after_turn(0, 0, &TurnEnd::Interrupted, 0), interrupted);
    for (is_retryable, has_effect) in [(false, false), (true, true), (false, true)] {
        let kind = FailureKind::Network;
        let end = TurnEnd::Failed { kind, is_retryable, has_effect, retry_after_ms: None };
        assert_eq!(after_turn(0, 0, &end, 0), ItemEnd::Failed(FailedReason::RunFailed));
    }
}

#[test]
fn tries_wait_from_half_a_second_to_ten_or_as_long_as_the_provider_requests() {
    let waits: Vec<i64> = (0..8)
        .map(|tries| match after_turn(tries, 0, &failed(FailureKind::Overloaded, None), 100) {
            ItemEnd::Pending { not_before, .. } => not_before - 100,
            ended => panic!("{ended:?}"),
        })
        .collect();
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]);
    let pending = ItemEnd::Pending { tries: 1, failures: 0, not_before: 30_000 };
    assert_eq!(after_turn(0, 0, &failed(FailureKind::RateLimit, Some(30_000)), 0), pending);
}

#[test]
fn seven_failures_poison_a_message_and_the_providers_trouble_never_does() {
    let once = |failures| after_turn(9, failures, &failed(FailureKind::Unknown, None), 0);
    assert_eq!(once(5), ItemEnd::Pending { tries: 10, failures: 6, not_before: 10_000 });
    assert_eq!(once(6), ItemEnd::Failed(FailedReason::Poisoned));
    for kind in [
        FailureKind::RateLimit,
        FailureKind::Overloaded,
        FailureKind::ServerError,
        FailureKind::Network,
    ] {
        let pending = ItemEnd::Pending { tries: 1_000_000, failures: 6, not_before: 10_000 };
        assert_eq!(after_turn(999_999, 6, &failed(kind, None), 0), pending);
    }
}

#[test]
fn the_note_has_a_short_line_for_each_of_the_newest_dropped_messages() {
    assert_eq!(overflow_note(&[], 20), None);
    let long = "ä".repeat(200);
    let note = overflow_note(&["first", "two\n  lines ", &long], 2).unwrap();
    let lines: Vec<&str> = note.lines().collect();
    let cut = format!("- {}…", "ä".repeat(159));
    assert_eq!(
        lines,
        ["[3 messages were left out because the queue was full:]", "- two lines", &cut]
    );
}
