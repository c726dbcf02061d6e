//! The handle's side of a run: abort, steer, status. The run's task owns everything else.
//!
//! It must never decide the effect of an abort or a steered message: it only passes them on, and reports whether they
//! arrived in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use model::{Block, StorageError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pauses::Pauses;

/// A message for the next tool boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steered {
    /// Its texts.
    pub(crate) blocks: Vec<Block>,
    /// Its id in the session's queue, if it is from there.
    pub(crate) item: Option<String>,
    /// The layers of its context: JSON.
    pub(crate) layers: Option<String>,
}

impl Steered {
    /// What its author wrote.
    pub(crate) fn text(&self) -> String {
        self.blocks.iter().filter_map(Block::own_text).collect()
    }
}

#[derive(Default)]
struct Steering {
    /// True once the run accepts no more messages.
    closed: bool,
    /// True while the context is compacted: no message is accepted then.
    compacting: bool,
    /// True once its turn is stored as open.
    open: bool,
    /// It is aborted as soon as its turn is open.
    aborts_open: bool,
    /// True while the turn waits for a decision: no message is accepted then.
    parked: bool,
    /// The calls that have no result, because the engine or the broker closes: the turn is left open.
    left: Vec<String>,
    queue: Vec<Steered>,
    /// Skips the calls of the running batch that have not started.
    batch: Option<CancellationToken>,
}

/// Commands for one run. Shared by its handles and its task.
#[derive(Default)]
pub(crate) struct RunControl {
    abort: CancellationToken,
    steering: Mutex<Steering>,
    /// The turn, once it is opened.
    turn_id: OnceLock<String>,
    /// The abort is that of a time limit of the caller.
    timed_out: AtomicBool,
    /// A call of its model streams its answer.
    answering: AtomicBool,
    /// Why the run has no turn: the ledger has a run with its id.
    refusal: OnceLock<StorageError>,
    /// Called when its turn parks, and when it continues.
    parking: OnceLock<ParkingObserver>,
    pauses: Pauses,
}

/// A step of a turn that waits for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParkingStep {
    /// It is about to wait, and needs its lane no more.
    Begins,
    /// Whoever reads the ledger sees that it waits.
    Stored,
    /// It waits no longer.
    Ends,
}

type ParkingObserver = Box<dyn Fn(ParkingStep) + Send + Sync>;

impl RunControl {
    /// Ends the run as aborted. Later calls change nothing.
    pub(crate) fn abort(&self) {
        self.abort.cancel();
    }

    fn observed(&self, step: ParkingStep) {
        if let Some(observer) = self.parking.get() {
            observer(step);
        }
    }

    /// The turn is stored as one that waits for a decision.
    pub(crate) fn parked(&self) {
        self.observed(ParkingStep::Stored);
    }

    /// The run's time stands still, until [`Self::go_on`] was called as often.
    pub(crate) fn pause(&self, now: Instant) {
        self.pauses.begin(now);
    }

    /// Ends a pause.
    pub(crate) fn go_on(&self, now: Instant) {
        self.pauses.end(now);
    }

    /// The pauses of the run's time.
    pub(super) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Leaves a call without a result: what it answers from here on does not count, and the turn stays open with it.
    pub(crate) fn leave_call(&self, call_id: &str) {
        self.lock().left.push(call_id.to_owned());
    }

    /// Whether a call is left without a result.
    pub(crate) fn leaves_call(&self, call_id: &str) -> bool {
        self.lock().left.iter().any(|left| left == call_id)
    }

    /// Whether the turn waits for a decision.
    pub(crate) fn is_parked(&self) -> bool {
        self.lock().parked
    }

    /// Ends the run as aborted when its turn is open, so that the turn's messages are stored.
    pub(crate) fn abort_when_open(&self) {
        let mut steering = self.lock();
        steering.aborts_open = true;
        if steering.open {
            self.abort.cancel();
        }
    }

    /// The run's turn is open.
    pub(crate) fn set_open(&self) {
        let mut steering = self.lock();
        steering.open = true;
        if steering.aborts_open {
            self.abort.cancel();
        }
    }

    /// Ends the run as aborted, or, with `timed_out`, as one whose time is over.
    pub(crate) fn abort_for(&self, timed_out: bool) {
        if timed_out && !self.abort.is_cancelled() {
            self.timed_out.store(true, Ordering::Release);
        }
        self.abort.cancel();
    }

    /// Whether the abort is that of a time limit of the caller.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Acquire)
    }

    pub(crate) fn abort_token(&self) -> CancellationToken {
        self.abort.clone()
    }

    /// Ends the run without a turn.
    pub(crate) fn refuse(&self, error: StorageError) {
        // The first reason is as good as any.
        let _ = self.refusal.set(error);
        self.abort.cancel();
    }

    /// Why the run has no turn.
    pub(crate) fn refusal(&self) -> Option<&StorageError> {
        self.refusal.get()
    }

    /// The turn is opened.
    pub(crate) fn opened(&self, turn_id: &str) {
        // A run opens one turn.
        let _ = self.turn_id.set(turn_id.to_owned());
    }

    /// The turn, once it is opened.
    pub(crate) fn turn_id(&self) -> Option<String> {
        self.turn_id.get().cloned()
    }

    /// Whether the run was aborted.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Queues a message for the next tool boundary. False when the run accepts none any more: the caller still has the message.
    pub(crate) fn steer(&self, text: &str) -> bool {
        self.steer_with(Steered { blocks: vec![Block::text(text)], item: None, layers: None })
    }

    /// As [`Self::steer`], with the message's id in the session's queue.
    pub(crate) fn steer_with(&self, message: Steered) -> bool {
        let mut steering = self.lock();
        if steering.closed || steering.compacting || steering.parked || self.abort.is_cancelled() {
            return false;
        }
        steering.queue.push(message);
        if let Some(batch) = &steering.batch {
            batch.cancel();
        }
        true
    }

    /// Whether the run is still working on its answer.
    pub(crate) fn is_streaming(&self) -> bool {
        !self.lock().closed
    }

    /// Whether its answer streams right now.
    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed)
    }

    pub(crate) fn set_answering(&self, now: bool) {
        self.answering.store(now, Ordering::Relaxed);
    }

    /// Whether the context is being compacted.
    pub(crate) fn is_compacting(&self) -> bool {
        self.lock().compacting
    }

    pub(crate) fn set_compacting(&self, now: bool) {
        self.lock().compacting = now;
    }

    /// The turn is about to wait for a decision. False while a message waits, which the run takes first.
    pub(crate) fn park(&self) -> bool {
        let parked = {
            let mut steering = self.lock();
            steering.parked = steering.queue.is_empty();
            steering.parked
        };
        if parked {
            self.observed(ParkingStep::Begins);
        }
        parked
    }

    /// Has an observer called when the turn parks, and when it continues. One observer per run.
    pub(crate) fn observe_parking(&self, observer: impl Fn(ParkingStep) + Send + Sync + 'static) {
        if self.parking.set(Box::new(observer)).is_ok() && self.is_parked() {
            self.observed(ParkingStep::Begins);
            // It may be stored already; if not, this comes again.
            self.observed(ParkingStep::Stored);
        }
    }

    /// The turn waits no longer.
    pub(crate) fn unpark(&self) {
        self.lock().parked = false;
        self.observed(ParkingStep::Ends);
    }

    fn lock(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a batch of tools; a message that arrives now skips the calls that have not started.
    pub(crate) fn open_batch(&self) -> CancellationToken {
        let token = CancellationToken::new();
        self.lock().batch = Some(token.clone());
        token
    }

    /// Whether a message waits for the next tool boundary.
    pub(crate) fn is_steered(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// Records the start of a tool. Messages from before the batch skip the other calls from now on
    /// (docs/rules/sessions-and-ledger.md#steering-in-a-tool-batch).
    pub(crate) fn batch_started(&self) {
        let steering = self.lock();
        if !steering.queue.is_empty()
            && let Some(batch) = &steering.batch
        {
            batch.cancel();
        }
    }

    pub(crate) fn close_batch(&self) {
        self.lock().batch = None;
    }

    /// Takes the queued messages.
    pub(crate) fn take(&self) -> Vec<Steered> {
        std::mem::take(&mut self.lock().queue)
    }

    /// Takes the queued messages; if there are none, closes the queue. One step, so that no message is lost in between.
    pub(crate) fn take_or_close(&self) -> Vec<Steered> {
        let mut steering = self.lock();
        if steering.queue.is_empty() {
            steering.closed = true;
        }
        std::mem::take(&mut steering.queue)
    }

    /// Closes the queue, and returns the messages that no call will see.
    pub(crate) fn close(&self) -> Vec<Steered> {
        let mut steering = self.lock();
        steering.closed = true;
        std::mem::take(&mut steering.queue)
    }
}

#[cfg(test)]
mod tests {
    use model::Block;

    use super::{RunControl, Steered};

    #[test]
    fn a_message_from_before_the_close_is_never_lost() {
        let control = RunControl::default();
        assert!(control.steer("first"));
        let first = Steered { blocks: vec![Block::text("first")], item: None, layers: None };
        assert_eq!(control.take_or_close(), [first]);
        assert!(control.is_streaming());
        assert_eq!(control.take_or_close(), []);
        assert!(!control.is_streaming());
        assert!(!control.steer("too late"));
    }

    #[test]
    fn an_interrupted_run_is_aborted_when_its_turn_is_open() {
        let (before, after) = (RunControl::default(), RunControl::default());
        before.abort_when_open();
        assert!(!before.abort_token().is_cancelled());
        before.set_open();
        after.set_open();
        assert!(!after.abort_token().is_cancelled());
        after.abort_when_open();
        assert!(before.abort_token().is_cancelled() && after.abort_token().is_cancelled());
    }

    #[test]
    fn an_aborted_run_accepts_no_message() {
        let control = RunControl::default();
        control.abort();
        assert!(!control.steer("x"));
    }

    #[test]
    fn a_parked_turn_accepts_no_message_and_does_not_park_before_one_that_waits() {
        let control = RunControl::default();
        assert!(control.steer("first"));
        assert!(!control.park() && control.steer("second"));
        let texts: Vec<String> = control.take().iter().map(Steered::text).collect();
        assert_eq!(texts, ["first", "second"]);
        assert!(control.park() && !control.steer("too early"));
        control.unpark();
        assert!(control.steer("third"));
    }

    #[test]
    fn a_message_during_a_batch_skips_the_calls_that_have_not_started() {
        let control = RunControl::default();
        let batch = control.open_batch();
        assert!(!batch.is_cancelled());
        assert!(control.steer("stop"));
        assert!(batch.is_cancelled());
    }
}
