//! The frame of an entry: a mark and the version in front, a checksum behind.
//!
//! The checksum covers the run and the kind too, which stand in columns of their own. It must never open an entry of a version
//! that it does not know.

use xxhash_rust::xxh3::Xxh3;

/// What every entry begins with: a mark, and the version of the format.
const MARK: [u8; 2] = [b'J', 1];
/// Bytes of the checksum.
const SUM: usize = 8;

/// The kind of an entry, as its column has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Events of the run.
    Events,
    /// A commit point of the turn: W0 to W3, a compaction that it follows, or another process that takes it over.
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

/// The entry of a run with this content.
pub(crate) fn seal(run: i64, kind: EntryKind, content: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(MARK.len() + content.len() + SUM);
    entry.extend_from_slice(&MARK);
    entry.extend_from_slice(content);
    let sum = checksum(run, kind, &entry);
    entry.extend_from_slice(&sum.to_le_bytes());
    entry
}

/// The content of an entry; `None` where that is not what was written for this run.
pub(crate) fn open(run: i64, kind: EntryKind, entry: &[u8]) -> Option<&[u8]> {
    let (framed, sum) = entry.split_last_chunk::<SUM>()?;
    let content = framed.strip_prefix(&MARK)?;
    (checksum(run, kind, framed) == u64::from_le_bytes(*sum)).then_some(content)
}

fn checksum(run: i64, kind: EntryKind, framed: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(framed);
    hash.update(&run.to_le_bytes());
    hash.update(&kind.number().to_le_bytes());
    hash.digest()
}
