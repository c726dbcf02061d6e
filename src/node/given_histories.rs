//! The given histories that crossed, by number, so that an unchanged beginning of one does not cross again.
//!
//! A number never changes its meaning. It must never take a history for another one: where a number is not there any more,
//! JavaScript sends everything.

use std::sync::atomic::{AtomicI64, Ordering};

use base::recent::Recent;
use model::GivenHistory;
use napi_derive::napi;

/// Bytes of all of them.
const MAX_BYTES: usize = 64 << 20;
/// The number of no history.
const NONE: i64 = 0;

/// The beginning of a history, which crossed before.
/// @internal
#[napi(object)]
pub struct KnownHistory {
    /// The number of the history that it is the beginning of; 0 for an empty one.
    pub number: i64,
    /// So many of its messages.
    pub length: u32,
}

/// A context as it crosses.
pub(super) struct CrossingContext {
    /// The JSON of an `AssembledContext`; its `history` is what follows `known`.
    pub(super) json: String,
    /// The beginning of its history; `None` where the history is not to be stored.
    pub(super) known: Option<KnownHistory>,
}

/// Histories by number, the oldest dropped first.
pub(super) struct GivenHistories {
    recent: Recent<i64, GivenHistory>,
    /// Large enough that no number comes twice.
    last: AtomicI64,
}

impl Default for GivenHistories {
    fn default() -> Self {
        Self { recent: Recent::new(usize::MAX, MAX_BYTES), last: AtomicI64::new(NONE) }
    }
}

impl GivenHistories {
    /// The beginning that `known` names; `None` where it is not there any more.
    pub(super) fn beginning(&self, known: &KnownHistory) -> Option<GivenHistory> {
        if known.number == NONE {
            return Some(GivenHistory::default());
        }
        self.recent.get(&known.number)?.prefix(usize::try_from(known.length).ok()?)
    }

    /// Stores a history under a new number; 0 where it is empty, or larger than all of them may be.
    pub(super) fn store(&self, history: GivenHistory) -> i64 {
        let bytes = history.bytes();
        if history.is_empty() || bytes > MAX_BYTES {
            return NONE;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.recent.put(number, history, bytes);
        number
    }

    /// JavaScript does not name this history again.
    pub(super) fn forget(&self, number: i64) {
        self.recent.take(&number);
    }

    pub(super) fn clear(&self) {
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
    fn a_number_stands_for_one_history_until_it_is_forgotten() {
        let histories = GivenHistories::default();
        let first = histories.store(history(&["a", "b", "c"]));
        let second = histories.store(history(&["x"]));
        let named = |number, length| ids(histories.beginning(&KnownHistory { number, length }));
        let list = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
        assert_eq!(named(first, 2), list(&["a", "b"]));
        assert_eq!(named(second, 1), list(&["x"]));
        assert_eq!((named(second, 2), named(9, 0)), (None, None), "what is not there");
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
pub(super) struct RunFlags(pub(super) u32);

impl RunFlags {
    /// Its signal is aborted already.
    pub(super) fn aborted(self) -> bool {
        self.0 & 1 != 0
    }

    /// It has an `onRequest`.
    pub(super) fn hooked(self) -> bool {
        self.0 & 2 != 0
    }

    /// It has an `onAgentEvent`.
    pub(super) fn phases(self) -> bool {
        self.0 & 4 != 0
    }
}
