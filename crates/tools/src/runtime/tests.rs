//! The runtime with hosts that return, fail, panic, hang or ignore their signal. Time is tokio's paused clock; barriers
//! prove overlap.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::value::RawValue;
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use super::super::AdmissionQueue;
use super::{
    CallEnd, CallRequest, Ending, First, Invocation, Limits, ToolAnswer, ToolFuture, ToolHost,
    run_call,
};
use base::clock::Clock;
use model::{ExecutionMode, ReplayClass, ToolDefinition};

fn first_run(invocation: Invocation) -> CallRequest {
    CallRequest { invocation, first: First::Run }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Answer(u64),
    Fail,
    Panic,
    PanicAtOnce,
    /// Never returns and ignores the signal.
    Hang,
    /// Returns an error when cancelled.
    Obey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    Begin(usize),
    Signalled(usize),
}

/// A host with scripted calls; the id of a call is its number.
#[derive(Default)]
struct Script {
    acts: Vec<Act>,
    trace: Arc<Mutex<Vec<Trace>>>,
    /// Calls between their start and their end.
    running: Arc<Mutex<HashMap<usize, ()>>>,
}

/// Removes a call from the running ones, also when its future is dropped.
struct Running(Arc<Mutex<HashMap<usize, ()>>>, usize);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().unwrap().remove(&self.1);
    }
}

impl ToolHost for Script {
    fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture {
        let number: usize = invocation.call_id.parse().unwrap();
        let act = self.acts[number];
        let trace = Arc::clone(&self.trace);
        trace.lock().unwrap().push(Trace::Begin(number));
        self.running.lock().unwrap().insert(number, ());
        let running = Running(Arc::clone(&self.running), number);
        assert_ne!(act, Act::PanicAtOnce);
        Box::pin(async move {
            let _running = running;
            match act {
                Act::Answer(millis) => {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    ToolAnswer::text(format!("answer {number}"))
                }
                Act::Fail => ToolAnswer::error("no"),
                Act::Panic | Act::PanicAtOnce => panic!("scripted"),
                Act::Hang => std::future::pending().await,
                Act::Obey => {
                    cancel.cancelled().await;
                    trace.lock().unwrap().push(Trace::Signalled(number));
                    ToolAnswer::error("stopped")
                }
            }
        })
    }
}

fn invocation(number: usize) -> Invocation {
    Invocation {
        call_id: number.to_string(),
        provider_call_id: "call_0".to_owned(),
        run_id: "run".to_owned(),
        turn_id: "turn".to_owned(),
        session_label: "session".to_owned(),
        message_id: "message".to_owned(),
        tool_name: "t".to_owned(),
        arguments_json: "{}".to_owned(),
    }
}

const LIMITS: Limits = Limits {
    timeout: Some(Duration::from_millis(1_000)),
    deadline: None,
    retries: 0,
    result_chars: 400_000,
};

fn ended(end: &CallEnd) -> (Ending, String) {
    (end.ending, end.answer.message())
}

fn run_async<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_overlap_and_sequential_ones_do_not() {
    struct Meet(Arc<Barrier>, Arc<AtomicUsize>);
    impl ToolHost for Meet {
        fn execute(&self, invocation: Invocation, _: CancellationToken) -> ToolFuture {
            let (barrier, alone) = (Arc::clone(&self.0), Arc::clone(&self.1));
            Box::pin(async move {
                if invocation.call_id == "2" {
                    assert_eq!(alone.load(Ordering::SeqCst), 0);
                } else {
                    alone.fetch_add(1, Ordering::SeqCst);
                    barrier.wait().await;
                    alone.fetch_sub(1, Ordering::SeqCst);
                }
                ToolAnswer::text(invocation.call_id)
            })
        }
    }
    let host = Meet(Arc::new(Barrier::new(2)), Arc::default());
    let admissions = AdmissionQueue::new(8);
    let abort = CancellationToken::new();
    // 0 and 1 wait for each other at the barrier, so they must overlap; 3 and 4 too, but only after 2.
    let modes = [
        ExecutionMode::Parallel,
        ExecutionMode::Parallel,
        ExecutionMode::Sequential,
        ExecutionMode::Parallel,
        ExecutionMode::Parallel,
    ];
    let calls: Vec<_> = modes
        .into_iter()
        .enumerate()
        .map(|(n, mode)| {
            run_call(
                &host,
                first_run(invocation(n)),
                LIMITS,
                admissions.queue(mode),
                &abort,
                async { true },
            )
        })
        .collect();
    // Awaited in reverse: the order of the queue decides about admission, not the order of the polls.
    let mut ends: Vec<_> = join_all(calls.into_iter().rev()).await.iter().map(ended).collect();
    ends.reverse();
    let expected: Vec<_> = (0..5).map(|n| (Ending::Completed, n.to_string())).collect();
    assert_eq!(ends, expected);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_the_token_and_does_not_wait_for_the_host() {
    let host = Script { acts: vec![Act::Hang, Act::Answer(1)], ..Script::default() };
    let admissions = AdmissionQueue::new(8);
    let abort = CancellationToken::new();
    let hung = admissions.queue(ExecutionMode::Sequential);
    let next = admissions.queue(ExecutionMode::Sequential);
    let (first, second) = tokio::join!(
        run_call(&host, first_run(invocation(0)), LIMITS, hung, &abort, async { true }),
        run_call(&host, first_run(invocation(1)), LIMITS, next, &abort, async { true }),
    );
    assert_eq!(ended(&first), (Ending::TimedOut, "Tool t timed out after 1000 ms.".to_owned()));
    assert!(first.answer.is_error);
    assert_eq!(ended(&second), (Ending::Completed, "answer 1".to_owned()));
    assert!(!abort.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_host_is_notified_of_a_timeout_an_abort_and_a_dropped_call_but_not_of_its_own_result() {
    struct Watch(Arc<Mutex<Vec<CancellationToken>>>);
    impl ToolHost for Watch {
        fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture {
            self.0.lock().unwrap().push(cancel);
            Box::pin(async move {
                if invocation.call_id == "0" {
                    return ToolAnswer::text("done");
                }
                std::future::pending().await
            })
        }
    }
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let host = Watch(Arc::clone(&tokens));
    let admissions = AdmissionQueue::new(8);
    let abort = CancellationToken::new();
    let call = |n, abort| {
        run_call(
            &host,
            first_run(invocation(n)),
            LIMITS,
            admissions.queue(ExecutionMode::Parallel),
            abort,
            async { true },
        )
    };
    let cancelled = || tokens.lock().unwrap().last().unwrap().is_cancelled();
    assert_eq!(call(0, &abort).await.ending, Ending::Completed);
    assert!(!cancelled());
    assert_eq!(call(1, &abort).await.ending, Ending::TimedOut);
    assert!(cancelled());
    assert!(tokio::time::timeout(Duration::from_millis(5), call(2, &abort)).await.is_err());
    assert!(cancelled());
    let aborted = async {
        tokio::task::yield_now().await;
        abort.cancel();
    };
    let (end, ()) = tokio::join!(call(3, &abort), aborted);
    assert_eq!(end.ending, Ending::Aborted);
    assert!(cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_run_bounds_a_tool_without_a_limit_and_is_never_retried() {
    let host = Script { acts: vec![Act::Hang], ..Script::default() };
    let admissions = AdmissionQueue::new(8);
    let limits = Limits {
        timeout: None,
        deadline: Some(Clock::default().instant() + Duration::from_secs(3)),
        retries: 5,
        ..LIMITS
    };
    let abort = CancellationToken::new();
    let ticket = admissions.queue(ExecutionMode::Sequential);
    let waiting = admissions.queue(ExecutionMode::Sequential);
    let (end, late) = tokio::join!(
        run_call(&host, first_run(invocation(0)), limits, ticket, &abort, async { true }),
        run_call(&host, first_run(invocation(0)), limits, waiting, &abort, async {
            panic!("started")
        }),
    );
    assert_eq!(
        ended(&end),
        (Ending::TimedOut, "Tool t timed out: the run's time is up.".to_owned())
    );
    assert_eq!(ended(&late), (Ending::NotStarted, "Not run: the run's time is up.".to_owned()));
    assert_eq!(*host.trace.lock().unwrap(), [Trace::Begin(0)]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_returns_immediately_and_starts_no_other_call() {
    let host = Script { acts: vec![Act::Hang, Act::Answer(0)], ..Script::default() };
    let admissions = AdmissionQueue::new(8);
    let abort = CancellationToken::new();
    let started = Notify::new();
    let running = admissions.queue(ExecutionMode::Sequential);
    let waiting = admissions.queue(ExecutionMode::Sequential);
    let (first, second, ()) = tokio::join!(
        run_call(&host, first_run(invocation(0)), LIMITS, running, &abort, async {
            started.notify_one();
            true
        }),
        run_call(&host, first_run(invocation(1)), LIMITS, waiting, &abort, async {
            panic!("started")
        }),
        async {
            started.notified().await;
            abort.cancel();
        },
    );
    assert_eq!(first.ending, Ending::Aborted);
    assert_eq!(second.ending, Ending::NotStarted);
    assert_eq!(*host.trace.lock().unwrap(), [Trace::Begin(0)]);
}

#[tokio::test(start_paused = true)]
async fn only_declared_tools_are_retried_with_the_same_key() {
    struct Second(AtomicUsize);
    impl ToolHost for Second {
        fn execute(&self, invocation: Invocation, _: CancellationToken) -> ToolFuture {
            let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
            Box::pin(async move {
                if first {
                    ToolAnswer::error("not yet")
                } else {
                    ToolAnswer::text(invocation.call_id)
                }
            })
        }
    }
    let tool = |replay| ToolDefinition {
        name: "t".to_owned(),
        description: String::new(),
        parameters: RawValue::from_string("{}".to_owned()).unwrap(),
        execution_mode: ExecutionMode::default(),
        timeout_ms: Some(50),
        replay,
        max_result_chars: None,
        retries: 2,
        permission: model::ToolPermission::Allow,
        external: false,
    };
    let abort = CancellationToken::new();
    for (replay, executions, expected) in [
        (ReplayClass::Pure, 2, (Ending::Completed, "0")),
        (ReplayClass::Idempotent, 2, (Ending::Completed, "0")),
        (ReplayClass::Reconcilable, 1, (Ending::Failed, "not yet")),
        (ReplayClass::Unsafe, 1, (Ending::Failed, "not yet")),
    ] {
        let host = Second(AtomicUsize::new(0));
        let limits = Limits::of(&tool(replay), Some(Duration::from_secs(9)), None, None);
        assert_eq!(limits.timeout, Some(Duration::from_millis(50)));
        let starts = AtomicUsize::new(0);
        let ticket = AdmissionQueue::new(8).queue(ExecutionMode::Sequential);
        let start = async {
            starts.fetch_add(1, Ordering::SeqCst);
            true
        };
        let end = run_call(&host, first_run(invocation(0)), limits, ticket, &abort, start).await;
        assert_eq!((end.ending, end.answer.message().as_str()), expected);
        assert_eq!(host.0.load(Ordering::SeqCst), executions);
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_call_can_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let (host, abort) = (Script::default(), CancellationToken::new());
    let ticket = AdmissionQueue::new(8).queue(ExecutionMode::Parallel);
    is_send(&run_call(&host, first_run(invocation(0)), LIMITS, ticket, &abort, async { true }));
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..1_500_u64).prop_map(Act::Answer),
        Just(Act::Fail),
        Just(Act::Panic),
        Just(Act::PanicAtOnce),
        Just(Act::Hang),
        Just(Act::Obey),
    ]
}

fn mode() -> impl Strategy<Value = ExecutionMode> {
    prop_oneof![Just(ExecutionMode::Parallel), Just(ExecutionMode::Sequential)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_call_is_answered_once_in_time_and_sequential_calls_run_alone(
        script in prop::collection::vec((act(), mode()), 1..10),
        abort_after in prop::option::of(0..4_000_u64),
    ) {
        let (acts, modes): (Vec<_>, Vec<_>) = script.into_iter().unzip();
        let host = Script { acts: acts.clone(), ..Script::default() };
        let abort = CancellationToken::new();
        let admissions = AdmissionQueue::new(8);
        let starts = Mutex::new(Vec::new());
        let ends: Vec<CallEnd> = run_async(async {
            let calls: Vec<_> = modes.iter().enumerate().map(|(n, &mode)| {
                let ticket = admissions.queue(mode);
                let (host, starts, modes) = (&host, &starts, &modes);
                let abort = &abort;
                async move {
                    let on_start = async {
                        starts.lock().unwrap().push(n);
                        let running = host.running.lock().unwrap();
                        // The calls that are running now run beside this one.
                        let alone = modes[n] == ExecutionMode::Sequential
                            || running.keys().any(|&other| modes[other] == ExecutionMode::Sequential);
                        assert!(!alone || running.is_empty(), "{n} beside {running:?}");
                        true
                    };
                    run_call(host, first_run(invocation(n)), LIMITS, ticket, abort, on_start).await
                }
            }).collect();
            let abort_it = async {
                if let Some(millis) = abort_after {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    abort.cancel();
                }
            };
            let all = tokio::time::timeout(Duration::from_secs(60), join_all(calls));
            tokio::join!(all, abort_it).0.expect("every call is answered")
        });

        // Calls start in call order, each at most once, and only those that ran have started.
        let starts = starts.into_inner().unwrap();
        let begun: Vec<usize> = (0..acts.len()).filter(|&n| ends[n].ending != Ending::NotStarted).collect();
        prop_assert_eq!(&starts, &begun);
        for (n, end) in ends.iter().enumerate() {
            let ending = end.ending;
            prop_assert_eq!(end.answer.is_error, ending != Ending::Completed);
            let possible = match acts[n] {
                Act::Answer(millis) if millis < 1_000 => ending == Ending::Completed,
                Act::Answer(1_000) => matches!(ending, Ending::Completed | Ending::TimedOut),
                Act::Answer(_) | Act::Hang => ending == Ending::TimedOut,
                Act::Fail | Act::Panic | Act::PanicAtOnce => ending == Ending::Failed,
                Act::Obey => matches!(ending, Ending::TimedOut | Ending::Failed),
            };
            let aborted = abort_after.is_some()
                && matches!(ending, Ending::Aborted | Ending::NotStarted);
            prop_assert!(possible || aborted, "{:?} ended {:?}", acts[n], ending);
        }
        prop_assert!(host.running.lock().unwrap().is_empty());
    }
}
