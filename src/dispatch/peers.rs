//! The dispatchers of this process: where several work on one ledger, a session is that of one of them at a time, although the lease is
//! that of the process. It must never keep a dispatcher alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::dispatcher::Dispatcher;
use super::state::State;
use model::StoredItem;

struct Peer {
    /// The id of its ledger.
    ledger: String,
    dispatcher: Weak<Dispatcher>,
}

/// In the order of their start.
static PEERS: Mutex<Vec<Peer>> = Mutex::new(Vec::new());

fn peers() -> MutexGuard<'static, Vec<Peer>> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The dispatchers of a dispatcher's ledger, itself among them. One is the usual case, which costs a look.
fn of_ledger(dispatcher: &Dispatcher) -> Vec<Arc<Dispatcher>> {
    let peers = peers();
    if peers.len() < 2 {
        return Vec::new();
    }
    let is_own = |peer: &&Peer| std::ptr::eq(peer.dispatcher.as_ptr(), dispatcher);
    let Some(ledger) = peers.iter().find(is_own).map(|peer| peer.ledger.clone()) else {
        return Vec::new();
    };
    let same = peers.iter().filter(|peer| peer.ledger == ledger);
    same.filter_map(|peer| peer.dispatcher.upgrade()).collect()
}

impl Dispatcher {
    /// The dispatcher has started.
    pub(super) fn join_peers(self: &Arc<Self>) {
        let ledger = self.parts.journal.id();
        let mut peers = peers();
        peers.retain(|peer| peer.dispatcher.strong_count() > 0);
        peers.push(Peer { ledger, dispatcher: Arc::downgrade(self) });
    }

    /// Whether another dispatcher of this process begins the turn with these messages of a session: it has queued them or runs the
    /// session, or, where none has, it is the first.
    pub(super) fn is_of_peer(&self, label: &str, items: &[StoredItem]) -> bool {
        let has = |state: &State| {
            state.sessions.get(label).is_some_and(|session| {
                session.turn.is_some() || items.iter().any(|it| session.own.contains(&it.item.id))
            })
        };
        let mut first = None;
        for peer in of_ledger(self) {
            let is_self = std::ptr::eq(Arc::as_ptr(&peer), self);
            let state = peer.lock();
            if state.is_closing {
                continue;
            }
            if has(&state) {
                return !is_self;
            }
            first.get_or_insert(is_self);
        }
        first == Some(false)
    }

    /// Whether another dispatcher of this process has the turn. One that closes may leave it as it is.
    pub(super) fn is_at_peer(&self, label: &str, turn_id: &str) -> bool {
        of_ledger(self).iter().any(|peer| {
            if std::ptr::eq(Arc::as_ptr(peer), self) {
                return false;
            }
            let mut state = peer.lock();
            !state.is_closing && state.turn(label, turn_id).is_some()
        })
    }

    /// A turn of the session has ended here: the messages that another dispatcher of this process has queued may be next.
    pub(super) fn wake_peers(&self, label: &str) {
        for peer in of_ledger(self) {
            if !std::ptr::eq(Arc::as_ptr(&peer), self) && peer.lock().sessions.contains_key(label) {
                peer.wake(label);
            }
        }
    }
}
