//! How a turn is written if its session's head moved since the run began (docs/rules/sessions-and-ledger.md#pointer-write).
//!
//! The head is compared and set in the transaction that writes the turn: the backend reads the head, applies this rule, and
//! writes. It must never let a turn move the pointer of a session over a turn that its run did not know.

pub mod pointer_move;
#[cfg(test)]
mod tests;

use model::OnStaleHead;

/// The head that an ending turn expects, and the actual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending<'a> {
    /// The session's head now.
    pub head: Option<&'a str>,
    /// The head that the run knew.
    pub expected: Option<&'a str>,
    /// Its parent.
    pub parent: Option<&'a str>,
    /// Whether it moves the session's pointer.
    pub moves: bool,
    /// Whether it writes a compaction of its own, which moves the pointer too.
    pub compacts: bool,
    /// What to do if the head is another one.
    pub on_stale_head: OnStaleHead,
}

/// How a turn is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing<'a> {
    /// In the session's thread, after this turn; the pointer moves if the turn moves it.
    InThread(Option<&'a str>),
    /// Beside the session's thread, after this turn; the pointer stays.
    Beside(Option<&'a str>),
    /// Not at all.
    Refused,
}

impl<'a> Ending<'a> {
    /// Whether the head is not the one the turn expects: then [`Rebase`] finds out what came between.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        (self.moves || self.compacts) && self.head != self.expected
    }

    /// How the turn is written. `compacted`: only compactions came between, by [`Rebase`]; ignored where the head is not stale.
    #[must_use]
    pub fn landing(&self, compacted: bool) -> Landing<'a> {
        if !self.is_stale() {
            return Landing::InThread(self.parent);
        }
        if compacted {
            // A turn that followed the old head follows its compaction.
            let follows_head = self.parent == self.expected;
            return Landing::InThread(if follows_head { self.head } else { self.parent });
        }
        match self.on_stale_head {
            OnStaleHead::Beside if !self.compacts => Landing::Beside(self.parent),
            OnStaleHead::Beside | OnStaleHead::Refuse => Landing::Refused,
        }
    }
}

/// Whether a head is a compaction (of a compaction …) of the head that a run knew: the only case in which the run may
/// continue. It requests the turn that it needs next and receives it.
#[derive(Debug, Clone)]
pub struct Rebase<'a> {
    expected: Option<&'a str>,
    at: Option<String>,
    compacted: bool,
}

impl<'a> Rebase<'a> {
    /// Starts at `head`, where the run knew `expected`.
    #[must_use]
    pub fn new(head: Option<&str>, expected: Option<&'a str>) -> Self {
        Self { expected, at: head.map(ToOwned::to_owned), compacted: false }
    }

    /// The turn to read next; `None` at the end.
    #[must_use]
    pub fn wanted(&self) -> Option<&str> {
        self.at.as_deref()
    }

    /// Receives the requested turn: whether it is a compaction, and its parent.
    pub fn turn(&mut self, compaction: bool, parent: Option<String>) {
        self.compacted = compaction && parent.as_deref() == self.expected;
        self.at = parent.filter(|_| compaction && !self.compacted);
    }

    /// The result, at the end.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        self.compacted
    }
}
