//! Why a transcript cannot be sent, and the failure that a run then ends with. It must never look at a message.

use model::{Failure, FailureKind};

/// Why a transcript cannot be sent (docs/rules/projection.md#refusal-to-send).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptError {
    /// Nothing is left of it.
    #[error("the conversation has no message with content; pass a message with text or an image")]
    Empty,
    /// It ends with a complete answer.
    #[error(
        "the conversation ends with the assistant's answer; pass a message with text or an image"
    )]
    NothingToAnswer,
}

impl TranscriptError {
    /// The failure a run ends with.
    pub fn to_failure(self) -> Failure {
        let code = match self {
            Self::Empty => "transcript_empty",
            Self::NothingToAnswer => "nothing_to_answer",
        };
        Failure::new(FailureKind::Format, code, self.to_string())
    }
}
