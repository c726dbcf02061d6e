//! The hub: one queue, one wake and one cleanup for all runs of a JavaScript environment (docs/rules/node-boundary.md#one-hub).
//!
//! Tokio threads mark queues and wake JavaScript; JavaScript drains them all in one crossing. The thread-safe function is
//! weak and is dropped on the JavaScript thread only. It must never keep a process alive or call into an environment
//! that ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use napi::bindgen_prelude::{Env, Function, Uint32ArraySlice};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Result, Status};
use napi_derive::napi;
use tokio::sync::Notify as Signal;
use tokio::time::Instant;

use super::errors::js_error;
use super::hosts::{CodingTools, RequestAnswers, ToolAnswers};
use crate::engine::{Delivery, EventQueue, Notify, RecordBatch, RecordKind, RunControl, Tasks};
use base::clock::Clock;
use base::error::{EngineError, ErrorCode, is_out_of_descriptors};
use model::StorageErrorKind;

type Wake = ThreadsafeFunction<(), (), (), Status, false, true>;

/// The longest delay of a delta that is not the first of its message, counted from the last wake: an idle stream is
/// delivered immediately, a flood costs one wake per window (docs/rules/performance.md#one-wake-for-all-runs).
const WINDOW: Duration = Duration::from_millis(4);
/// Records per crossing.
const MAX_RECORDS: usize = 4_096;
/// Numbers before the records: their count, and 1 when more records remain.
const HEADER: usize = 2;

/// The run of an environment.
pub(super) struct RunEntry {
    pub(super) queue: Arc<EventQueue>,
    pub(super) control: Arc<RunControl>,
    pub(super) answers: Arc<ToolAnswers>,
    pub(super) request_hooks: Arc<RequestAnswers>,
}

struct Inner {
    /// Queues with records, in the order in which they got them.
    dirty: Vec<Arc<EventQueue>>,
    /// A wake is scheduled.
    waking: bool,
    /// A wake is due at the end of the window.
    delayed: bool,
    /// The environment has ended: nothing is queued for it.
    shut: bool,
    /// The queue of answers to requests without a run (ledger reads, close): run number 0.
    replies: Option<Arc<EventQueue>>,
    last_wake: Instant,
    runs: HashMap<u32, RunEntry>,
    /// The coding tools of runs that start next.
    offered: HashMap<u32, Vec<CodingTools>>,
    batch: RecordBatch,
}

/// The state that tokio threads share with the hub.
pub(super) struct HubCore {
    clock: Clock,
    inner: Mutex<Inner>,
    wake: RwLock<Option<Wake>>,
    pace: Signal,
}

impl HubCore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_wake(&self) {
        let wake = self.wake.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = wake.as_ref() {
            wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Sends the delayed wake when its window is over.
    async fn pace(self: Arc<Self>) {
        loop {
            self.pace.notified().await;
            if self.wake.read().unwrap_or_else(PoisonError::into_inner).is_none() {
                return;
            }
            let due = self.lock().last_wake + WINDOW;
            tokio::time::sleep_until(due).await;
            let send = {
                let mut inner = self.lock();
                let send = inner.delayed && !inner.waking;
                inner.delayed = false;
                if send {
                    inner.waking = true;
                    inner.last_wake = self.clock.instant();
                }
                send
            };
            if send {
                self.send_wake();
            }
        }
    }

    /// Whether its environment has not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.lock().shut
    }

    /// JavaScript drains the queues before it does anything else: no wake is needed until then.
    pub(super) fn expect_drain(&self) {
        self.lock().waking = true;
    }

    pub(super) fn add_run(&self, run: u32, entry: RunEntry) {
        self.lock().runs.insert(run, entry);
    }

    /// Run number `run`, which starts next, has these coding tools.
    pub(super) fn offer(&self, run: u32, tools: CodingTools) {
        self.lock().offered.entry(run).or_default().push(tools);
    }

    /// The coding tools that were offered to a run.
    pub(super) fn offered(&self, run: u32) -> Option<Vec<CodingTools>> {
        let mut inner = self.lock();
        if inner.offered.is_empty() { None } else { inner.offered.remove(&run) }
    }

    pub(super) fn with_run<T>(&self, run: u32, read: impl FnOnce(&RunEntry) -> T) -> Option<T> {
        self.lock().runs.get(&run).map(read)
    }

    /// Removes a run whose result was delivered.
    pub(super) fn release(&self, run: u32) {
        let entry = self.lock().runs.remove(&run);
        if let Some(entry) = entry {
            entry.queue.close();
        }
    }

    /// Answers a request: `{"id":…,"ok":…}` or `{"id":…,"error":…}`.
    pub(super) fn reply(self: &Arc<Self>, json: &str) {
        let replies = self.lock().replies.clone();
        if let Some(replies) = replies {
            replies.host(RecordKind::Event, json);
        }
    }

    /// Closes the hub when the environment ends: it is never called again, and its runs are aborted.
    fn shut(&self) {
        *self.wake.write().unwrap_or_else(PoisonError::into_inner) = None;
        let (runs, queues) = {
            let mut inner = self.lock();
            inner.shut = true;
            // Queues refer to this hub: its references to them are dropped here, otherwise neither would ever be freed.
            let mut queues = std::mem::take(&mut inner.dirty);
            queues.extend(inner.replies.take());
            (std::mem::take(&mut inner.runs), queues)
        };
        for entry in runs.into_values() {
            entry.control.abort();
            entry.queue.close();
        }
        for queue in queues {
            queue.close();
        }
        self.pace.notify_one();
    }
}

impl Notify for HubCore {
    fn ready(&self, queue: &Arc<EventQueue>, first: bool, urgent: bool) {
        let send = {
            let mut inner = self.lock();
            if inner.shut {
                return;
            }
            if first {
                inner.dirty.push(Arc::clone(queue));
            }
            if inner.waking {
                false
            } else {
                let now = self.clock.instant();
                if urgent || now.saturating_duration_since(inner.last_wake) >= WINDOW {
                    inner.waking = true;
                    inner.last_wake = now;
                    true
                } else {
                    if !std::mem::replace(&mut inner.delayed, true) {
                        self.pace.notify_one();
                    }
                    false
                }
            }
        };
        if send {
            self.send_wake();
        }
    }
}

/// The queue and the wake of one JavaScript environment. Created once by `index.js`.
/// @internal
#[napi]
pub struct NativeHub {
    core: Arc<HubCore>,
    tasks: Tasks,
}

impl NativeHub {
    pub(super) fn core(&self) -> &Arc<HubCore> {
        &self.core
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}

fn no_threads(error: &std::io::Error) -> EngineError {
    let code = if is_out_of_descriptors(error) {
        ErrorCode::Storage(StorageErrorKind::NoDescriptors)
    } else {
        ErrorCode::Internal
    };
    let message = format!(
        "the engine's threads cannot be started: {error}; raise the process's limits (`ulimit -n`, `ulimit -u`)"
    );
    EngineError::new(code, message)
}

#[napi]
impl NativeHub {
    /// `wake` is called when there are records to drain; it must not throw.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: &Env, wake: Function<'_, (), ()>) -> Result<Self> {
        let tasks = Tasks::shared().map_err(|error| js_error(&no_threads(&error)))?;
        let wake: Wake = wake.build_threadsafe_function().weak::<true>().build()?;
        let clock = Clock::default();
        let core = Arc::new(HubCore {
            inner: Mutex::new(Inner {
                dirty: Vec::new(),
                waking: false,
                delayed: false,
                shut: false,
                replies: None,
                last_wake: clock.instant(),
                runs: HashMap::new(),
                offered: HashMap::new(),
                batch: RecordBatch::default(),
            }),
            clock,
            wake: RwLock::new(Some(wake)),
            pace: Signal::new(),
        });
        let notify: Arc<dyn Notify> = Arc::clone(&core) as Arc<dyn Notify>;
        // The hub and the queue refer to each other: both live until the environment ends, and the cleanup below breaks
        // the cycle.
        core.lock().replies = Some(EventQueue::new(
            0,
            Delivery { coalesce: true, phases: false, skipped: 0 },
            notify,
        ));
        env.add_env_cleanup_hook(Arc::clone(&core), |core| core.shut())?;
        tasks.spawn(Arc::clone(&core).pace());
        Ok(Self { core, tasks })
    }

    /// Moves records into `rows` (count, more, then five numbers each: run, kind, first seq, last seq, end of text) and
    /// returns their texts as one string.
    #[napi(catch_unwind)]
    pub fn drain(&self, mut rows: Uint32ArraySlice<'_>) -> String {
        // SAFETY: JavaScript calls this synchronously with its own array, which nothing else reads or writes until the
        // call returns, and which is never shared with another thread.
        #[expect(
            unsafe_code,
            reason = "writing into a caller's typed array saves a copy per crossing"
        )]
        let rows = unsafe { rows.as_mut() };
        let capacity = (rows.len().saturating_sub(HEADER) / RecordBatch::WIDTH).min(MAX_RECORDS);
        let mut inner = self.core.lock();
        let Inner { dirty, batch, waking, delayed, .. } = &mut *inner;
        batch.clear();
        *waking = false;
        *delayed = false;
        let more = batch.fill(dirty, capacity);
        let count = batch.rows.len() / RecordBatch::WIDTH;
        for (slot, value) in rows.iter_mut().skip(HEADER).zip(&batch.rows) {
            *slot = *value;
        }
        for (slot, value) in
            rows.iter_mut().zip([u32::try_from(count).unwrap_or(u32::MAX), u32::from(more)])
        {
            *slot = value;
        }
        std::mem::take(&mut batch.text)
    }

    /// Ends a run as aborted, or, with `timed_out`, as one whose time is over.
    #[napi(catch_unwind)]
    pub fn abort(&self, run: u32, timed_out: bool) {
        if let Some(control) = self.core.with_run(run, |entry| Arc::clone(&entry.control)) {
            control.abort_for(timed_out);
        }
    }

    /// Queues a message for the run's next tool boundary; false when the run accepts none any more.
    #[napi(catch_unwind)]
    pub fn steer(&self, run: u32, message: String) -> bool {
        self.core
            .with_run(run, |entry| Arc::clone(&entry.control))
            .is_some_and(|control| control.steer(&message))
    }

    /// Whether the run is still working on its answer.
    #[napi(catch_unwind)]
    pub fn is_streaming(&self, run: u32) -> bool {
        self.core.with_run(run, |entry| entry.control.is_streaming()).unwrap_or(false)
    }

    /// The turn of the run; null before it is opened.
    #[napi(catch_unwind)]
    pub fn turn_id(&self, run: u32) -> Option<String> {
        self.core.with_run(run, |entry| entry.control.turn_id()).flatten()
    }

    /// Whether the run is compacting its context.
    #[napi(catch_unwind)]
    pub fn is_compacting(&self, run: u32) -> bool {
        self.core.with_run(run, |entry| entry.control.is_compacting()).unwrap_or(false)
    }

    /// Records that the reader has consumed `count` events of a run that does not merge.
    #[napi(catch_unwind)]
    pub fn consumed(&self, run: u32, count: u32) {
        if let Some(queue) = self.core.with_run(run, |entry| Arc::clone(&entry.queue)) {
            queue.consumed(usize::try_from(count).unwrap_or(usize::MAX));
        }
    }

    /// Records that the reader is gone: deltas are dropped, and the socket does not wait.
    #[napi(catch_unwind)]
    pub fn release(&self, run: u32) {
        self.core.release(run);
    }

    /// Answers one execution of a tool: `{"content":[blocks],"resultJson":text?,"isError":bool}`.
    #[napi(catch_unwind)]
    pub fn answer_tool(&self, run: u32, execution: u32, answer: String) {
        if let Some(answers) = self.core.with_run(run, |entry| Arc::clone(&entry.answers)) {
            answers.answer(execution, &answer);
        }
    }

    /// Answers `onRequest`: the JSON of the body to send, nothing for the original body, or why it must not be sent.
    #[napi(catch_unwind)]
    pub fn answer_request(
        &self,
        run: u32,
        number: u32,
        body: Option<String>,
        error: Option<String>,
    ) {
        let hooks = self.core.with_run(run, |entry| Arc::clone(&entry.request_hooks));
        if let Some(waiting) = hooks.and_then(|hooks| hooks.take(number)) {
            // The run may have ended meanwhile; then nobody waits.
            let _ = waiting.send(error.map_or(Ok(body), Err));
        }
    }
}
