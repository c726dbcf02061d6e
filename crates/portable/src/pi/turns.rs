//! The entries of a session, cut into turns.
//!
//! A turn is a question and everything until the next one. It also begins at the start of a branch and at the cut of a
//! compaction, so that every entry at which pi can point is the end of a turn. It must never reorder entries.

use std::collections::HashSet;

use super::entries::{Entry, Session};
use super::messages::{EntryMessage, message_of};
use crate::report::Problems;
use model::{Role, TransferCode};

/// The entries of a session with their messages and turns. Entries and turns are identified by their indexes.
pub(super) struct EntryTurns<'a> {
    pub(super) entries: &'a [Entry],
    /// The message of each entry; `None` for one that the model does not see.
    pub(super) messages: Vec<Option<EntryMessage>>,
    /// For each entry, the nearest entry with a message among it and its ancestors.
    nearest: Vec<Option<usize>>,
    /// For each entry, its nearest ancestor with a message.
    pub(super) above: Vec<Option<usize>>,
    /// The turn of each entry with a message.
    turn: Vec<Option<usize>>,
    /// The entries of each turn.
    pub(super) turns: Vec<Vec<usize>>,
}

impl<'a> EntryTurns<'a> {
    /// Reads the messages and forms the turns. An invalid entry is reported as a problem and has no message.
    pub(super) fn of(session: &'a Session, problems: &mut Problems) -> Self {
        let entries = session.entries.as_slice();
        let mut cut = Self {
            entries,
            messages: Vec::with_capacity(entries.len()),
            nearest: Vec::with_capacity(entries.len()),
            above: Vec::with_capacity(entries.len()),
            turn: vec![None; entries.len()],
            turns: Vec::new(),
        };
        for (at, entry) in entries.iter().enumerate() {
            let above = entry.parent.and_then(|parent| cut.nearest_to(parent));
            let message = message_of(entry).unwrap_or_else(|why| {
                problems.add(entry.line, TransferCode::InvalidLine, format!("the line {why}"));
                None
            });
            cut.nearest.push(if message.is_some() { Some(at) } else { above });
            cut.above.push(above);
            cut.messages.push(message);
        }
        cut.cut();
        cut
    }

    pub(super) fn message(&self, entry: usize) -> Option<&EntryMessage> {
        self.messages.get(entry)?.as_ref()
    }

    pub(super) fn turn_of(&self, entry: usize) -> Option<usize> {
        self.turn.get(entry).copied().flatten()
    }

    /// The parent of a turn.
    pub(super) fn parent(&self, turn: usize) -> Option<usize> {
        let first = *self.turns.get(turn)?.first()?;
        self.turn_of(self.above.get(first).copied().flatten()?)
    }

    /// The head of the session: the nearest entry with a message among the last entry and its ancestors.
    pub(super) fn leaf(&self) -> Option<usize> {
        self.nearest_to(self.entries.len().checked_sub(1)?)
    }

    fn nearest_to(&self, entry: usize) -> Option<usize> {
        self.nearest.get(entry).copied().flatten()
    }

    fn cut(&mut self) {
        let mut followers = vec![0_usize; self.entries.len()];
        for (at, above) in self.above.iter().enumerate() {
            if self.message(at).is_some()
                && let Some(count) = above.and_then(|above| followers.get_mut(above))
            {
                *count += 1;
            }
        }
        let retained: HashSet<usize> =
            (0..self.entries.len()).filter_map(|at| self.first_retained(at)).collect();
        let leaf = self.leaf();
        for at in 0..self.entries.len() {
            let Some(message) = self.message(at) else { continue };
            let joined = self.above.get(at).copied().flatten().and_then(|above| {
                let before = self.message(above)?;
                let begins = message.is_compaction
                    || before.is_compaction
                    || followers.get(above).is_some_and(|count| *count > 1)
                    || retained.contains(&at)
                    || leaf == Some(above)
                    || (message.message.role == Role::User && before.message.role != Role::User);
                if begins { None } else { self.turn_of(above) }
            });
            let turn = joined.unwrap_or_else(|| {
                self.turns.push(Vec::new());
                self.turns.len() - 1
            });
            if let Some(entries) = self.turns.get_mut(turn) {
                entries.push(at);
            }
            if let Some(of) = self.turn.get_mut(at) {
                *of = Some(turn);
            }
        }
    }

    /// The first entry that a compaction retains: the one that it names, or its next descendant with a message.
    pub(super) fn first_retained(&self, compaction: usize) -> Option<usize> {
        let entry = self.entries.get(compaction).filter(|entry| entry.kind() == "compaction")?;
        let named = entry.text("firstKeptEntryId")?;
        let (mut next, mut first) = (entry.parent, None);
        while let Some(at) = next {
            let entry = self.entries.get(at)?;
            if self.message(at).is_some() {
                first = Some(at);
            }
            if entry.id == named {
                return first;
            }
            next = entry.parent;
        }
        None
    }
}
