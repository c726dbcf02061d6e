//! What a dispatcher knows of its sessions: the turns that run here, and what it waits for. It must never act.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use super::lanes::{LaneLimits, Lanes, Next};
use crate::engine::RunControl;
use broker::queue::follows;
use model::QueueMode;

/// A turn that runs here, or is about to.
pub(super) struct ActiveTurn {
    pub(super) turn_id: String,
    /// For whom, with which permissions.
    pub(super) principal: String,
    /// `None` until its run has begun.
    pub(super) control: Option<Arc<RunControl>>,
    pub(super) is_ending: bool,
    /// The host has been informed of its end.
    pub(super) has_ended: bool,
    /// The messages that it has, with the number of earlier tries.
    pub(super) items: Vec<(String, u32)>,
    /// The messages that it was offered.
    pub(super) offered: Vec<String>,
    /// Whether it has given tasks to other agents: those that end with it are stopped.
    pub(super) has_children: bool,
    /// Whether it waits for a decision.
    pub(super) is_parked: bool,
    /// Whether it has a slot of its lane.
    has_slot: bool,
    /// What it waits for outside of its lane: no slot is its own meanwhile.
    waits: u32,
    /// The sessions of the agents that it waits for, and whether each waits for a decision.
    pub(super) awaits: Vec<(String, bool)>,
    /// Whether somebody waits until it has its slot back.
    is_returning: bool,
    slot_back: Arc<Notify>,
}

impl ActiveTurn {
    /// A turn that has a slot of its lane. `items` are its messages, with the number of earlier tries.
    pub(super) fn new(turn_id: String, principal: String, items: Vec<(String, u32)>) -> Self {
        Self {
            turn_id,
            principal,
            control: None,
            is_ending: false,
            has_ended: false,
            items,
            offered: Vec::new(),
            has_children: false,
            is_parked: false,
            has_slot: true,
            waits: 0,
            awaits: Vec::new(),
            is_returning: false,
            slot_back: Arc::default(),
        }
    }

    /// Whoever waits for its slot goes on.
    fn end_return(&mut self) {
        if std::mem::take(&mut self.is_returning) {
            self.slot_back.notify_one();
        }
    }

    /// Whether it waits for a decision, and goes on waiting.
    pub(super) fn stays_parked(&self) -> bool {
        self.is_parked && !self.is_ending
    }

    /// Whether it has the message, or was offered it.
    pub(super) fn has_item(&self, id: &str) -> bool {
        self.items.iter().any(|(item, _)| item == id) || self.offered.iter().any(|item| item == id)
    }
}

/// A session that something is done for.
#[derive(Default)]
pub(super) struct Session {
    pub(super) turn: Option<ActiveTurn>,
    /// A task is deciding its next step.
    pub(super) is_stepping: bool,
    /// It changed meanwhile.
    pub(super) has_changed: bool,
    /// Who waits for the end of the next step; dropped then.
    pub(super) next_step: Vec<oneshot::Sender<()>>,
    /// The messages that were queued here, and wait.
    pub(super) own: HashSet<String>,
    /// When it is looked at again, in Unix milliseconds.
    pub(super) timer: Option<i64>,
    /// Its queue was suspended when it was last read. That another process has resumed it is seen at the next pulse, if not before.
    pub(super) is_suspended: bool,
    /// No turn begins before this time: the last one could not be stored.
    pub(super) held_until: i64,
}

impl Session {
    /// Whether nothing of it needs to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        let is_waiting = !self.own.is_empty() || self.timer.is_some() || self.held_until != 0;
        self.turn.is_none() && !self.is_stepping && !is_waiting
    }
}

/// How a turn that has waited outside of its lane gets a slot again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// When one is free.
    InTurn,
    /// Also over the limit: its run continues without asking.
    AtOnce,
}

/// What a session is doing, as a host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    Idle,
    Running,
    Streaming,
    Compacting,
}

/// The messages whose ends several tasks may find at once.
#[derive(Default)]
pub(super) struct Ends {
    /// The messages that are about to be a session's own: no turn here has had them, and nobody has reported their end.
    pub(super) arriving: HashSet<String>,
    /// What others have reported since each watch began.
    pub(super) watches: HashMap<u64, HashSet<String>>,
    pub(super) last_watch: u64,
}

pub(super) struct State {
    pub(super) sessions: HashMap<String, Session>,
    pub(super) lanes: Lanes,
    pub(super) ends: Ends,
    pub(super) is_closing: bool,
    /// The sessions for which turns that run here wait, and how many: they may begin while the dispatcher closes.
    pub(super) awaited: HashMap<String, usize>,
    /// The sessions whose turn was left open while all closes: it goes on in the next dispatcher.
    pub(super) left: HashSet<String>,
}

impl State {
    pub(super) fn new(limits: LaneLimits) -> Self {
        Self {
            sessions: HashMap::new(),
            lanes: Lanes::new(limits),
            ends: Ends::default(),
            is_closing: false,
            awaited: HashMap::new(),
            left: HashSet::new(),
        }
    }

    pub(super) fn session(&mut self, label: &str) -> &mut Session {
        self.sessions.entry(label.to_owned()).or_default()
    }

    /// The turn of that id, where it runs in that session.
    pub(super) fn turn(&mut self, label: &str, turn_id: &str) -> Option<&mut ActiveTurn> {
        let turn = self.sessions.get_mut(label)?.turn.as_mut()?;
        (turn.turn_id == turn_id).then_some(turn)
    }

    /// Forgets a session that nothing is done for.
    pub(super) fn forget_idle(&mut self, label: &str) {
        if self.sessions.get(label).is_some_and(Session::is_idle) {
            self.sessions.remove(label);
        }
    }

    /// Whether a new message of this mode changes nothing of what the session does next: a turn runs that the message follows, and
    /// its end looks at the queue; it waits for a slot, with which it looks at the queue; or its queue is suspended.
    pub(super) fn is_settled(&mut self, label: &str, mode: QueueMode) -> bool {
        let session = self.session(label);
        match &session.turn {
            Some(_) => follows(mode),
            None => {
                // A step under way may have read the queue before.
                session.has_changed = true;
                session.is_suspended || self.lanes.has_waiting(label)
            }
        }
    }

    /// Whether no turn of the session may begin.
    pub(super) fn refuses(&self, label: &str) -> bool {
        self.left.contains(label) || (self.is_closing && !self.awaited.contains_key(label))
    }

    /// Whether the turn of the session goes on in the next dispatcher only, where this one closes: it waits for a decision, or for
    /// an agent that does.
    pub(super) fn rests(&self, label: &str) -> bool {
        let of_agent = |(of, is_parked): &(String, bool)| *is_parked || self.rests(of);
        let turn = self.sessions.get(label).and_then(|session| session.turn.as_ref());
        self.left.contains(label)
            || turn.is_some_and(|turn| {
                turn.stays_parked() || (!turn.is_ending && turn.awaits.iter().any(of_agent))
            })
    }

    /// The turn waits for something outside of its lane. Returns the session that has its slot now, and is to be woken.
    pub(super) fn step_out(&mut self, label: &str, turn_id: &str) -> Option<String> {
        let turn = self.turn(label, turn_id)?;
        turn.waits += 1;
        // It has something else to wait for, and wants its slot back after that.
        turn.end_return();
        if !std::mem::take(&mut turn.has_slot) {
            self.lanes.stay_away(label);
            return None;
        }
        let next = self.lanes.leave(label);
        self.pass_on(next)
    }

    /// The turn waits for one thing less. `Some` where it wants its slot back, and waits for it.
    pub(super) fn step_in(
        &mut self,
        label: &str,
        turn_id: &str,
        entrance: Entrance,
    ) -> Option<Arc<Notify>> {
        let turn = self.turn(label, turn_id)?;
        turn.waits = turn.waits.saturating_sub(1);
        if turn.waits > 0 || turn.has_slot {
            return None;
        }
        let has_slot = match entrance {
            Entrance::InTurn => self.lanes.come_back(label),
            Entrance::AtOnce => {
                self.lanes.enter_again(label);
                true
            }
        };
        let turn = self.turn(label, turn_id)?;
        turn.has_slot = has_slot;
        turn.is_returning = !has_slot;
        (!has_slot).then(|| Arc::clone(&turn.slot_back))
    }

    /// The turn has ended. Returns the session that has its slot now, and is to be woken.
    pub(super) fn end_turn(&mut self, label: &str) -> Option<String> {
        let mut turn = self.session(label).turn.take()?;
        turn.end_return();
        if !turn.has_slot {
            self.lanes.stay_away(label);
            return None;
        }
        let next = self.lanes.leave(label);
        self.pass_on(next)
    }

    /// No session that may not begin waits for a slot from now on, or has one. Returns the sessions that have theirs, and are to be
    /// woken.
    pub(super) fn drop_refused(&mut self) -> Vec<String> {
        let mut woken = Vec::new();
        for label in self.lanes.candidates() {
            if self.refuses(&label) {
                let next = self.lanes.pass(&label);
                woken.extend(self.pass_on(next));
            }
        }
        woken
    }

    /// Gives a slot to whom it belongs. Returns the session that is to be woken.
    pub(super) fn pass_on(&mut self, mut next: Option<Next>) -> Option<String> {
        loop {
            match next? {
                // While the dispatcher closes, only a session for which a turn waits begins.
                Next::Session(label) if self.refuses(&label) => next = self.lanes.pass(&label),
                Next::Session(label) => return Some(label),
                Next::Turn(label) => match self.session(&label).turn.as_mut() {
                    Some(turn) => {
                        turn.has_slot = true;
                        turn.end_return();
                        return None;
                    }
                    None => next = self.lanes.leave(&label),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ActiveTurn, LaneLimits, QueueMode, State};

    #[test]
    fn a_message_changes_nothing_for_a_session_that_waits_for_its_slot_or_is_suspended() {
        let mut state = State::new(LaneLimits { main: 1, worker: 1 });
        assert!(!state.is_settled("idle", QueueMode::Queue));
        assert!(state.session("idle").has_changed, "a step under way looks again");
        state.session("suspended").is_suspended = true;
        assert!(state.is_settled("suspended", QueueMode::Interrupt));
        assert!(state.lanes.enter("running"));
        assert!(!state.lanes.enter("waiting"));
        assert!(state.is_settled("waiting", QueueMode::Interrupt));
        let turn = ActiveTurn::new("t".to_owned(), String::new(), Vec::new());
        state.session("running").turn = Some(turn);
        assert!(state.is_settled("running", QueueMode::Collect));
        assert!(!state.is_settled("running", QueueMode::Steer));
    }
}
