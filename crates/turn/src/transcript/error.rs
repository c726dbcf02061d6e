//! Why a transcript cannot be sent, and the failure of the run. It must never read a message.

use model::{Failure, FailureKind};

/// Why a transcript cannot be sent (docs/rules/projection.md#refusal-to-send).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptError {
    /// No message remains.
    #[error("the conversation has no message with content; pass a message with text or an image")]
    Empty,
    /// It ends with a complete answer.
    #[error(
        "the conversation ends with the assistant's answer; pass a message with text or an image"
    )]
    NothingToAnswer,
}

impl TranscriptError {
    /// The failure of the run.
    pub fn to_failure(self) -> Failure {
        let code = match self {
            Self::Empty => "transcript_empty",
            Self::NothingToAnswer => "nothing_to_answer",
        };
        Failure::new(FailureKind::Format, code, self.to_string())
    }
}
