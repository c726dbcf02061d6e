//! The frame of an entry: a mark and the version first, a checksum last.
//!
//! The checksum also covers the run and the kind, which are separate columns. It must never open an entry of an unknown
//! version.

use std::borrow::Cow;

use xxhash_rust::xxh3::Xxh3;

use super::archive::{pack, unpack};

/// The first bytes of an entry: a mark, and the version of the format.
const MARK: [u8; 2] = [b'J', 1];
/// The first bytes of an entry whose content is packed.
const PACKED: [u8; 2] = [b'J', 2];
/// The shortest content that is packed.
const LEAST: usize = 512;
/// Bytes of the checksum.
const SUM: usize = 8;

/// The kind of an entry, which its column stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Events of the run.
    Events,
    /// A commit point of the turn: W0 to W3, a new parent (a compaction), or a take-over by another process.
    CommitPoint,
}

impl EntryKind {
    /// The value of the column.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Events => 0,
            Self::CommitPoint => 1,
        }
    }

    /// The kind that the column names.
    pub(crate) fn of(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Events),
            1 => Some(Self::CommitPoint),
            _ => None,
        }
    }
}

/// The entry of a run with this content. A commit point is packed where that saves an eighth: a tool's result is in it as the text
/// of a message and as the result of a call. Events are not, because their numbers are read without unpacking them.
pub(crate) fn seal(run: i64, kind: EntryKind, content: &[u8]) -> Vec<u8> {
    let packed = (kind == EntryKind::CommitPoint && content.len() >= LEAST)
        .then(|| pack(content))
        .filter(|packed| packed.len() <= content.len() - content.len() / 8);
    let (mark, content) = match &packed {
        Some(packed) => (PACKED, packed.as_slice()),
        None => (MARK, content),
    };
    let mut entry = Vec::with_capacity(mark.len() + content.len() + SUM);
    entry.extend_from_slice(&mark);
    entry.extend_from_slice(content);
    let sum = checksum(run, kind, &entry);
    entry.extend_from_slice(&sum.to_le_bytes());
    entry
}

/// The content of an entry; `None` if it was not written for this run or was altered.
pub(crate) fn open(run: i64, kind: EntryKind, entry: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (framed, sum) = entry.split_last_chunk::<SUM>()?;
    if checksum(run, kind, framed) != u64::from_le_bytes(*sum) {
        return None;
    }
    match framed.strip_prefix(&PACKED) {
        Some(packed) => unpack(packed).map(Cow::Owned),
        None => framed.strip_prefix(&MARK).map(Cow::Borrowed),
    }
}

fn checksum(run: i64, kind: EntryKind, framed: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(framed);
    hash.update(&run.to_le_bytes());
    hash.update(&kind.number().to_le_bytes());
    hash.digest()
}
