//! Agents that send messages to each other and wait for answers here: their slots, their clocks and the end of what is cancelled.
//!
//! It must never end a dispatch: the ledger does, with the message. A turn that waits has no slot of its lane, so that the one
//! it waits for has one.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::ends::EndWatch;
use super::host::TaskLimits;
use super::state::Entrance;
use crate::engine::RunControl;
use model::{
    AgentSent, Dispatch, DispatchCancel, DispatchStatus, DispatchStore, ItemStatus,
    NewAgentMessage, SessionCommand, StorageError, StorageErrorKind, StoredItem,
};

/// The task that a message was, once it has ended.
pub(super) fn ended_task(stored: &StoredItem) -> Option<String> {
    let has_ended = matches!(stored.status, ItemStatus::Delivered | ItemStatus::Failed);
    let task = stored.sender.as_ref()?.task()?;
    has_ended.then(|| task.to_owned())
}

/// A turn that waits outside of its lane. Dropped unfinished, it wants its slot back at once.
struct Away {
    dispatcher: Arc<Dispatcher>,
    label: String,
    turn_id: String,
    awaited: String,
    /// The run whose clock stands still.
    paused: Option<Arc<RunControl>>,
    is_back: bool,
}

impl Away {
    fn new(dispatcher: &Arc<Dispatcher>, label: &str, turn_id: &str, awaited: &str) -> Self {
        let next = {
            let mut state = dispatcher.lock();
            *state.awaited.entry(awaited.to_owned()).or_default() += 1;
            if let Some(turn) = state.turn(label, turn_id) {
                turn.awaits.push((awaited.to_owned(), false));
            }
            state.step_out(label, turn_id)
        };
        if let Some(next) = next {
            dispatcher.wake(&next);
        }
        // It may begin although the dispatcher closes.
        dispatcher.wake(awaited);
        Self {
            dispatcher: Arc::clone(dispatcher),
            label: label.to_owned(),
            turn_id: turn_id.to_owned(),
            awaited: awaited.to_owned(),
            paused: None,
            is_back: false,
        }
    }

    /// The clock of the turn stands still while what it waits for is parked.
    fn pause(&mut self, is_parked: bool) {
        if let Some(turn) = self.dispatcher.lock().turn(&self.label, &self.turn_id) {
            let awaits = turn.awaits.iter_mut().filter(|(of, _)| *of == self.awaited);
            awaits.for_each(|(_, is)| *is = is_parked);
        }
        match (&self.paused, is_parked) {
            (None, true) => {
                let mut state = self.dispatcher.lock();
                let turn = state.turn(&self.label, &self.turn_id);
                self.paused = turn.and_then(|turn| turn.control.clone());
                if let Some(control) = &self.paused {
                    control.pause(self.dispatcher.parts.clock.instant());
                }
            }
            (Some(_), false) => self.go_on(),
            (None, false) | (Some(_), true) => {}
        }
    }

    fn go_on(&mut self) {
        if let Some(control) = self.paused.take() {
            control.go_on(self.dispatcher.parts.clock.instant());
        }
    }

    /// Waits for a slot of the lane.
    async fn come_back(mut self) {
        let back = self.step_in();
        if let Some(back) = back {
            back.notified().await;
        }
    }

    fn step_in(&mut self) -> Option<Arc<tokio::sync::Notify>> {
        self.is_back = true;
        self.go_on();
        let back = {
            let mut state = self.dispatcher.lock();
            if let Entry::Occupied(mut entry) = state.awaited.entry(self.awaited.clone()) {
                *entry.get_mut() = entry.get().saturating_sub(1);
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
            if let Some(turn) = state.turn(&self.label, &self.turn_id)
                && let Some(at) = turn.awaits.iter().position(|(of, _)| *of == self.awaited)
            {
                turn.awaits.remove(at);
            }
            state.step_in(&self.label, &self.turn_id, Entrance::InTurn)
        };
        // Nobody waits for it any more: while the dispatcher closes, it may not begin.
        self.dispatcher.drop_refused();
        back
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if !self.is_back {
            self.step_in();
        }
    }
}

impl Dispatcher {
    /// The messages between agents.
    pub(crate) fn dispatches(&self) -> &Arc<dyn DispatchStore> {
        &self.parts.dispatches
    }

    /// Stores a message of an agent, and takes the next step of the session that gets it.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn send_agent(
        self: &Arc<Self>,
        message: NewAgentMessage,
    ) -> Result<AgentSent, StorageError> {
        let id = message.id.clone();
        self.has_children(&message.from_session, &message.from_turn);
        let watch = EndWatch::of_arriving(self, &id);
        let sent = self.dispatches().send(Box::new(message), self.parts.limits).await?;
        if let AgentSent::Stored { session_label, dropped } = &sent {
            self.lock().arrive(session_label, &id);
            self.report_failed(dropped, &watch).await;
            self.wake(session_label);
        }
        Ok(sent)
    }

    /// Waits until a dispatch has ended, for a turn that has no slot of its lane meanwhile. `None` for a dispatch that does not
    /// exist any more.
    ///
    /// Where the engine or the broker closes while the agent cannot go on here, the call `id` is left without a result, and its
    /// turn open.
    ///
    /// # Errors
    /// `ledger_closed` where the call is left.
    pub(crate) async fn await_dispatch(
        self: &Arc<Self>,
        id: &str,
        label: &str,
        turn_id: &str,
    ) -> Result<Option<Dispatch>, StorageError> {
        let engine = self.parts.engine.closing();
        let closing = || engine.is_cancelled() || self.closing.is_cancelled();
        let first = loop {
            let closes = closing();
            match self.dispatches().dispatch(id).await {
                Ok(found) => break found,
                Err(error) if closes || error.kind == StorageErrorKind::Closed => {
                    return Err(self.leave_call(id, label, turn_id));
                }
                // The agent works: that it cannot be read now is not its answer.
                Err(error) => self.report(&error),
            }
            tokio::time::sleep(self.parts.pulse).await;
        };
        let Some(first) = first else { return Ok(None) };
        if first.status != DispatchStatus::Active {
            return Ok(Some(first));
        }
        self.has_children(label, turn_id);
        let mut away = Away::new(self, label, turn_id, &first.session_label);
        let ended = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // What changes from here on is not missed.
            changed.as_mut().enable();
            let closes = closing();
            let has_ended = self.ended.is_cancelled();
            // Before the look: a turn that ends meanwhile is seen.
            let stands = closes && self.stands(&first.session_label);
            match self.look(id, &first.session_label).await {
                Ok(Waited::Ended(dispatch)) => break dispatch.map(|it| *it),
                Ok(Waited::Active { is_parked }) => {
                    away.pause(is_parked);
                    if stands || (closes && is_parked) {
                        return Err(self.leave_call(id, label, turn_id));
                    }
                }
                Err(error) if error.kind == StorageErrorKind::Closed => {
                    return Err(self.leave_call(id, label, turn_id));
                }
                // The next pulse looks again.
                Err(error) => self.report(&error),
            }
            tokio::select! {
                biased;
                () = engine.cancelled(), if !closes => {}
                () = self.closing.cancelled(), if !closes => {}
                () = self.ended.cancelled(), if !has_ended => {}
                () = changed => {}
                () = tokio::time::sleep(self.parts.pulse) => self.wake(&first.session_label),
            }
        };
        away.come_back().await;
        Ok(ended)
    }

    /// Whether the turn of the session, which is under way or waits, does not go on here any more.
    fn stands(&self, label: &str) -> bool {
        let state = self.lock();
        let has_turn = state.sessions.get(label).is_some_and(|session| session.turn.is_some());
        let begins_none = self.ended.is_cancelled() || self.parts.engine.closing().is_cancelled();
        state.rests(label) || (begins_none && !has_turn)
    }

    /// Leaves a call without a result, and its turn open: the next dispatcher goes on with it.
    fn leave_call(&self, id: &str, label: &str, turn_id: &str) -> StorageError {
        {
            let mut state = self.lock();
            if let Some(control) = state.turn(label, turn_id).and_then(|it| it.control.as_ref()) {
                control.leave_call(id);
            }
            state.left.insert(label.to_owned());
        }
        // Who waits for it leaves its call, too.
        self.changed.notify_waiters();
        let message =
            "the engine or the broker closes; the turn is resumed with what its agent answers";
        StorageError::new(StorageErrorKind::Closed, message.to_owned())
    }

    fn has_children(&self, label: &str, turn_id: &str) {
        if let Some(turn) = self.lock().turn(label, turn_id) {
            turn.has_children = true;
        }
    }

    async fn look(&self, id: &str, session_label: &str) -> Result<Waited, StorageError> {
        match self.dispatches().dispatch(id).await? {
            Some(dispatch) if dispatch.status == DispatchStatus::Active => {
                let is_parked = self.dispatches().is_parked(session_label).await?;
                Ok(Waited::Active { is_parked })
            }
            ended => Ok(Waited::Ended(ended.map(Box::new))),
        }
    }

    /// Cancels a dispatch. Returns it as it is then.
    ///
    /// # Errors
    /// Any of storage.
    pub(crate) async fn cancel_dispatch(
        self: &Arc<Self>,
        id: &str,
        why: DispatchCancel,
    ) -> Result<Option<Dispatch>, StorageError> {
        let is_active = |found: &Option<Dispatch>| {
            found.as_ref().is_some_and(|it| it.status == DispatchStatus::Active)
        };
        let before = self.dispatches().dispatch(id).await?;
        if !is_active(&before) {
            return Ok(before);
        }
        let watch = EndWatch::begin(self);
        let cancelled = self.dispatches().cancel_dispatch(id.to_owned(), why).await?;
        match &cancelled {
            Some(dispatch) if dispatch.status == DispatchStatus::Active => {
                self.stop(dispatch).await?
            }
            Some(_) => self.report_failed(&[id.to_owned()], &watch).await,
            None => {}
        }
        Ok(cancelled)
    }

    /// A dispatch has ended: its result, if it is a message, is this process's to run, and whoever waits for it looks again.
    pub(super) async fn dispatch_ended(self: &Arc<Self>, id: &str) -> Result<(), StorageError> {
        if let Some(dispatch) = self.dispatches().dispatch(id).await?
            && let Some(result) = dispatch.result_item_id
        {
            self.adopt(&dispatch.parent_session, vec![result]).await?;
            self.wake(&dispatch.parent_session);
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// Ends the dispatches whose time is over, and aborts the turns of those that are cancelled.
    pub(super) async fn tend_dispatches(self: &Arc<Self>) -> Result<(), StorageError> {
        if self.dispatches().has_overdue().await? {
            let watch = EndWatch::begin(self);
            let ended = self.dispatches().end_overdue().await?;
            self.report_failed(&ended, &watch).await;
        }
        self.stop_dispatches().await
    }

    /// Aborts the turns of the dispatches that are cancelled.
    pub(super) async fn stop_dispatches(self: &Arc<Self>) -> Result<(), StorageError> {
        for dispatch in self.dispatches().cancelled().await? {
            self.stop(&dispatch).await?;
        }
        Ok(())
    }

    /// Aborts the turn that has a dispatch, here or elsewhere.
    async fn stop(self: &Arc<Self>, dispatch: &Dispatch) -> Result<(), StorageError> {
        let label = &dispatch.session_label;
        {
            let mut state = self.lock();
            if let Some(turn) = state.sessions.get_mut(label).and_then(|it| it.turn.as_mut()) {
                if turn.has_item(&dispatch.id) {
                    turn.is_ending = true;
                    // A run that has not begun is aborted as it begins.
                    if let Some(control) = &turn.control {
                        control.abort();
                    }
                }
                return Ok(());
            }
        }
        let stored = self.parts.store.queue_item(&dispatch.id).await?;
        if stored.is_none_or(|it| it.status != ItemStatus::Processing) {
            return Ok(());
        }
        let (dispatcher, label) = (Arc::clone(self), label.clone());
        self.parts.tasks.spawn(async move {
            match dispatcher.parts.admin.command(&label, SessionCommand::Abort).await {
                Ok(_) => {}
                // It has ended, or its process has, or it waits for a decision: then the one that takes it over aborts it.
                Err(error) if error.kind == StorageErrorKind::NotRunning => {}
                Err(error) => dispatcher.report(&error),
            }
        });
        Ok(())
    }

    /// Whether a task among a turn's messages is cancelled.
    pub(super) async fn is_cancelled(&self, items: &[StoredItem]) -> Result<bool, StorageError> {
        for id in items.iter().filter_map(|it| it.sender.as_ref()?.task()) {
            let dispatch = self.dispatches().dispatch(id).await?;
            if dispatch.is_some_and(|it| it.cancelled.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the tasks among a turn's messages limit; their clocks have stood still for `parked_ms`.
    pub(super) async fn limits_of(
        &self,
        items: &[StoredItem],
        parked_ms: i64,
    ) -> Result<TaskLimits, StorageError> {
        let mut limits = TaskLimits::default();
        for id in items.iter().filter_map(|it| it.sender.as_ref()?.task()) {
            let Some(dispatch) = self.dispatches().dispatch(id).await? else { continue };
            // One turn has one account: that of its first task with a budget.
            limits.budget = limits.budget.or_else(|| dispatch.budget());
            if let Some(deadline) = dispatch.deadline {
                let end = deadline.saturating_add(parked_ms);
                let own = end.saturating_sub(self.now());
                limits.timeout_ms = Some(limits.timeout_ms.map_or(own, |left| left.min(own)));
            }
        }
        Ok(limits)
    }
}

/// What a turn that waits finds.
enum Waited {
    Active { is_parked: bool },
    Ended(Option<Box<Dispatch>>),
}
