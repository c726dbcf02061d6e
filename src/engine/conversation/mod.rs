//! A conversation as its provider will read it: encoded pieces that never change, and the open end.
//!
//! It owns the split between the two. Everything up to the last assistant message is encoded once and kept; what follows
//! (tool results, user messages) may still be merged with what comes, and is encoded for each call. It must never
//! re-encode a piece: the request for call n+1 begins with the bytes of call n (RULES §3, prompt-cache stability).

use bytes::{Bytes, BytesMut};

use crate::model::{HistoryTurn, Message, Role};
use crate::provider::Provider;
use crate::turn::transcript::{Projector, Target, TranscriptError, join, sendable};

/// The encoded conversation of one session with one model.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    projector: Projector,
    pieces: Vec<Bytes>,
    open: Vec<Message>,
    /// Whether the conversation as it stands asks something (RULES §4, "Refusal to send").
    sendable: Result<(), TranscriptError>,
}

impl Conversation {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            projector: Projector::new(target),
            pieces: Vec::new(),
            open: Vec::new(),
            sendable: sendable(None),
        }
    }

    /// Whether it may be sent.
    pub(crate) fn sendable(&self) -> Result<(), TranscriptError> {
        self.sendable
    }

    /// Bytes held, for the cache's bound.
    pub(crate) fn size(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Appends a finished turn.
    pub(crate) fn push_turn(&mut self, turn: &HistoryTurn, provider: &dyn Provider) {
        let projected = self.projector.project_turn(turn.status, &turn.messages);
        self.append(projected, provider);
    }

    /// Appends a history without turns, as a host gives it.
    pub(crate) fn push_flat(&mut self, messages: &[Message], provider: &dyn Provider) {
        let projected = self.projector.project_flat(messages);
        self.append(projected, provider);
    }

    /// Appends messages of the running turn.
    pub(crate) fn push_current(&mut self, messages: &[Message], provider: &dyn Provider) {
        let projected = self.projector.project_current(messages);
        self.append(projected, provider);
    }

    fn append(&mut self, projected: Vec<Message>, provider: &dyn Provider) {
        if let Some(last) = projected.last() {
            self.sendable = sendable(Some(last));
        }
        join(&mut self.open, projected);
        let Some(last) = self.open.iter().rposition(|message| message.role == Role::Assistant)
        else {
            return;
        };
        let rest = self.open.split_off(last + 1);
        let closed = std::mem::replace(&mut self.open, rest);
        let piece = provider.encode_messages(&closed);
        if !piece.is_empty() {
            self.keep(piece);
        }
    }

    /// Keeps a piece. Neighbours of like size are joined, so that there are few pieces however long the conversation, and
    /// a byte is copied a logarithmic number of times over its life.
    fn keep(&mut self, mut piece: Bytes) {
        while let Some(last) = self.pieces.pop_if(|last| last.len() <= 2 * piece.len()) {
            let mut joined = BytesMut::with_capacity(last.len() + 1 + piece.len());
            joined.extend_from_slice(&last);
            joined.extend_from_slice(b",");
            joined.extend_from_slice(&piece);
            piece = joined.freeze();
        }
        self.pieces.push(piece);
    }

    /// The pieces of a request, none empty.
    pub(crate) fn pieces(&self, provider: &dyn Provider) -> Vec<Bytes> {
        let mut pieces = self.pieces.clone();
        if !self.open.is_empty() {
            let open = provider.encode_messages(&self.open);
            if !open.is_empty() {
                pieces.push(open);
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
