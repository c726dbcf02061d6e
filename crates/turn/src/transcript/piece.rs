//! What kind of piece of a transcript is projected. It must never hold messages.

/// What a piece of a transcript is, and so what stays of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A turn that ended by itself, or a history without turn borders.
    Completed {
        /// A compaction came since: what is before it now is not what the model saw.
        edited: bool,
    },
    /// A turn that was aborted, failed or torn: user messages, answered calls and partial text only (docs/rules/projection.md#interrupted-turns).
    Interrupted,
    /// Messages of the running turn.
    Open {
        /// As of a finished turn.
        edited: bool,
    },
}

impl Piece {
    pub(super) fn is_interrupted(self) -> bool {
        self == Self::Interrupted
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    pub(super) fn is_edited(self) -> bool {
        matches!(self, Self::Completed { edited: true } | Self::Open { edited: true })
    }
}
