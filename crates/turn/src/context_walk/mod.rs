//! Which turns are the context of the next call: the rule of docs/rules/compaction.md#context-rule over the chain of parents.
//!
//! A walk leads from the head back to the first turn that the last compaction kept, or to the head that the caller
//! knows. It requests the row that it needs next ([`ContextWalk::wanted`]) and receives it, so that a backend reads no
//! more than that, one row at a time or many. It must never read anything, nor repair or project a message.

#[cfg(test)]
mod tests;

use model::{HistoryBase, Message, Role, TurnStatus};

/// The row of a turn: its parent and its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLink {
    /// The turn's id.
    pub id: String,
    /// Its parent.
    pub parent: Option<String>,
    /// How it ended.
    pub status: TurnStatus,
    /// Whether it is a summary of earlier turns.
    pub compaction: bool,
}

/// Where a compaction cut the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The oldest turn that stays in the context.
    pub first_kept: String,
    /// The newest turn that was summarised.
    pub summarized_through: String,
}

/// The row that a walk needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The turn with this id, for [`ContextWalk::turn`].
    Turn(&'a str),
    /// The cut of the compaction with this id, for [`ContextWalk::cut`].
    Cut(&'a str),
}

/// A turn of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextTurn {
    /// The turn's id.
    pub id: String,
    /// How it ended.
    pub status: TurnStatus,
    /// Whether it is the summary.
    pub compaction: bool,
    /// Whether a later compaction kept it.
    pub edited: bool,
    /// The compaction that it follows.
    pub follows: Option<String>,
}

/// The context of the next call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Where `turns` begins.
    pub base: HistoryBase,
    /// The turns, oldest first; the summary is before the turns that it kept.
    pub turns: Vec<ContextTurn>,
    /// The newest turn that is not in the context; `None` where the context has every turn.
    pub left_out: Option<String>,
}

/// A walk from a head to the oldest turn of its context.
#[derive(Debug, Clone)]
pub struct ContextWalk {
    known: Option<String>,
    at: At,
    /// The turns after the compaction, newest first.
    after: Vec<ContextTurn>,
    /// The compaction, once the walk has reached it, and its parent.
    summary: Option<(ContextTurn, Option<String>)>,
    /// The turns that it kept, newest first.
    kept: Vec<ContextTurn>,
    base: HistoryBase,
}

#[derive(Debug, Clone)]
enum At {
    /// On the way to the last compaction.
    Thread(String),
    /// At the compaction of this id.
    Compaction(String),
    /// Among the turns that it kept.
    Kept { next: String, cut: Cut },
    /// At the end; older turns are not in the context.
    End { left_out: Option<String> },
}

impl ContextWalk {
    /// A walk from `head`, as far as the turn `known`, which the caller has already.
    #[must_use]
    pub fn new(head: &str, known: Option<&str>) -> Self {
        let mut walk = Self {
            known: known.map(ToOwned::to_owned),
            at: At::End { left_out: None },
            after: Vec::new(),
            summary: None,
            kept: Vec::new(),
            base: HistoryBase::Root,
        };
        walk.go_to(Some(head.to_owned()));
        walk
    }

    /// The row to read next; `None` at the end.
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted<'_>> {
        match &self.at {
            At::Thread(id) | At::Kept { next: id, .. } => Some(Wanted::Turn(id)),
            At::Compaction(id) => Some(Wanted::Cut(id)),
            At::End { .. } => None,
        }
    }

    /// Receives the requested turn.
    pub fn turn(&mut self, link: TurnLink) {
        let TurnLink { id, parent, status, compaction } = link;
        let turn = ContextTurn { id, status, compaction, edited: false, follows: None };
        match std::mem::replace(&mut self.at, At::End { left_out: None }) {
            At::Thread(_) if compaction => {
                if let Some(child) = self.after.last_mut() {
                    child.follows = Some(turn.id.clone());
                }
                self.at = At::Compaction(turn.id.clone());
                self.summary = Some((turn, parent));
            }
            At::Thread(_) => {
                self.after.push(turn);
                self.go_to(parent);
            }
            At::Kept { cut, .. } => {
                let last = turn.id == cut.first_kept;
                // The summary of an older compaction is a part of the newer one.
                if !compaction {
                    self.kept.push(ContextTurn { edited: true, ..turn });
                }
                if last {
                    self.at = At::End { left_out: parent };
                } else {
                    self.keep(parent, cut);
                }
            }
            // No row was requested.
            other @ (At::Compaction(_) | At::End { .. }) => self.at = other,
        }
    }

    /// Receives the requested cut.
    pub fn cut(&mut self, cut: Cut) {
        if matches!(self.at, At::Compaction(_)) {
            let parent = self.summary.as_ref().and_then(|(_, parent)| parent.clone());
            self.keep(parent, cut);
        }
    }

    /// The parent of the last compaction, once the walk has reached one: the session's head without it.
    #[must_use]
    pub fn before_compaction(&self) -> Option<&str> {
        self.summary.as_ref().and_then(|(_, parent)| parent.as_deref())
    }

    /// The context, at the end of the walk.
    #[must_use]
    pub fn finish(mut self) -> Context {
        let mut turns: Vec<ContextTurn> =
            self.summary.into_iter().map(|(summary, _)| summary).collect();
        turns.extend(self.kept.into_iter().rev());
        self.after.reverse();
        turns.append(&mut self.after);
        let left_out = match self.at {
            At::End { left_out } => left_out,
            At::Thread(_) | At::Compaction(_) | At::Kept { .. } => None,
        };
        Context { base: self.base, turns, left_out }
    }

    fn go_to(&mut self, next: Option<String>) {
        self.at = match next {
            Some(id) if Some(&id) == self.known.as_ref() => {
                self.base = HistoryBase::Known;
                At::End { left_out: None }
            }
            Some(id) => At::Thread(id),
            None => At::End { left_out: None },
        };
    }

    /// If no turn before the compaction was kept, the first kept turn comes after it.
    fn keep(&mut self, next: Option<String>, cut: Cut) {
        self.at = match next {
            Some(id) if id != cut.summarized_through => At::Kept { next: id, cut },
            left_out => At::End { left_out },
        };
    }
}

/// How many of a turn's messages were written before `compaction`, which its own run made. Messages of the engine and
/// compactions have ids of the engine's clock; an answer belongs to the messages before the next answer.
#[must_use]
pub fn messages_before(messages: &[Message], compaction: &str) -> usize {
    let ours =
        |id: &str| id.len() == compaction.len() && id.bytes().all(|it| it.is_ascii_alphanumeric());
    let before = |message: &Message| {
        message.role == Role::Assistant && ours(&message.id) && message.id.as_str() < compaction
    };
    let Some(last) = messages.iter().rposition(before) else { return 0 };
    let rest = messages.iter().skip(last + 1);
    last + 1 + rest.take_while(|message| message.role != Role::Assistant).count()
}
