//! Projection: from what the ledger or the host has to what an API accepts (docs/rules/projection.md#passes).
//!
//! Pure, total, deterministic and idempotent. It works piece by piece, so that the encoded prefix of a session can be
//! kept. Its output must never be written back: the ledger keeps what was said, this is only how it is told.

mod clean;
mod ids;
mod merge;
mod pair;
mod provider_run;
mod reasoning;
mod report;
mod signature;
mod target;

pub use merge::join;
#[cfg(test)]
pub(crate) use merge::needs_merge;
pub use report::Dropped;
pub use target::Target;

use pair::Pairs;
use target::is_paused;

use model::{Block, Failure, FailureKind, HistoryTurn, Message, Role, TurnStatus};

/// Said for the user where a transcript would begin with the assistant.
const BOOTSTRAP: &str = "(The conversation continues from an earlier point.)";
/// Said for the assistant where a finished turn would end with tool results: every API then sees the turn closed, and
/// Anthropic does not take the next question for a part of the tool loop.
const CLOSED: &str = "[This turn ended here, without an answer.]";
/// Said for the assistant after tool results where the thinking that led to the calls is not there: Anthropic asks for it
/// inside a tool loop, so the loop ends here.
const HANDED_OVER: &str = "[The results above were asked for earlier.]";
/// Said for the user between two answers, and after one that is to be continued elsewhere.
const GO_ON: &str = "(Go on.)";

/// What a piece of a transcript is, and so what is kept of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
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
    fn is_interrupted(self) -> bool {
        self == Self::Interrupted
    }

    fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    fn is_edited(self) -> bool {
        matches!(self, Self::Completed { edited: true } | Self::Open { edited: true })
    }
}

/// Projects the pieces of one transcript, in order. Cloning it is keeping the place where a transcript can be continued.
#[derive(Debug, Clone)]
pub struct Projector {
    target: Target,
    pairs: Pairs,
    last: Last,
    place: Place,
    /// Whether the transcript may be sent as it stands.
    sendable: Result<(), TranscriptError>,
    dropped: Dropped,
}

/// Whose message stands last, host's messages aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nobody has spoken.
    Nothing,
    User,
    /// An answer; whether its own provider goes on from it.
    Answer {
        continues: bool,
        thinking: Thinking,
    },
    /// Results, after such an answer.
    Results {
        thinking: Thinking,
    },
}

/// What became of the thinking that led to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    /// It is there, or its turn is over.
    Kept,
    /// A compaction came since.
    Edited,
    /// Another model wrote the answer.
    Foreign,
}

/// Where a fixed line stands: what it takes of its neighbour.
#[derive(Debug, Clone, Default)]
struct Place {
    id: String,
    sequence: u32,
    created_at: i64,
}

impl Place {
    fn of(message: &Message) -> Self {
        Self { id: message.id.clone(), sequence: message.sequence, created_at: message.created_at }
    }
}

impl Projector {
    /// The start of a transcript for `target`.
    pub fn new(target: Target) -> Self {
        let pairs = Pairs::new(&target);
        Self {
            target,
            pairs,
            last: Last::Nothing,
            place: Place::default(),
            sendable: Err(TranscriptError::Empty),
            dropped: Dropped::default(),
        }
    }

    /// Whether the transcript may be sent as it stands (docs/rules/projection.md#refusal-to-send).
    ///
    /// # Errors
    /// Where every API would refuse it: it is empty, or asks nothing. An answer that paused may be continued by the run it
    /// paused in.
    pub fn sendable(&self) -> Result<(), TranscriptError> {
        self.sendable
    }

    /// What was left out so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// A finished turn of the history; compaction summaries are turns of one user message. `edited` says that a
    /// compaction came after it: what its thinking followed on is no longer there.
    pub fn project_turn(
        &mut self,
        status: TurnStatus,
        edited: bool,
        messages: &[Message],
    ) -> Vec<Message> {
        self.project(
            match status {
                TurnStatus::Completed => Piece::Completed { edited },
                TurnStatus::Streaming | TurnStatus::Aborted | TurnStatus::Failed => {
                    Piece::Interrupted
                }
            },
            messages,
        )
    }

    /// A turn of the history, what its own run said before a compaction as that run told it from there on.
    pub fn project_history(&mut self, turn: &HistoryTurn) -> Vec<Message> {
        let HistoryTurn { status, edited, edited_messages, messages, .. } = turn;
        if *edited || *edited_messages == 0 || *status != TurnStatus::Completed {
            return self.project_turn(*status, *edited, messages);
        }
        match messages.split_at_checked(*edited_messages) {
            Some((before, after)) if !after.is_empty() => {
                let mut told = self.project_edited(before);
                join(&mut told, self.project_turn(*status, false, after));
                told
            }
            Some(_) | None => self.project_turn(*status, true, messages),
        }
    }

    /// Messages of the running turn: all of them, or those since the last call of the model. A piece must not begin
    /// between a tool call and its results.
    pub fn project_current(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open { edited: false }, messages)
    }

    /// Messages of the running turn from before a compaction within it.
    pub fn project_edited(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open { edited: true }, messages)
    }

    /// A host's history, which has no turn borders.
    pub fn project_flat(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Completed { edited: false }, messages)
    }

    fn project(&mut self, piece: Piece, messages: &[Message]) -> Vec<Message> {
        let mut out = Vec::with_capacity(messages.len());
        let dropped = &mut self.dropped;
        let clean = messages
            .iter()
            .flat_map(|message| clean::message(&self.target, piece, message, dropped))
            .collect();
        for message in self.pairs.repair(&self.target, clean, piece, &mut self.dropped) {
            self.push(&mut out, piece, message);
        }
        if !piece.is_open()
            && let Some(last) = out.last_mut().filter(|last| is_paused(last))
            && let Last::Answer { continues, .. } = &mut self.last
        {
            // Its run is over: nobody goes on from it.
            last.provider_stop_reason = None;
            *continues = false;
        }
        let hands_over = self.target.wants_thinking_in_loops();
        match (self.last, out.last()) {
            (_, None) => {}
            (Last::Results { .. }, _) if !piece.is_open() => {
                self.say(&mut out, Role::Assistant, CLOSED);
            }
            (Last::Results { thinking: Thinking::Edited | Thinking::Foreign }, _) if hands_over => {
                self.say(&mut out, Role::Assistant, HANDED_OVER);
                self.say(&mut out, Role::User, GO_ON);
            }
            (Last::Answer { continues: false, .. }, Some(last))
                if piece.is_open() && is_paused(last) =>
            {
                self.say(&mut out, Role::User, GO_ON);
            }
            (Last::Nothing | Last::User | Last::Answer { .. } | Last::Results { .. }, Some(_)) => {}
        }
        if let Some(last) = out.last() {
            self.sendable = match (last.role, self.last) {
                (Role::User | Role::System | Role::Tool, _) => Ok(()),
                (Role::Assistant, Last::Answer { continues: true, .. }) if piece.is_open() => {
                    Ok(())
                }
                (Role::Assistant, _) => Err(TranscriptError::NothingToAnswer),
            };
        }
        out
    }

    /// Appends a message, and before it the fixed lines that must stand there.
    fn push(&mut self, out: &mut Vec<Message>, piece: Piece, message: Message) {
        let own = self.target.wrote(message.provenance.as_ref());
        let hands_over = match (self.last, message.role) {
            (Last::Results { thinking }, Role::User) => thinking != Thinking::Kept,
            (Last::Results { thinking }, Role::Assistant) => match thinking {
                Thinking::Kept => false,
                Thinking::Edited => own && !piece.is_edited(),
                Thinking::Foreign => own,
            },
            (Last::Results { .. }, Role::System | Role::Tool)
            | (Last::Nothing | Last::User | Last::Answer { .. }, _) => false,
        };
        if hands_over && self.target.wants_thinking_in_loops() {
            self.say(out, Role::Assistant, HANDED_OVER);
        }
        match (self.last, message.role) {
            (Last::Nothing, Role::Assistant | Role::Tool) => {
                self.place = Place::of(&message);
                self.say(out, Role::User, BOOTSTRAP);
            }
            (Last::Answer { continues: false, .. }, Role::Assistant) => {
                self.say(out, Role::User, GO_ON);
            }
            (
                Last::Nothing | Last::User | Last::Answer { .. } | Last::Results { .. },
                Role::User | Role::System | Role::Assistant | Role::Tool,
            ) => {}
        }
        self.last = match (message.role, self.last) {
            (Role::System, last) => last,
            (Role::User, _) => Last::User,
            (Role::Assistant, _) => Last::Answer {
                continues: self.target.continues(&message),
                thinking: match (own, piece.is_edited()) {
                    (false, _) => Thinking::Foreign,
                    (true, true) => Thinking::Edited,
                    (true, false) => Thinking::Kept,
                },
            },
            (Role::Tool, Last::Answer { thinking, .. } | Last::Results { thinking }) => {
                Last::Results { thinking }
            }
            (Role::Tool, Last::Nothing | Last::User) => {
                Last::Results { thinking: Thinking::Foreign }
            }
        };
        self.place = Place::of(&message);
        merge::push(out, message);
    }

    /// Appends a fixed line.
    fn say(&mut self, out: &mut Vec<Message>, role: Role, line: &str) {
        let place = self.place.clone();
        self.last = match role {
            Role::Assistant => Last::Answer { continues: false, thinking: Thinking::Foreign },
            Role::User | Role::System | Role::Tool => Last::User,
        };
        let message = Message {
            id: format!("{}:{}", place.id, role.as_str()),
            role,
            blocks: vec![Block::text(line)],
            sequence: place.sequence,
            created_at: place.created_at,
            provenance: None,
            provider_stop_reason: None,
        };
        merge::push(out, message);
    }
}

/// A whole transcript at once: what the pieces must add up to.
#[cfg(any(test, feature = "testing"))]
pub fn project_all(target: Target, turns: &[HistoryTurn], current: &[Message]) -> Vec<Message> {
    let mut projector = Projector::new(target);
    let mut out = Vec::new();
    for turn in turns {
        join(&mut out, projector.project_history(turn));
    }
    join(&mut out, projector.project_current(current));
    out
}

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

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validator;
