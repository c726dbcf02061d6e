//! One step of a session: reads its queue, lets `broker::queue` decide, and acts.
//!
//! It must never begin a turn while another one of the session is open.

use std::collections::HashSet;
use std::sync::Arc;

use broker::prompt::{GivenLayer, Layer};
use broker::queue::{Decision, SessionRun, decide, overflow_note};
use serde::Deserialize;

use super::dispatcher::{Dispatcher, millis};
use super::ends::EndWatch;
use super::host::{StartTurn, SteeredItems};
use super::state::{ActiveTurn, Session};
use crate::engine::Steered;
use model::{
    Block, BlockOrigin, ItemStatus, LayerName, QueueItem, QueueLease, QueueView, RecordedLayer,
    SessionQueue, StorageError, StoredItem,
};

/// A message that was offered to a running turn.
pub(crate) struct EnteringMessage {
    /// Its id.
    pub(crate) id: String,
    /// Its JSON.
    pub(crate) message: String,
    /// The layers of its context, where the host has composed it.
    pub(crate) layers: Option<Vec<RecordedLayer>>,
}

impl Dispatcher {
    /// Does what is next for a session.
    pub(super) async fn step(self: &Arc<Self>, label: &str) -> Result<(), StorageError> {
        let turn_of = |session: &Session| session.turn.as_ref().map(|turn| turn.turn_id.clone());
        let watch = EndWatch::begin(self);
        let before = turn_of(self.lock().session(label));
        // With a turn, the others wait for its end.
        let view = match before {
            Some(_) => QueueView::OfRunningTurn,
            None => QueueView::Whole,
        };
        let queue = self.parts.store.queue(label, view).await?;
        let now = self.now();
        let has_turn = {
            let mut state = self.lock();
            if state.refuses(label) {
                return Ok(());
            }
            let session = state.session(label);
            let current = turn_of(session);
            if before.is_some() && current != before {
                // The queue may be that of before its end.
                session.has_changed = true;
                return Ok(());
            }
            session.is_suspended = queue.is_suspended;
            current.is_some()
        };
        if !has_turn {
            self.end_own(label, &queue).await?;
            if let Some(parked) = &queue.parked_turn {
                let is_aborted = self.abort_parked(label, &queue, now);
                // One with messages of the queue is taken over as soon as somebody has decided.
                if is_aborted || queue.open_turn.as_ref() != Some(parked) {
                    self.pass_lane(label);
                    return Ok(());
                }
            }
            match self.readiness(label, &queue, now).await? {
                Readiness::Free => {}
                Readiness::TakingOver => return Ok(()),
                Readiness::Waits => {
                    self.pass_lane(label);
                    return Ok(());
                }
            }
        }
        let decision = {
            let mut state = self.lock();
            // A message that was offered, or that the turn is about to take, is the turn's until that has ended.
            let turn = state.session(label).turn.as_ref();
            let is_taken =
                |id: &String| turn.is_some_and(|it| it.items.iter().any(|(of, _)| of == id));
            let pending: Vec<QueueItem> = queue
                .pending
                .iter()
                .filter(|it| it.turn_id.is_none() && !is_taken(&it.item.id))
                .map(|it| it.item.clone())
                .collect();
            let run = match &state.session(label).turn {
                None => SessionRun::Idle,
                Some(turn)
                    if !turn.is_ending
                        && turn.control.as_ref().is_some_and(|it| it.is_parked()) =>
                {
                    SessionRun::Parked
                }
                Some(turn) => SessionRun::Running {
                    principal: &turn.principal,
                    is_steerable: turn
                        .control
                        .as_ref()
                        .is_some_and(|it| it.is_streaming() && !it.is_compacting()),
                    is_ending: turn.is_ending,
                },
            };
            decide(&pending, run, queue.is_suspended, self.parts.limits.debounce_ms, now)
        };
        if !matches!(decision, Decision::Start(_)) {
            self.pass_lane(label);
        }
        match decision {
            Decision::Start(ids) => self.begin(label, &ids, &queue, &watch).await?,
            Decision::Steer(ids) => self.steer(label, &ids, &queue.pending).await?,
            Decision::Abort => self.interrupt_turn(label),
            Decision::Wait(Some(at)) => self.wake_at(label, at),
            Decision::Wait(None) => {}
        }
        Ok(())
    }

    /// Reports the messages that were queued here and have ended in another process.
    async fn end_own(&self, label: &str, queue: &SessionQueue) -> Result<(), StorageError> {
        let waiting: HashSet<&str> = queue.pending.iter().map(|it| it.item.id.as_str()).collect();
        let gone: Vec<String> = {
            let mut state = self.lock();
            let own = &state.session(label).own;
            own.iter().filter(|id| !waiting.contains(id.as_str())).cloned().collect()
        };
        let mut ended = Vec::new();
        for id in gone {
            let stored = self.parts.store.queue_item(&id).await?;
            // It is in a turn of another process.
            let is_open =
                |it: &StoredItem| matches!(it.status, ItemStatus::Pending | ItemStatus::Processing);
            if stored.as_ref().is_some_and(is_open) {
                continue;
            }
            // Another task may have reported it meanwhile.
            let mut state = self.lock();
            if state.session(label).own.contains(&id) {
                state.take_end(label, &id);
                ended.extend(stored);
            }
        }
        if !ended.is_empty() {
            self.parts.host.ended_elsewhere(ended);
        }
        Ok(())
    }

    /// Whether a message interrupts the turn that waits for a decision, and that this dispatcher does not run.
    fn abort_parked(&self, label: &str, queue: &SessionQueue, now: i64) -> bool {
        let pending: Vec<QueueItem> = queue.pending.iter().map(|it| it.item.clone()).collect();
        let limits = &self.parts.limits;
        let run = SessionRun::Parked;
        let decision = decide(&pending, run, queue.is_suspended, limits.debounce_ms, now);
        let is_aborted = decision == Decision::Abort;
        if is_aborted {
            self.parts.host.abort_parked(label);
        }
        is_aborted
    }

    /// The session begins nothing: the next one has its slot of the lane.
    pub(super) fn pass_lane(self: &Arc<Self>, label: &str) {
        let next = {
            let mut state = self.lock();
            let next = state.lanes.pass(label);
            state.pass_on(next)
        };
        if let Some(next) = next {
            self.wake(&next);
        }
    }

    /// Whether a turn of the session may begin here now.
    async fn readiness(
        self: &Arc<Self>,
        label: &str,
        queue: &SessionQueue,
        now: i64,
    ) -> Result<Readiness, StorageError> {
        // The next pulse looks again.
        if queue.lease == QueueLease::RunsElsewhere {
            return Ok(Readiness::Waits);
        }
        let held_until = self.lock().session(label).held_until;
        if held_until > now {
            self.wake_at(label, held_until);
            return Ok(Readiness::Waits);
        }
        self.lock().session(label).held_until = 0;
        if let Some(turn_id) = &queue.open_turn {
            let is_taken = self.take_over(label, turn_id).await?;
            return Ok(if is_taken { Readiness::TakingOver } else { Readiness::Waits });
        }
        // Offered to a turn that never began, and whose process has ended.
        for lost in queue.pending.iter().filter_map(|it| it.turn_id.as_ref()) {
            self.parts.store.withdraw(lost.clone()).await?;
            self.lock().session(label).has_changed = true;
        }
        Ok(Readiness::Free)
    }

    /// Whether this process begins a turn with these messages: it has queued them, or has the session's lease, or no other
    /// process has begun them within a pulse; within three where a living one has the lease.
    fn is_ours(&self, label: &str, items: &[StoredItem], lease: QueueLease) -> bool {
        if self.is_of_peer(label, items) {
            return false;
        }
        let pulses = match lease {
            QueueLease::Here => return true,
            QueueLease::Free => 1,
            QueueLease::Elsewhere | QueueLease::RunsElsewhere => 3,
        };
        let young = self.now().saturating_sub(millis(self.parts.pulse).saturating_mul(pulses));
        let mut state = self.lock();
        let own = &state.session(label).own;
        items.iter().all(|it| own.contains(&it.item.id) || it.created_at <= young)
    }

    async fn begin(
        self: &Arc<Self>,
        label: &str,
        ids: &[String],
        queue: &SessionQueue,
        watch: &EndWatch,
    ) -> Result<(), StorageError> {
        let items: Vec<StoredItem> = ids
            .iter()
            .filter_map(|id| queue.pending.iter().find(|it| it.item.id == *id).cloned())
            .collect();
        let Some(first) = items.first() else { return Ok(()) };
        if !self.is_ours(label, &items, queue.lease) {
            self.pass_lane(label);
            return Ok(());
        }
        let limits = self.limits_of(&items, 0).await?;
        let clock = &self.parts.clock;
        let texts: Vec<String> = queue.dropped.iter().map(|it| text_of(&it.message)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let turn = StartTurn {
            turn_id: clock.new_id(),
            run_id: clock.new_id(),
            session_label: label.to_owned(),
            dropped: queue.dropped.iter().map(|it| it.item.id.clone()).collect(),
            note: overflow_note(&texts, self.parts.limits.cap),
            items: items.clone(),
            limits,
        };
        let active = ActiveTurn::new(
            turn.turn_id.clone(),
            first.item.principal.clone(),
            items.iter().map(|it| (it.item.id.clone(), it.item.tries)).collect(),
        );
        {
            let mut state = self.lock();
            if ids.iter().any(|id| state.was_reported(id, watch)) {
                // Cancelled or dropped since the queue was read.
                state.session(label).has_changed = true;
                return Ok(());
            }
            if state.refuses(label) || !state.lanes.enter(label) {
                return Ok(());
            }
            ids.iter().for_each(|id| state.leave_to_turn(label, id));
            state.session(label).turn = Some(active);
        }
        self.parts.host.start(turn);
        Ok(())
    }

    async fn steer(
        self: &Arc<Self>,
        label: &str,
        ids: &[String],
        pending: &[StoredItem],
    ) -> Result<(), StorageError> {
        let Some((turn_id, _)) = self.running(label) else { return Ok(()) };
        // A run takes texts: a message with anything else runs in its order.
        let has_texts = |it: &&StoredItem| text_blocks(&it.message).is_some();
        let of_id = |id: &String| pending.iter().find(|it| it.item.id == *id);
        let messages: Vec<&StoredItem> = ids.iter().filter_map(of_id).filter(has_texts).collect();
        let ids: Vec<String> = messages.iter().map(|it| it.item.id.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let offered = self.parts.store.offer(ids, turn_id.clone()).await?;
        {
            let mut state = self.lock();
            if let Some(turn) = state.turn(label, &turn_id) {
                turn.offered.extend(offered.iter().cloned());
                offered.iter().for_each(|id| state.leave_to_turn(label, id));
            }
        }
        let is_offered = |it: &&StoredItem| offered.contains(&it.item.id);
        let offered: Vec<StoredItem> = messages.into_iter().filter(is_offered).cloned().collect();
        if !self.parts.composes {
            let entering = |it: StoredItem| EnteringMessage {
                id: it.item.id,
                message: it.message,
                layers: None,
            };
            self.enter_turn(label, turn_id, offered.into_iter().map(entering).collect());
        } else if !offered.is_empty() {
            self.parts.host.compose(label, &turn_id, offered);
        }
        Ok(())
    }

    /// Messages that were offered to a running turn enter it.
    pub(crate) fn enter_turn(&self, label: &str, turn_id: String, messages: Vec<EnteringMessage>) {
        let Some((running, control)) = self.running(label) else { return };
        let mut steered = Vec::new();
        for EnteringMessage { id, message, layers } in messages {
            let Some(blocks) = text_blocks(&message).filter(|_| running == turn_id) else { break };
            let layers = layers.unwrap_or_else(|| injected_layers(&blocks));
            if !control.steer_with(Steered {
                blocks,
                item: Some(id.clone()),
                layers: recorded(layers),
            }) {
                // The run takes no more: the message waits again when it has ended.
                break;
            }
            steered.push(id);
        }
        if !steered.is_empty() {
            self.parts.host.steered(SteeredItems { turn_id, items: steered });
        }
    }

    fn running(&self, label: &str) -> Option<(String, Arc<crate::engine::RunControl>)> {
        let mut state = self.lock();
        let turn = state.session(label).turn.as_ref()?;
        Some((turn.turn_id.clone(), Arc::clone(turn.control.as_ref()?)))
    }

    /// Aborts the turn of a session for a message that interrupts it, as soon as the turn is open: what it has taken is in the
    /// session then.
    fn interrupt_turn(&self, label: &str) {
        let mut state = self.lock();
        let Some(turn) = &mut state.session(label).turn else { return };
        // Otherwise the message is looked at again when the run has begun.
        if let Some(control) = &turn.control {
            turn.is_ending = true;
            control.abort_when_open();
        }
    }

    /// Aborts the turn that runs in a session here; false where none does.
    pub(crate) fn abort_turn(&self, label: &str) -> bool {
        let mut state = self.lock();
        let Some(turn) = state.sessions.get_mut(label).and_then(|it| it.turn.as_mut()) else {
            return false;
        };
        turn.is_ending = true;
        // A run that has not begun is aborted as it begins.
        if let Some(control) = &turn.control {
            control.abort();
        }
        true
    }
}

/// Whether a turn of a session may begin.
enum Readiness {
    Free,
    /// An open turn of the session is taken over first.
    TakingOver,
    /// Something else comes first.
    Waits,
}

#[derive(Deserialize)]
struct Message {
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    origin: Option<BlockOrigin>,
}

/// The text of a message's JSON: its content, or that of the text blocks that its author wrote.
fn text_of(message: &str) -> String {
    match serde_json::from_str(message) {
        Ok(Message { content: Content::Text(text) }) => text,
        Ok(Message { content: Content::Blocks(parts) }) => {
            let own = parts.into_iter().filter(|part| part.origin.is_none());
            let texts: Vec<String> = own.filter_map(|part| part.text).collect();
            texts.join("\n\n")
        }
        Err(_) => String::new(),
    }
}

/// The layers of the texts that the message came with.
fn injected_layers(blocks: &[Block]) -> Vec<RecordedLayer> {
    let layer = |block: &Block| {
        let Block::Text { text, origin: Some(origin), .. } = block else { return None };
        let name = match origin {
            BlockOrigin::Event => LayerName::Event,
            BlockOrigin::Memory => LayerName::Cortex,
        };
        let given = GivenLayer { name, source: "message".to_owned(), text: text.clone() };
        let Layer { name, source, tokens, hash, .. } = Layer::from(given);
        Some(RecordedLayer::new(name, source, tokens, hash))
    };
    blocks.iter().filter_map(layer).collect()
}

/// Layers as they are stored; nothing for none.
fn recorded(layers: Vec<RecordedLayer>) -> Option<String> {
    // Texts and numbers: serde_json cannot fail on them.
    if layers.is_empty() { None } else { serde_json::to_string(&layers).ok() }
}

/// The blocks of a message that has texts only: what its author wrote is one, and the last.
fn text_blocks(message: &str) -> Option<Vec<Block>> {
    let parts = match serde_json::from_str(message).ok()? {
        Message { content: Content::Text(text) } => return Some(vec![Block::text(text)]),
        Message { content: Content::Blocks(parts) } => parts,
    };
    let (mut blocks, mut own) = (Vec::new(), Vec::new());
    for part in parts {
        match part.origin {
            Some(origin) => blocks.push(Block::injected(origin, part.text?)),
            None => own.push(part.text?),
        }
    }
    blocks.push(Block::text(own.join("\n\n")));
    Some(blocks)
}
