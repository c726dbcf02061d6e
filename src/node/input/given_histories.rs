//! The given histories that JavaScript has passed, by number, so that an unchanged beginning is not passed again.
//!
//! A number never changes its meaning. It must never return another history than the one of a number: if a number is no
//! longer stored, JavaScript passes the whole history.

use std::sync::atomic::{AtomicI64, Ordering};

use base::recent::Recent;
use model::GivenHistory;
use napi_derive::napi;

/// The largest size of all histories in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The number that stands for no history.
const NONE: i64 = 0;

/// The beginning of a history that was passed earlier. @internal
#[napi(object)]
pub struct KnownHistory {
    /// The number of the history whose beginning it is; 0 for an empty one.
    pub number: i64,
    /// The number of its messages.
    pub length: u32,
}

/// A context in the form in which it is passed.
pub(in crate::node) struct CrossingContext {
    /// The JSON of an `AssembledContext`; its `history` has the messages after `known`.
    pub(in crate::node) json: String,
    /// The beginning of its history; `None` if the history is not to be stored.
    pub(in crate::node) known: Option<KnownHistory>,
}

/// Histories by number, the oldest evicted first.
pub(in crate::node) struct GivenHistories {
    recent: Recent<i64, GivenHistory>,
    /// The last used number. It is wide enough that no number is used twice.
    last: AtomicI64,
}

impl Default for GivenHistories {
    fn default() -> Self {
        Self { recent: Recent::new(usize::MAX, MAX_BYTES), last: AtomicI64::new(NONE) }
    }
}

impl GivenHistories {
    /// The beginning that `known` names; `None` if it is no longer stored.
    pub(in crate::node) fn beginning(&self, known: &KnownHistory) -> Option<GivenHistory> {
        if known.number == NONE {
            return Some(GivenHistory::default());
        }
        self.recent.get(&known.number)?.prefix(usize::try_from(known.length).ok()?)
    }

    /// Stores a history under a new number; 0 if it is empty, or larger than the limit of all histories.
    pub(in crate::node) fn store(&self, history: GivenHistory) -> i64 {
        let bytes = history.bytes();
        if history.is_empty() || bytes > MAX_BYTES {
            return NONE;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.recent.put(number, history, bytes);
        number
    }

    /// Removes a history that JavaScript will not name again.
    pub(in crate::node) fn forget(&self, number: i64) {
        self.recent.take(&number);
    }

    pub(in crate::node) fn clear(&self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Block, Message, Role};

    fn history(texts: &[&str]) -> GivenHistory {
        let message = |text: &&str| Message {
            id: (*text).to_owned(),
            role: Role::User,
            blocks: vec![Block::text(*text)],
            sequence: 0,
            created_at: 0,
            provenance: None,
            provider_stop_reason: None,
        };
        GivenHistory::of(texts.iter().map(message).collect())
    }

    fn ids(history: Option<GivenHistory>) -> Option<Vec<String>> {
        Some(history?.iter().map(|message| message.id.clone()).collect())
    }

    #[test]
    fn a_number_identifies_one_history_until_it_is_forgotten() {
        let histories = GivenHistories::default();
        let first = histories.store(history(&["a", "b", "c"]));
        let second = histories.store(history(&["x"]));
        let named = |number, length| ids(histories.beginning(&KnownHistory { number, length }));
        let list = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
        assert_eq!(named(first, 2), list(&["a", "b"]));
        assert_eq!(named(second, 1), list(&["x"]));
        assert_eq!((named(second, 2), named(9, 0)), (None, None), "unknown");
        let mut huge = history(&["a"]);
        huge.append(Vec::new(), MAX_BYTES);
        assert_eq!([histories.store(huge), histories.store(GivenHistory::default())], [0, 0]);
        assert_eq!(named(0, 0), list(&[]), "none is known yet");
        histories.forget(first);
        assert_eq!((named(first, 2), named(second, 0)), (None, list(&[])));
        histories.clear();
        assert_eq!(named(second, 1), None);
        assert!(![first, second].contains(&histories.store(history(&["a"]))));
    }
}

/// The flags of a run that do not belong to its context, as one number; the bits of `lib/run/run-flags.ts`.
#[derive(Debug, Clone, Copy)]
pub(in crate::node) struct RunFlags(pub(in crate::node) u32);

impl RunFlags {
    /// Its signal is aborted already.
    pub(in crate::node) fn aborted(self) -> bool {
        self.0 & 1 != 0
    }

    /// It has an `onRequest`.
    pub(in crate::node) fn hooked(self) -> bool {
        self.0 & 2 != 0
    }

    /// It has an `onAgentEvent`.
    pub(in crate::node) fn phases(self) -> bool {
        self.0 & 4 != 0
    }

    /// It has a `beforeToolCall`.
    pub(in crate::node) fn decides(self) -> bool {
        self.0 & 8 != 0
    }

    /// It has a `stopWhen`.
    pub(in crate::node) fn stops(self) -> bool {
        self.0 & 16 != 0
    }

    /// It has a `prepareStep`.
    pub(in crate::node) fn prepares(self) -> bool {
        self.0 & 32 != 0
    }

    /// The reason of its aborted signal is that of a time limit.
    pub(in crate::node) fn timed_out(self) -> bool {
        self.0 & 64 != 0
    }

    /// It has an `output` that only JavaScript can check.
    pub(in crate::node) fn checks_output(self) -> bool {
        self.0 & 128 != 0
    }

    /// It has an `afterToolCall`.
    pub(in crate::node) fn replaces(self) -> bool {
        self.0 & 256 != 0
    }

    /// The bits of the event groups that its reader does not receive.
    pub(in crate::node) fn skipped(self) -> u32 {
        self.0 >> 9
    }
}
