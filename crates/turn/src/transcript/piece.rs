//! The kinds of pieces of a transcript. It must never hold messages.

/// The kind of a piece of a transcript, which decides the rules for its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A host's history, or a part of it: it has no turn borders.
    Given,
    /// A completed turn.
    Completed {
        /// A turn before a later compaction: the messages before it are not those that the model saw.
        edited: bool,
    },
    /// An aborted, failed or incomplete turn: user messages, answered calls and partial text only
    /// (docs/rules/projection.md#interrupted-turns).
    Interrupted,
    /// Messages of the running turn.
    Open {
        /// Messages of a finished turn.
        edited: bool,
    },
}

impl Piece {
    pub(super) fn is_interrupted(self) -> bool {
        self == Self::Interrupted
    }

    pub(super) fn is_given(self) -> bool {
        self == Self::Given
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    pub(super) fn is_edited(self) -> bool {
        matches!(self, Self::Completed { edited: true } | Self::Open { edited: true })
    }
}
