//! Who reports that a message has ended: of the calls and steps that find it, exactly one. It must never report anything itself.

use std::collections::HashSet;
use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::state::State;
use model::StorageError;

/// Held while a call may end messages, or acts on a queue that it has read: what others report meanwhile is not reported again.
pub(super) struct EndWatch {
    dispatcher: Arc<Dispatcher>,
    number: u64,
    /// The message that the call stores.
    arriving: Option<String>,
}

impl EndWatch {
    pub(super) fn begin(dispatcher: &Arc<Dispatcher>) -> Self {
        let mut state = dispatcher.lock();
        let ends = &mut state.ends;
        ends.last_watch += 1;
        let number = ends.last_watch;
        ends.watches.insert(number, HashSet::new());
        Self { dispatcher: Arc::clone(dispatcher), number, arriving: None }
    }

    /// The watch of a call that stores a message.
    pub(super) fn of_arriving(dispatcher: &Arc<Dispatcher>, id: &str) -> Self {
        let mut watch = Self::begin(dispatcher);
        dispatcher.lock().ends.arriving.insert(id.to_owned());
        watch.arriving = Some(id.to_owned());
        watch
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        let mut state = self.dispatcher.lock();
        state.ends.watches.remove(&self.number);
        if let Some(id) = &self.arriving {
            state.ends.arriving.remove(id);
        }
    }
}

impl State {
    /// A message is stored, and is its session's own where it waits.
    pub(super) fn arrive(&mut self, label: &str, id: &str) {
        if self.ends.arriving.remove(id) {
            self.session(label).own.insert(id.to_owned());
        }
    }

    /// A turn has the message, and its end reports what became of it.
    pub(super) fn leave_to_turn(&mut self, label: &str, id: &str) {
        self.ends.arriving.remove(id);
        self.session(label).own.remove(id);
    }

    /// Whether somebody has reported the end of a message since the watch began.
    pub(super) fn was_reported(&self, id: &str, watch: &EndWatch) -> bool {
        self.ends.watches.get(&watch.number).is_some_and(|reported| reported.contains(id))
    }

    /// The caller reports the end of a message that no turn has ended, and nobody else does.
    pub(super) fn take_end(&mut self, label: &str, id: &str) {
        for reported in self.ends.watches.values_mut() {
            reported.insert(id.to_owned());
        }
        self.ends.arriving.remove(id);
        if let Some(session) = self.sessions.get_mut(label) {
            session.own.remove(id);
            if let Some(turn) = &mut session.turn {
                turn.items.retain(|(item, _)| item != id);
                turn.offered.retain(|item| item != id);
            }
        }
    }
}

impl Dispatcher {
    /// Makes messages that others have queued the session's own, where they wait.
    pub(super) async fn adopt(&self, label: &str, ids: Vec<String>) -> Result<(), StorageError> {
        self.lock().ends.arriving.extend(ids.iter().cloned());
        // Read now: a turn that has one of them from here on is seen.
        let read = self.store().waiting_items(label).await;
        let mut state = self.lock();
        let waiting: HashSet<String> = read.iter().flatten().map(|it| it.item.id.clone()).collect();
        for id in &ids {
            let is_of_turn = state.session(label).turn.as_ref().is_some_and(|it| it.has_item(id));
            if waiting.contains(id) && !is_of_turn {
                state.arrive(label, id);
            }
            state.ends.arriving.remove(id);
        }
        read.map(drop)
    }
}
