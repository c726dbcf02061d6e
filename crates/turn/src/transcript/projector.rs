//! Projects the pieces of one transcript, in order, and adds the fixed lines that an API needs between them.
//!
//! It must never write its output back: the ledger stores the original messages.

use super::clean;
use super::error::TranscriptError;
use super::merge::{self, join};
use super::pair::Pairs;
use super::piece::Piece;
use super::report::Dropped;
use super::target::{Target, is_paused};
use model::{Block, HistoryTurn, Message, Role, TurnStatus};

/// The user's line if a transcript would begin with the assistant.
const BOOTSTRAP: &str = "(The conversation continues from an earlier point.)";
/// The assistant's line if a finished turn, or a history before a question, would end with tool results: it closes the turn for every API, and Anthropic
/// does not treat the next question as a part of the tool loop.
const CLOSED: &str = "[This turn ended here, without an answer.]";
/// The assistant's line after tool results if the thinking before the calls is missing: Anthropic requires it inside a
/// tool loop, so this line ends the loop.
const LOOP_ENDED: &str = "[The results above were requested earlier.]";
/// The user's line between two answers, and after an answer that another model continues.
const GO_ON: &str = "(Go on.)";

/// Projects the pieces of one transcript, in order. A clone is a point at which the transcript can be continued.
#[derive(Debug, Clone)]
pub struct Projector {
    target: Target,
    pairs: Pairs,
    last: Last,
    /// A host's history ends with results so far: the running turn may go on with an answer, anything else is after its end.
    unclosed: bool,
    anchor: Anchor,
    /// Whether the transcript may be sent now.
    sendable: Result<(), TranscriptError>,
    dropped: Dropped,
}

/// The author of the last message, system messages excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// There is no message.
    Nothing,
    User,
    /// An answer; whether its own provider continues it.
    Answer {
        continues: bool,
        thinking: Thinking,
    },
    /// Tool results; whether their answer has that property.
    Results {
        thinking: Thinking,
    },
}

/// The state of the thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    /// It is present, or its turn has ended.
    Present,
    /// A compaction came after it.
    Edited,
    /// Another model wrote the answer.
    Foreign,
}

/// Where a fixed line is inserted: it takes the position data of its neighbour.
#[derive(Debug, Clone, Default)]
struct Anchor {
    id: String,
    sequence: u32,
    created_at: i64,
}

impl Anchor {
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
            unclosed: false,
            anchor: Anchor::default(),
            sendable: Err(TranscriptError::Empty),
            dropped: Dropped::default(),
        }
    }

    /// Whom the transcript is for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Checks that the transcript may be sent now (docs/rules/projection.md#refusal-to-send).
    ///
    /// # Errors
    /// Every API would refuse it: it is empty, or ends with an answer. A paused answer may be continued by the run it paused
    /// in.
    pub fn sendable(&self) -> Result<(), TranscriptError> {
        self.sendable
    }

    /// What was left out so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Adds a finished turn of the history; a compaction summary is a turn of one user message. `edited` means that a
    /// compaction came after it: the messages before its thinking are missing.
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

    /// Adds a turn of the history; messages before a compaction within it are projected as its own run projected them.
    pub fn project_history(&mut self, turn: &HistoryTurn) -> Vec<Message> {
        let HistoryTurn { status, edited, edited_messages, messages, .. } = turn;
        if *edited || *edited_messages == 0 || *status != TurnStatus::Completed {
            return self.project_turn(*status, *edited, messages);
        }
        match messages.split_at_checked(*edited_messages) {
            Some((before, after)) if !after.is_empty() => {
                let mut projected = self.project_edited(before);
                join(&mut projected, self.project_turn(*status, false, after));
                projected
            }
            Some(_) | None => self.project_turn(*status, true, messages),
        }
    }

    /// Adds messages of the running turn: all of them, or those since the last call of the model. A piece must not begin
    /// between a tool call and its results.
    pub fn project_current(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open { edited: false }, messages)
    }

    /// Adds messages of the running turn from before a compaction within it.
    pub fn project_edited(&mut self, messages: &[Message]) -> Vec<Message> {
        self.project(Piece::Open { edited: true }, messages)
    }

    /// Adds a host's history, which has no turn borders, or its next part: one that begins with an answer.
    pub fn project_flat<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a Message>,
    ) -> Vec<Message> {
        self.project(Piece::Given, messages)
    }

    fn project<'a>(
        &mut self,
        piece: Piece,
        messages: impl IntoIterator<Item = &'a Message>,
    ) -> Vec<Message> {
        let dropped = &mut self.dropped;
        let clean: Vec<Message> = messages
            .into_iter()
            .flat_map(|message| clean::message(&self.target, piece, message, dropped))
            .collect();
        let mut out = Vec::with_capacity(clean.len());
        for message in self.pairs.repair(&self.target, clean, piece, &mut self.dropped) {
            let goes_on = piece.is_given() || piece.is_open() && message.role == Role::Assistant;
            if std::mem::take(&mut self.unclosed) && !goes_on {
                self.push_line(&mut out, Role::Assistant, CLOSED);
            }
            self.push(&mut out, piece, message);
        }
        if !piece.is_open()
            && let Some(last) = out.last_mut().filter(|last| is_paused(last))
            && let Last::Answer { continues, .. } = &mut self.last
        {
            // Its run has ended: it is not continued.
            last.provider_stop_reason = None;
            *continues = false;
        }
        let ends_loop = self.target.requires_thinking_in_loops();
        match (self.last, out.last()) {
            (_, None) => {}
            (Last::Results { .. }, _) if piece.is_given() => self.unclosed = true,
            (Last::Results { .. }, _) if !piece.is_open() => {
                self.push_line(&mut out, Role::Assistant, CLOSED);
            }
            (Last::Results { thinking: Thinking::Edited | Thinking::Foreign }, _) if ends_loop => {
                self.push_line(&mut out, Role::Assistant, LOOP_ENDED);
                self.push_line(&mut out, Role::User, GO_ON);
            }
            (Last::Answer { continues: false, .. }, Some(last))
                if piece.is_open() && is_paused(last) =>
            {
                self.push_line(&mut out, Role::User, GO_ON);
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

    /// Appends a message, after the fixed lines that must precede it.
    fn push(&mut self, out: &mut Vec<Message>, piece: Piece, message: Message) {
        let own = self.target.wrote(message.provenance.as_ref());
        let ends_loop = match (self.last, message.role) {
            (Last::Results { thinking }, Role::User) => thinking != Thinking::Present,
            (Last::Results { thinking }, Role::Assistant) => match thinking {
                Thinking::Present => false,
                Thinking::Edited => own && !piece.is_edited(),
                Thinking::Foreign => own,
            },
            (Last::Results { .. }, Role::System | Role::Tool)
            | (Last::Nothing | Last::User | Last::Answer { .. }, _) => false,
        };
        if ends_loop && self.target.requires_thinking_in_loops() {
            self.push_line(out, Role::Assistant, LOOP_ENDED);
        }
        match (self.last, message.role) {
            (Last::Nothing, Role::Assistant | Role::Tool) => {
                self.anchor = Anchor::of(&message);
                self.push_line(out, Role::User, BOOTSTRAP);
            }
            (Last::Answer { continues: false, .. }, Role::Assistant) => {
                self.push_line(out, Role::User, GO_ON);
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
                    (true, false) => Thinking::Present,
                },
            },
            (Role::Tool, Last::Answer { thinking, .. } | Last::Results { thinking }) => {
                Last::Results { thinking }
            }
            (Role::Tool, Last::Nothing | Last::User) => {
                Last::Results { thinking: Thinking::Foreign }
            }
        };
        self.anchor = Anchor::of(&message);
        merge::push(out, message);
    }

    /// Appends a fixed line.
    fn push_line(&mut self, out: &mut Vec<Message>, role: Role, line: &str) {
        let anchor = self.anchor.clone();
        self.last = match role {
            Role::Assistant => Last::Answer { continues: false, thinking: Thinking::Foreign },
            Role::User | Role::System | Role::Tool => Last::User,
        };
        let message = Message {
            id: format!("{}:{}", anchor.id, role.as_str()),
            role,
            blocks: vec![Block::text(line)],
            sequence: anchor.sequence,
            created_at: anchor.created_at,
            provenance: None,
            provider_stop_reason: None,
        };
        merge::push(out, message);
    }
}

/// Projects a whole transcript in one step: the pieces must give the same result.
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
