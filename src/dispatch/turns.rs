//! The turns that run here: their begin, and what follows from their end. It must never end a message: the ledger does, with
//! the turn.

use std::sync::{Arc, Mutex, PoisonError};

use super::agents::ended_task;
use super::dispatcher::Dispatcher;
use super::host::EndedTurn;
use super::state::Entrance;
use crate::engine::{ParkingStep, RunControl};
use base::error::{EngineError, ErrorCode};
use model::{ItemStatus, StorageError, StorageErrorKind, StoredItem};

/// How long a session waits after a turn that could not be stored, in milliseconds.
const HOLD: i64 = 1_000;

/// How a turn ends that runs nowhere.
#[derive(Debug, Clone, Copy)]
pub(super) enum OpenEnd {
    /// It cannot be resumed: it has failed.
    Discard,
    Abort,
}

/// A turn that the host begins.
struct Beginning {
    dispatcher: Arc<Dispatcher>,
    label: String,
    turn_id: String,
    /// Its run has begun, and its run has ended. A run may end before the host knows that it has begun.
    progress: Mutex<(bool, bool)>,
}

impl Beginning {
    fn note(&self, change: impl FnOnce(&mut (bool, bool))) {
        let has_ended = {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut progress);
            *progress == (true, true)
        };
        if has_ended {
            self.dispatcher.turn_ended(&self.label, &self.turn_id);
        }
    }
}

/// Dropped when the run of a turn has ended, or did not begin.
pub(crate) struct TurnGuard(Arc<Beginning>);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.note(|progress| progress.1 = true);
    }
}

/// Arms the guard of a turn: its run has begun.
pub(crate) struct Arming(Arc<Beginning>);

impl Arming {
    /// The run has begun. Called once.
    pub(crate) fn arm(&self) {
        self.0.note(|progress| progress.0 = true);
    }
}

impl Dispatcher {
    /// A guard of a turn that the host begins, and what arms it.
    pub(crate) fn guard(self: &Arc<Self>, label: &str, turn_id: &str) -> (TurnGuard, Arming) {
        let beginning = Arc::new(Beginning {
            dispatcher: Arc::clone(self),
            label: label.to_owned(),
            turn_id: turn_id.to_owned(),
            progress: Mutex::default(),
        });
        (TurnGuard(Arc::clone(&beginning)), Arming(beginning))
    }

    /// The run of a turn has begun.
    pub(crate) fn begun(self: &Arc<Self>, label: &str, turn_id: &str, control: Arc<RunControl>) {
        if let Some(turn) = self.lock().turn(label, turn_id) {
            if turn.is_ending {
                control.abort();
            }
            turn.control = Some(Arc::clone(&control));
        }
        let (dispatcher, of, id) = (Arc::downgrade(self), label.to_owned(), turn_id.to_owned());
        control.observe_parking(move |step| {
            if let Some(dispatcher) = dispatcher.upgrade() {
                dispatcher.parks(&of, &id, step);
            }
        });
        // A message may have come meanwhile that enters it, or ends it.
        self.wake(label);
    }

    /// A turn waits for a decision from now on, or continues: it has no slot of its lane meanwhile.
    fn parks(self: &Arc<Self>, label: &str, turn_id: &str, step: ParkingStep) {
        if step == ParkingStep::Stored {
            self.parts.host.approvals_changed(label, turn_id);
            self.changed.notify_waiters();
            return;
        }
        let is_parked = step == ParkingStep::Begins;
        let next = {
            let mut state = self.lock();
            let Some(turn) = state.turn(label, turn_id) else { return };
            if std::mem::replace(&mut turn.is_parked, is_parked) == is_parked {
                return;
            }
            if is_parked {
                state.step_out(label, turn_id)
            } else {
                state.step_in(label, turn_id, Entrance::AtOnce);
                None
            }
        };
        if !is_parked {
            self.parts.host.approvals_changed(label, turn_id);
            self.changed.notify_waiters();
        }
        if let Some(next) = next {
            self.wake(&next);
        }
        // A message that interrupts may wait.
        self.wake(label);
    }

    /// A turn could not begin: its messages have failed.
    pub(crate) fn refuse(self: &Arc<Self>, label: &str, turn_id: &str, detail: String) {
        let ids = self
            .lock()
            .turn(label, turn_id)
            .map(|turn| turn.items.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
        let Some(ids) = ids else { return };
        let (dispatcher, label, turn_id) = (Arc::clone(self), label.to_owned(), turn_id.to_owned());
        self.parts.tasks.spawn(async move {
            if let Err(error) = dispatcher.parts.store.refuse(ids, detail).await {
                dispatcher.report(&error);
            }
            dispatcher.turn_ended(&label, &turn_id);
        });
    }

    /// A turn cannot begin or be resumed, because the engine closes: its messages are left for the next broker.
    pub(crate) fn abandon(self: &Arc<Self>, label: &str, turn_id: &str) {
        self.end();
        self.turn_ended(label, turn_id);
    }

    /// Closes an interrupted turn that cannot be resumed.
    pub(crate) fn close_turn(self: &Arc<Self>, label: &str, turn_id: &str) {
        self.end_open(label, turn_id, OpenEnd::Discard);
    }

    /// Ends a turn that runs nowhere.
    pub(super) fn end_open(self: &Arc<Self>, label: &str, turn_id: &str, how: OpenEnd) {
        let (dispatcher, label, turn_id) = (Arc::clone(self), label.to_owned(), turn_id.to_owned());
        self.parts.tasks.spawn(async move {
            let engine = &dispatcher.parts.engine;
            let ended = match how {
                OpenEnd::Discard => engine.discard(&turn_id).await,
                OpenEnd::Abort => engine.abort_open(&turn_id).await,
            };
            if let Err(error) = ended {
                dispatcher.report_open(&turn_id, &error);
            }
            dispatcher.turn_ended(&label, &turn_id);
        });
    }

    /// Reports that a turn could not be closed; it is tried again. One that has ended meanwhile, or goes on in another process, is no
    /// failure.
    fn report_open(self: &Arc<Self>, turn_id: &str, error: &EngineError) {
        let kind = match error.code {
            ErrorCode::Storage(StorageErrorKind::UnknownTurn) => return,
            ErrorCode::Storage(kind) => kind,
            _ => StorageErrorKind::Io,
        };
        let message = format!("turn `{turn_id}` cannot be closed: {error}");
        self.report(&StorageError::new(kind, message));
    }

    /// A turn has no run here any more.
    pub(crate) fn turn_ended(self: &Arc<Self>, label: &str, turn_id: &str) {
        let (dispatcher, label, turn_id) = (Arc::clone(self), label.to_owned(), turn_id.to_owned());
        self.parts.tasks.spawn(async move {
            dispatcher.end_aborted(&label, &turn_id).await;
            if let Err(error) = dispatcher.settle(&label, &turn_id).await {
                dispatcher.report(&error);
                // What became of its messages is unknown here, and is reported by a later step; that it has ended is known.
                dispatcher.own_again(&label, &turn_id);
                dispatcher.hold(&label);
                dispatcher
                    .emit_ended(&label, EndedTurn { turn_id: turn_id.clone(), items: vec![] });
            }
            dispatcher.leave(&label, &turn_id);
        });
    }

    /// An abort may have come before the run had taken the turn over, which is still open then.
    async fn end_aborted(self: &Arc<Self>, label: &str, turn_id: &str) {
        let is_aborted = self.lock().turn(label, turn_id).is_some_and(|turn| turn.is_ending);
        if is_aborted && let Err(error) = self.parts.engine.abort_open(turn_id).await {
            self.report_open(turn_id, &error);
        }
    }

    /// The session waits for a ledger that stores.
    fn hold(&self, label: &str) {
        let until = self.now().saturating_add(HOLD);
        self.lock().session(label).held_until = until;
    }

    /// The messages of a turn are looked at like those that were queued here and wait.
    fn own_again(&self, label: &str, turn_id: &str) {
        let mut state = self.lock();
        let Some(turn) = state.turn(label, turn_id) else { return };
        let items = turn.items.iter().map(|(id, _)| id).chain(&turn.offered);
        let ids: Vec<String> = items.cloned().collect();
        state.session(label).own.extend(ids);
    }

    /// Reports to the host what became of the messages of a turn that has ended.
    async fn settle(self: &Arc<Self>, label: &str, turn_id: &str) -> Result<(), StorageError> {
        let has_children = self.lock().turn(label, turn_id).is_some_and(|turn| turn.has_children);
        let found = self.lock().turn(label, turn_id).map(|turn| {
            let tries: Vec<(String, Option<u32>)> =
                turn.items.iter().map(|(id, tries)| (id.clone(), Some(*tries))).collect();
            let offered = turn.offered.iter().map(|id| (id.clone(), None));
            (tries.into_iter().chain(offered).collect::<Vec<_>>(), !turn.offered.is_empty())
        });
        let Some((ids, was_offered)) = found else { return Ok(()) };
        if was_offered {
            // Where the turn was not stored, nothing has released them.
            self.parts.store.withdraw(turn_id.to_owned()).await?;
        }
        let mut items: Vec<StoredItem> = Vec::new();
        let mut is_stored = true;
        for (id, tries) in ids {
            let Some(stored) = self.parts.store.queue_item(&id).await? else { continue };
            let unchanged = match stored.status {
                ItemStatus::Pending => tries == Some(stored.item.tries),
                ItemStatus::Processing => stored.turn_id.as_deref() == Some(turn_id),
                ItemStatus::Delivered | ItemStatus::Failed => false,
            };
            is_stored &= !unchanged;
            items.push(stored);
        }
        {
            let mut state = self.lock();
            let is_of_turn = |it: &StoredItem| it.turn_id.as_deref() == Some(turn_id);
            // Others are the turn's until a call has reported that it has ended them.
            items.retain(|it| {
                is_of_turn(it)
                    || state.turn(label, turn_id).is_some_and(|turn| turn.has_item(&it.item.id))
            });
            for stored in &items {
                let id = &stored.item.id;
                state.leave_to_turn(label, id);
                match stored.status {
                    ItemStatus::Delivered | ItemStatus::Failed if is_of_turn(stored) => {}
                    ItemStatus::Delivered | ItemStatus::Failed => state.take_end(label, id),
                    // Its turn was not stored.
                    ItemStatus::Processing if is_of_turn(stored) => {}
                    // It ends later; another process may have been first.
                    ItemStatus::Pending | ItemStatus::Processing => {
                        state.session(label).own.insert(id.clone());
                    }
                }
            }
        }
        if !is_stored {
            self.hold(label);
        }
        let tasks: Vec<String> = items.iter().filter_map(ended_task).collect();
        self.emit_ended(label, EndedTurn { turn_id: turn_id.to_owned(), items });
        // Its messages are reported. Who waits for a task looks again by itself, and the pulse stops what is cancelled.
        for id in tasks {
            if let Err(error) = self.dispatch_ended(&id).await {
                self.report(&error);
            }
        }
        if has_children && let Err(error) = self.stop_dispatches().await {
            self.report(&error);
        }
        Ok(())
    }

    /// A host that hears of the end finds the session idle.
    fn emit_ended(&self, label: &str, ended: EndedTurn) {
        if let Some(turn) = self.lock().turn(label, &ended.turn_id) {
            turn.has_ended = true;
        }
        self.parts.host.ended(ended);
    }

    /// The session is free for its next turn, and the lane for its next session.
    fn leave(self: &Arc<Self>, label: &str, turn_id: &str) {
        let next = {
            let mut state = self.lock();
            if state.turn(label, turn_id).is_none() {
                return;
            }
            state.end_turn(label)
        };
        self.changed.notify_waiters();
        self.wake_outbox();
        self.wake_peers(label);
        if let Some(next) = next {
            self.wake(&next);
        }
        self.wake(label);
    }
}
