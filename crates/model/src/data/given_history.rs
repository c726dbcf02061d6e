//! The messages that a host gives before its question.
//!
//! Immutable, and shared: a history that continues another one, or begins as it did, has the very same messages in memory. It
//! must never compare texts: what two histories have in common is what they share.

use std::sync::Arc;

use crate::Message;

/// Messages of one chunk; all but the last are full.
const CHUNK: usize = 64;
/// Bytes of a message beside its texts, about.
const MESSAGE_BYTES: usize = 320;

/// A list of messages whose beginning may be shared with other lists.
#[derive(Debug, Clone, Default)]
pub struct GivenHistory {
    chunks: Vec<Arc<[Arc<Message>]>>,
    len: usize,
    bytes: usize,
}

impl GivenHistory {
    /// A history of these messages.
    #[must_use]
    pub fn of(messages: Vec<Message>) -> Self {
        let mut history = Self::default();
        history.append(messages, 0);
        history
    }

    /// Appends messages that were read from so many bytes of JSON.
    pub fn append(&mut self, messages: Vec<Message>, json_bytes: usize) {
        self.bytes += json_bytes + messages.len() * MESSAGE_BYTES;
        if messages.is_empty() {
            return;
        }
        self.len += messages.len();
        let open = self.chunks.pop_if(|last| last.len() < CHUNK);
        let mut rest: Vec<Arc<Message>> = open.map_or_else(Vec::new, |open| open.to_vec());
        rest.extend(messages.into_iter().map(Arc::new));
        self.chunks.extend(rest.chunks(CHUNK).map(Arc::from));
    }

    /// Its first `len` messages; `None` where it has fewer.
    #[must_use]
    pub fn prefix(&self, len: usize) -> Option<Self> {
        if len > self.len {
            return None;
        }
        let (full, rest) = (len / CHUNK, len % CHUNK);
        let mut chunks = self.chunks.get(..full)?.to_vec();
        if rest > 0 {
            chunks.push(self.chunks.get(full)?.get(..rest)?.into());
        }
        let bytes = self.bytes.saturating_sub(self.bytes_after(len));
        Some(Self { chunks, len, bytes })
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About what its messages take in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// About what its messages from an index on take in memory.
    #[must_use]
    pub fn bytes_after(&self, index: usize) -> usize {
        let each = self.bytes.checked_div(self.len).unwrap_or_default();
        each.saturating_mul(self.len.saturating_sub(index))
    }

    /// The message at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Message> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK).map(AsRef::as_ref)
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Message> + Clone {
        self.from(0)
    }

    /// The messages from an index on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &Message> + Clone {
        let chunks = self.chunks.get(index / CHUNK..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| chunk.iter()).skip(index % CHUNK).map(AsRef::as_ref)
    }

    /// How many messages at the beginning of both are the same in memory.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> usize {
        let mut shared = 0;
        for (mine, theirs) in self.chunks.iter().zip(&other.chunks) {
            if Arc::ptr_eq(mine, theirs) {
                shared += mine.len();
                continue;
            }
            let messages = mine.iter().zip(theirs.iter());
            let same = messages.take_while(|(mine, theirs)| Arc::ptr_eq(mine, theirs)).count();
            shared += same;
            if same < CHUNK {
                break;
            }
        }
        shared
    }

    /// Where its first message is in memory: histories that share it have the same, for as long as one of them lives.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        let first = self.chunks.first()?.first()?;
        Some(Arc::as_ptr(first).addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Role};

    fn messages(numbers: std::ops::Range<usize>) -> Vec<Message> {
        let message = |number: usize| Message {
            id: number.to_string(),
            role: Role::User,
            blocks: vec![Block::text("x")],
            sequence: 0,
            created_at: 0,
            provenance: None,
            provider_stop_reason: None,
        };
        numbers.map(message).collect()
    }

    fn ids(history: &GivenHistory) -> Vec<usize> {
        history.iter().map(|message| message.id.parse().unwrap()).collect()
    }

    #[test]
    fn a_history_grows_and_is_cut_at_every_length_and_shares_what_it_has_in_common() {
        for first in [0, 1, 63, 64, 65, 128, 130] {
            let history = GivenHistory::of(messages(0..first));
            for cut in 0..=first {
                let beginning = history.prefix(cut).unwrap();
                assert_eq!(ids(&beginning), (0..cut).collect::<Vec<_>>());
                assert_eq!(beginning.shared_with(&history), cut);
                let mut other = beginning.clone();
                other.append(messages(1_000..1_070), 0);
                let expected: Vec<usize> = (0..cut).chain(1_000..1_070).collect();
                assert_eq!((ids(&other), other.len()), (expected, cut + 70));
                assert_eq!((other.shared_with(&history), beginning.len()), (cut, cut));
                let from: Vec<&str> = other.from(cut).map(|message| message.id.as_str()).collect();
                assert_eq!((from.len(), from.first()), (70, Some(&"1000")));
                assert_eq!(other.get(cut).map(|message| message.id.as_str()), Some("1000"));
            }
            assert!(history.prefix(first + 1).is_none());
        }
    }

    #[test]
    fn equal_messages_of_another_history_are_not_shared() {
        let [one, other] = [(); 2].map(|()| GivenHistory::of(messages(0..100)));
        assert_eq!(one.shared_with(&other), 0);
        assert_ne!(one.address(), other.address());
        assert_eq!(one.address(), one.prefix(1).unwrap().address());
        assert_eq!(GivenHistory::default().address(), None);
    }
}
