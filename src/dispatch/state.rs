//! What a dispatcher knows of its sessions: the turns that run here, and what it waits for. It must never act.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lanes::{LaneLimits, Lanes};
use crate::engine::RunControl;

/// A turn that runs here, or is about to.
pub(super) struct ActiveTurn {
    pub(super) turn_id: String,
    /// For whom, with which permissions.
    pub(super) principal: String,
    /// `None` until its run has begun.
    pub(super) control: Option<Arc<RunControl>>,
    pub(super) is_ending: bool,
    /// Whether it has a slot of its lane: not while it waits for a decision.
    pub(super) has_slot: bool,
    /// The messages that it has, with the number of earlier tries.
    pub(super) items: Vec<(String, u32)>,
    /// The messages that it was offered.
    pub(super) offered: Vec<String>,
}

/// A session that something is done for.
#[derive(Default)]
pub(super) struct Session {
    pub(super) turn: Option<ActiveTurn>,
    /// A task is deciding its next step.
    pub(super) is_stepping: bool,
    /// It changed meanwhile.
    pub(super) has_changed: bool,
    /// The messages that were queued here, and wait.
    pub(super) own: HashSet<String>,
    /// When it is looked at again, in Unix milliseconds.
    pub(super) timer: Option<i64>,
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

/// What a session is doing, as a host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    Idle,
    Running,
    Streaming,
    Compacting,
}

pub(super) struct State {
    pub(super) sessions: HashMap<String, Session>,
    pub(super) lanes: Lanes,
    pub(super) is_closing: bool,
}

impl State {
    pub(super) fn new(limits: LaneLimits) -> Self {
        Self { sessions: HashMap::new(), lanes: Lanes::new(limits), is_closing: false }
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
}
