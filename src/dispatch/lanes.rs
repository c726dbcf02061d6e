//! How many turns run at once, main sessions and workers apart: round robin over the sessions that wait.
//!
//! It must never give a session two slots, nor let one pass another that waits longer.

use std::collections::{HashSet, VecDeque};

use model::SessionKey;

/// The number of turns that run at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneLimits {
    pub(crate) main: usize,
    pub(crate) worker: usize,
}

/// The kind of a session's lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneKind {
    Main,
    Worker,
}

impl LaneKind {
    pub(crate) fn of(label: &str) -> Self {
        if SessionKey::parse(label).kind.is_worker() { Self::Worker } else { Self::Main }
    }
}

struct Lane {
    limit: usize,
    /// Slots that are taken, by a turn or by a session that was chosen for its next one.
    taken: usize,
    /// Sessions that wait, in the order of their arrival.
    waiting: VecDeque<String>,
    /// Sessions that were chosen and have not begun.
    chosen: HashSet<String>,
    /// Sessions whose turn has waited outside of the lane and wants its slot back, in the order of their return.
    returning: VecDeque<String>,
}

/// Who has a free slot next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// A session that waits for its turn.
    Session(String),
    /// The turn of a session, which goes on.
    Turn(String),
}

/// The lanes of a dispatcher.
pub(crate) struct Lanes {
    main: Lane,
    worker: Lane,
}

impl Lanes {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        let lane = |limit: usize| Lane {
            limit: limit.max(1),
            taken: 0,
            waiting: VecDeque::new(),
            chosen: HashSet::new(),
            returning: VecDeque::new(),
        };
        Self { main: lane(limits.main), worker: lane(limits.worker) }
    }

    fn of(&mut self, label: &str) -> &mut Lane {
        match LaneKind::of(label) {
            LaneKind::Main => &mut self.main,
            LaneKind::Worker => &mut self.worker,
        }
    }

    /// Whether the session waits for a slot.
    pub(crate) fn has_waiting(&mut self, label: &str) -> bool {
        self.of(label).waiting.iter().any(|other| other == label)
    }

    /// Takes a slot for a turn of the session; false where it waits for one from now on.
    pub(crate) fn enter(&mut self, label: &str) -> bool {
        let lane = self.of(label);
        if lane.chosen.remove(label) {
            return true;
        }
        if lane.waiting.iter().any(|other| other == label) {
            return false;
        }
        if lane.taken < lane.limit && lane.waiting.is_empty() {
            lane.taken += 1;
            return true;
        }
        lane.waiting.push_back(label.to_owned());
        false
    }

    /// The sessions that wait for a slot, or were chosen for one.
    pub(crate) fn candidates(&self) -> Vec<String> {
        let of = |lane: &Lane| lane.waiting.iter().chain(&lane.chosen).cloned().collect::<Vec<_>>();
        [of(&self.main), of(&self.worker)].concat()
    }

    /// Takes a slot for a turn that continues, also over the limit: it is open, and does not wait again.
    pub(crate) fn enter_again(&mut self, label: &str) {
        self.of(label).taken += 1;
    }

    /// A turn of the session has ended, or waits outside of its lane. Returns who has the slot now.
    pub(crate) fn leave(&mut self, label: &str) -> Option<Next> {
        let lane = self.of(label);
        lane.taken = lane.taken.saturating_sub(1);
        if lane.taken >= lane.limit {
            return None;
        }
        // What has begun is finished first.
        let next = match lane.returning.pop_front() {
            Some(label) => Next::Turn(label),
            None => {
                let label = lane.waiting.pop_front()?;
                lane.chosen.insert(label.clone());
                Next::Session(label)
            }
        };
        lane.taken += 1;
        Some(next)
    }

    /// Takes a slot for a turn of the session that has waited outside; false where it waits for one from now on.
    pub(crate) fn come_back(&mut self, label: &str) -> bool {
        let lane = self.of(label);
        if lane.taken < lane.limit {
            lane.taken += 1;
            return true;
        }
        lane.returning.push_back(label.to_owned());
        false
    }

    /// A turn that wants its slot back has ended.
    pub(crate) fn stay_away(&mut self, label: &str) {
        self.of(label).returning.retain(|other| other != label);
    }

    /// The session has nothing to begin. Returns who has its slot now, if it had one.
    pub(crate) fn pass(&mut self, label: &str) -> Option<Next> {
        let lane = self.of(label);
        lane.waiting.retain(|other| other != label);
        if lane.chosen.remove(label) { self.leave(label) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::{LaneLimits, Lanes, Next};

    fn session(label: &str) -> Option<Next> {
        Some(Next::Session(label.to_owned()))
    }

    #[test]
    fn a_turn_that_waits_outside_of_its_lane_has_its_slot_back_before_others_begin() {
        let mut lanes = Lanes::new(LaneLimits { main: 1, worker: 1 });
        assert!(lanes.enter("a") && !lanes.enter("b") && !lanes.enter("c"));
        // `a` waits for something outside, and `b` runs meanwhile.
        assert_eq!(lanes.leave("a"), session("b"));
        assert!(lanes.enter("b") && !lanes.come_back("a"));
        assert_eq!(lanes.leave("b"), Some(Next::Turn("a".to_owned())));
        assert_eq!(lanes.leave("a"), session("c"));
        assert!(lanes.enter("c") && !lanes.come_back("a"));
        lanes.stay_away("a");
        assert_eq!(lanes.leave("c"), None);
        assert!(lanes.come_back("a"));
    }

    #[test]
    fn sessions_have_their_turns_in_the_order_in_which_they_wait() {
        let mut lanes = Lanes::new(LaneLimits { main: 1, worker: 1 });
        assert!(lanes.enter("a"));
        assert!(!lanes.enter("b") && !lanes.enter("c") && !lanes.enter("b"));
        assert!(lanes.enter("worker:1"), "workers have a lane of their own");
        // `a` has more to do, and is behind those that wait.
        assert_eq!(lanes.leave("a"), session("b"));
        assert!(!lanes.enter("a") && lanes.enter("b"));
        assert_eq!(lanes.leave("b"), session("c"));
        // `c` has nothing to begin any more.
        assert_eq!(lanes.pass("c"), session("a"));
        assert!(lanes.enter("a"));
        assert_eq!(lanes.leave("a"), None);
        assert!(lanes.enter("c"));
    }

    #[test]
    fn a_turn_that_continues_has_a_slot_over_the_limit_until_a_slot_is_left() {
        let mut lanes = Lanes::new(LaneLimits { main: 1, worker: 1 });
        assert!(lanes.enter("parked"));
        assert!(!lanes.enter("a") && !lanes.enter("b"));
        assert_eq!(lanes.leave("parked"), session("a"), "it waits for a decision");
        assert!(lanes.enter("a"));
        lanes.enter_again("parked");
        assert_eq!(lanes.leave("a"), None, "the slot is that of the turn that continues");
        assert_eq!(lanes.leave("parked"), session("b"));
    }
}
