//! Projection: from what the ledger or the host has to what an API accepts (RULES §4).
//!
//! Pure, total, deterministic and idempotent. It works piece by piece, so that the encoded prefix of a session can be
//! kept. Its output must never be written back: the ledger keeps what was said, this is only how it is told.

mod clean;
mod ids;
mod merge;
mod pair;

pub(crate) use merge::join;
#[cfg(test)]
pub(crate) use merge::needs_merge;

use ids::WireIds;

use crate::model::{Api, Block, Failure, FailureKind, Message, Provenance, Role, TurnStatus};

/// Said for the user where a transcript would begin with the assistant.
const BOOTSTRAP: &str = "(The conversation continues from an earlier point.)";
/// Said for the assistant where a finished turn would end with tool results: every API then sees the turn closed, and
/// Anthropic does not take the next question for a part of the tool loop.
const CLOSED: &str = "[This turn ended here, without an answer.]";

/// Whom a transcript is for: what decides whether opaque values may be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The wire API.
    pub(crate) api: Api,
    /// The provider's name in the engine's options.
    pub(crate) provider: String,
    /// The model that is asked.
    pub(crate) model: String,
}

impl Target {
    fn wrote(&self, provenance: Option<&Provenance>) -> bool {
        provenance.is_some_and(|from| {
            from.provider == self.provider
                && from.api == self.api.as_str()
                && from.model == self.model
        })
    }
}

/// What a piece of a transcript is, and so what is kept of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A turn that ended by itself.
    Completed,
    /// A turn that was aborted, failed or torn: user messages, answered calls and partial text only (RULES §1).
    Interrupted,
    /// Messages of the running turn, or a history without turn borders.
    Open,
}

/// Projects the pieces of one transcript, in order. Cloning it is keeping the place where a transcript can be continued.
#[derive(Debug, Clone)]
pub(crate) struct Projector {
    target: Target,
    ids: WireIds,
    /// Whether a user message has opened the transcript.
    opened: bool,
}

impl Projector {
    /// The start of a transcript for `target`.
    pub(crate) fn new(target: Target) -> Self {
        let ids = WireIds::new(target.api);
        Self { target, ids, opened: false }
    }

    /// A finished turn of the history; compaction summaries are turns of one user message.
    pub(crate) fn project_turn(
        &mut self,
        status: TurnStatus,
        messages: &[Message],
    ) -> Vec<Message> {
        self.project(
            match status {
                TurnStatus::Completed => Piece::Completed,
                TurnStatus::Streaming | TurnStatus::Aborted | TurnStatus::Failed => {
                    Piece::Interrupted
                }
            },
            messages,
        )
    }

    /// Messages of the running turn: all of them, or those since the last call of the model. A piece must not begin
    /// between a tool call and its results.
    pub(crate) fn project_current(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open, messages)
    }

    /// A host's history, which has no turn borders.
    pub(crate) fn project_flat(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open, messages)
    }

    fn project(&mut self, piece: Piece, messages: &[Message]) -> Vec<Message> {
        let mut out = Vec::with_capacity(messages.len());
        let clean = messages
            .iter()
            .flat_map(|message| clean::message(&self.target, piece, message))
            .collect();
        for message in pair::repair(clean, piece, &mut self.ids) {
            if !self.opened && message.role != Role::System {
                self.opened = true;
                if message.role != Role::User {
                    out.push(spoken(Role::User, BOOTSTRAP, &message));
                }
            }
            merge::push(&mut out, message);
        }
        if piece != Piece::Open
            && let Some(last) = out.last()
            && last.role == Role::Tool
        {
            out.push(spoken(Role::Assistant, CLOSED, last));
        }
        out
    }
}

/// A fixed line, beside `near`.
fn spoken(role: Role, line: &str, near: &Message) -> Message {
    Message {
        id: format!("{}:{}", near.id, role.as_str()),
        role,
        blocks: vec![Block::text(line)],
        sequence: near.sequence,
        created_at: near.created_at,
        provenance: None,
        provider_stop_reason: None,
    }
}

/// A whole transcript at once: what the pieces must add up to.
#[cfg(test)]
pub(crate) fn project_all(
    target: Target,
    turns: &[crate::model::HistoryTurn],
    current: &[Message],
) -> Vec<Message> {
    let mut projector = Projector::new(target);
    let mut out = Vec::new();
    for turn in turns {
        join(&mut out, projector.project_turn(turn.status, &turn.messages));
    }
    join(&mut out, projector.project_current(current));
    out
}

/// Why a transcript cannot be sent (RULES §4, "Refusal to send").
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TranscriptError {
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
    pub(crate) fn to_failure(self) -> Failure {
        let code = match self {
            Self::Empty => "transcript_empty",
            Self::NothingToAnswer => "nothing_to_answer",
        };
        Failure::new(FailureKind::Format, code, self.to_string())
    }
}

/// Whether a transcript that ends with `last` may be sent.
///
/// # Errors
/// Where every API would refuse it: it is empty, or asks nothing. A paused answer may be continued.
pub(crate) fn sendable(last: Option<&Message>) -> Result<(), TranscriptError> {
    let last = last.ok_or(TranscriptError::Empty)?;
    let paused = last.provider_stop_reason.as_deref() == Some("pause_turn")
        || matches!(last.blocks.last(), Some(Block::Opaque { .. }));
    match last.role {
        Role::Assistant if !paused => Err(TranscriptError::NothingToAnswer),
        Role::User | Role::Assistant | Role::System | Role::Tool => Ok(()),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validator;
