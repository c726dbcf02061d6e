//! The program of a pattern with look-around: one instruction per character and choice.
//!
//! Plain data. It must never have more instructions than the limit.

/// The largest compiled pattern in bytes; nested repeats grow past it and are refused.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of instructions, with repeats expanded.
pub(super) const MAX_INSTRUCTIONS: usize = 200_000;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) code: Vec<Inst>,
    pub(super) sets: Vec<Set>,
    /// The number of choices: each is entered once per position.
    pub(super) choices: u32,
    /// The number of recorded positions: of groups, if the pattern has back-references, and of loops that may be empty.
    pub(super) slots: u32,
    /// Whether the pattern has neither look-around nor back-references.
    pub(super) is_regular: bool,
    pub(super) refers_back: bool,
    /// It can only match at the beginning.
    pub(super) is_anchored: bool,
}

impl Program {
    /// Its memory, also on the linear engine, which expands each character set.
    pub(super) fn weight(&self) -> u64 {
        let ranges = |inst: &Inst| match inst {
            Inst::One { set, .. } => self.sets.get(*set as usize).map_or(0, Set::len),
            _ => 0,
        };
        let all: usize = self.code.iter().map(|inst| 1 + 2 * ranges(inst)).sum();
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// The number of states of a match.
    pub(super) fn length(&self) -> u64 {
        u64::try_from(self.code.len()).unwrap_or(u64::MAX)
    }
}

/// One instruction. With `back`, it reads the character before the position: a look-behind is matched backwards.
#[derive(Debug, Clone, Copy)]
pub(super) enum Inst {
    /// One character of a set.
    One {
        set: u32,
        back: bool,
    },
    /// Tries the first target, then the second.
    Split {
        first: u32,
        second: u32,
        choice: u32,
    },
    Jump(u32),
    Assert(Assertion),
    /// The instructions up to `next` are tried here, and must lead to [`Inst::Accept`], or must not.
    Look {
        negated: bool,
        next: u32,
    },
    /// Records the position.
    Save(u32),
    /// Continues only if the position has moved since it was recorded.
    Moved(u32),
    /// Matches the text of the group with these two slots.
    Back {
        start: u32,
        end: u32,
        back: bool,
        any_case: bool,
    },
    Accept,
}

/// A condition at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    End,
    LineStart,
    LineEnd,
    Word,
    NotWord,
}

/// A set of characters.
#[derive(Debug, Clone)]
pub(super) enum Set {
    Char(char),
    Any,
    NotNewline,
    /// Sorted; the bits are the ASCII part.
    Ranges {
        ascii: u128,
        ranges: Box<[(char, char)]>,
    },
}

impl Set {
    pub(super) fn of(ranges: impl Iterator<Item = (char, char)>) -> Self {
        let ranges: Box<[(char, char)]> = ranges.collect();
        if let [(only, end)] = *ranges
            && only == end
        {
            return Self::Char(only);
        }
        let ascii = (0..128_u8)
            .filter(|byte| {
                let c = char::from(*byte);
                ranges.iter().any(|(start, end)| (*start..=*end).contains(&c))
            })
            .fold(0, |bits, byte| bits | 1 << byte);
        Self::Ranges { ascii, ranges }
    }

    pub(super) fn has(&self, c: char) -> bool {
        match self {
            Self::Char(only) => *only == c,
            Self::Any => true,
            Self::NotNewline => c != '\n',
            Self::Ranges { ascii, .. } if c.is_ascii() => ascii >> u32::from(c) & 1 == 1,
            Self::Ranges { ranges, .. } => {
                let at = ranges.partition_point(|(_, end)| *end < c);
                ranges.get(at).is_some_and(|(start, _)| *start <= c)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Char(_) | Self::Any | Self::NotNewline => 0,
            Self::Ranges { ranges, .. } => ranges.len(),
        }
    }
}
