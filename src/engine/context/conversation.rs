//! A conversation as its provider will read it: encoded pieces that never change, and the open end.
//!
//! It owns the split between the two. Everything up to the last assistant message is encoded once; the messages after it
//! (tool results, user messages) may still be merged with later ones, and are encoded for each call. It must never re-encode
//! a piece: the request for call n+1 begins with the bytes of call n (docs/rules/compaction.md#prompt-cache-stability).

use bytes::{Bytes, BytesMut};

use model::{HistoryTurn, Message, Role};
use provider::Provider;
use turn::estimate;
use turn::prefix::link;
use turn::prune::{self, Pruned};
use turn::transcript::{Dropped, Projector, Target, TranscriptError, join};

/// The encoded conversation of one session with one model.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    projector: Projector,
    pieces: Vec<Bytes>,
    open: Vec<Message>,
    tokens: u64,
    /// The part of them that servers count differently.
    uncertain: u64,
    /// The pruned messages by their index, and a link for each encoded message.
    pruned: Pruned,
    links: Vec<u64>,
    /// The compaction with which it begins; 0 for none.
    base: u64,
    /// The number of links before the running turn.
    before_turn: usize,
    /// The end of the request before the last answer: its distance from the end of the pieces in bytes, and in blocks.
    earlier: Option<(usize, usize)>,
}

impl Conversation {
    pub(crate) fn new(target: Target) -> Self {
        Self::pruned(target, 0, Pruned::new())
    }

    /// A conversation that begins with the compaction `base`, with some results pruned.
    pub(crate) fn pruned(target: Target, base: u64, pruned: Pruned) -> Self {
        Self {
            projector: Projector::new(target),
            pieces: Vec::new(),
            open: Vec::new(),
            tokens: 0,
            uncertain: 0,
            pruned,
            links: Vec::new(),
            base,
            before_turn: 0,
            earlier: None,
        }
    }

    /// Marks the beginning of the running turn.
    pub(crate) fn turn_begins(&mut self) {
        self.before_turn = self.links.len();
    }

    pub(crate) fn before_turn(&self) -> usize {
        self.before_turn
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn pruning(&self) -> &Pruned {
        &self.pruned
    }

    /// The end of the last request, in bytes before the end of the encoded pieces, if it is so many blocks ago that the
    /// provider may not find it, or if no block since can be marked.
    pub(crate) fn earlier_end(&self) -> Option<usize> {
        /// Anthropic searches 20 blocks, including the marked one.
        const BREAKPOINT_REACH: usize = 18;
        let (back, blocks) = self.earlier?;
        let open: usize = self.open.iter().map(|message| message.blocks.len()).sum();
        (self.open.is_empty() || blocks + open > BREAKPOINT_REACH).then_some(back)
    }

    /// A link for each message of the next request.
    pub(crate) fn links(&self) -> Vec<u64> {
        let open = self.open.iter().map(|message| link(message, None));
        self.links.iter().copied().chain(open).collect()
    }

    /// Whether it ends with a message to answer, and so may be sent.
    pub(crate) fn sendable(&self) -> Result<(), TranscriptError> {
        self.projector.sendable()
    }

    /// The parts of it that cannot be sent to this model.
    pub(crate) fn dropped(&self) -> Dropped {
        self.projector.dropped()
    }

    /// Its bytes in memory, for the cache's bound.
    pub(crate) fn size(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum::<usize>() + self.links.len() * size_of::<u64>()
    }

    /// An estimate of all its messages in their projected form.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The part of [`Self::tokens`] that is text, which servers count similarly.
    pub(crate) fn text_tokens(&self) -> u64 {
        self.tokens.saturating_sub(self.uncertain)
    }

    /// Appends a finished turn.
    pub(crate) fn push_turn(&mut self, turn: &HistoryTurn, provider: &dyn Provider) {
        let projected = self.projector.project_history(turn);
        self.append(projected, provider);
    }

    /// Appends a given history, which has no turns.
    pub(crate) fn push_flat<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a Message>,
        provider: &dyn Provider,
    ) {
        let projected = self.projector.project_flat(messages);
        self.append(projected, provider);
    }

    /// Like [`Self::push_flat`], for the rest of a history that was split where [`Self::can_be_split`] allows it, before an
    /// answer. False if no part of that answer is sent: then the parts do not equal the whole, and nothing was appended.
    pub(crate) fn push_rest<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a Message>,
        provider: &dyn Provider,
    ) -> bool {
        let projected = self.projector.project_flat(messages);
        let whole = projected.first().is_some_and(|first| first.role == Role::Assistant);
        if whole {
            self.append(projected, provider);
        }
        whole
    }

    /// Whether it ends with a user's message or with results. A history that is split there, before an answer, is projected,
    /// counted and encoded like one that is not: no call lacks its result, no fixed line closes the part, and no message is
    /// merged across the split. After results this is so only where the part is `plain`, without opaque blocks: a tool that
    /// the provider runs may have its result in the next answer.
    pub(crate) fn can_be_split(&self, plain: bool) -> bool {
        self.open
            .iter()
            .any(|message| message.role == Role::User || plain && message.role == Role::Tool)
    }

    /// The target of its projection.
    pub(crate) fn target(&self) -> &Target {
        self.projector.target()
    }

    /// Appends messages of the running turn.
    pub(crate) fn push_current(&mut self, messages: &[Message], provider: &dyn Provider) {
        let projected = self.projector.project_current(messages);
        self.append(projected, provider);
    }

    /// Appends messages of the running turn from before a compaction.
    pub(crate) fn push_edited(&mut self, messages: &[Message], provider: &dyn Provider) {
        let projected = self.projector.project_edited(messages);
        self.append(projected, provider);
    }

    fn append(&mut self, projected: Vec<Message>, provider: &dyn Provider) {
        self.tokens = self.tokens.saturating_add(estimate::message_tokens(&projected));
        for message in &projected {
            let uncertain = estimate::uncertain_tokens(&message.blocks);
            self.uncertain = self.uncertain.saturating_add(uncertain);
        }
        join(&mut self.open, projected);
        let Some(last) = self.open.iter().rposition(|message| message.role == Role::Assistant)
        else {
            return;
        };
        let rest = self.open.split_off(last + 1);
        let mut closed = std::mem::replace(&mut self.open, rest);
        for message in &mut closed {
            let index = (message.role == Role::Tool).then_some(self.links.len());
            let level = index.and_then(|at| self.pruned.get(&at)).copied();
            if let Some(level) = level {
                let whole = estimate::block_tokens(&message.blocks);
                *message = prune::apply(message, level);
                let saved = whole.saturating_sub(estimate::block_tokens(&message.blocks));
                self.tokens = self.tokens.saturating_sub(saved);
            }
            self.links.push(link(message, level));
        }
        // An answer is always a separate message, so its bytes are the same when it is encoded alone.
        let (question, answer) = closed.split_at(last);
        let ends = question.last().is_some_and(|message| message.role != Role::Assistant);
        let blocks: usize = answer.iter().map(|it| it.blocks.len()).sum();
        let continues = question.is_empty();
        let [question, answered] =
            [provider.encode_messages(question), provider.encode_messages(answer)];
        self.earlier = match self.earlier {
            // A paused answer that was continued adds no new message.
            Some(earlier) if continues && answered.is_empty() => Some(earlier),
            Some((back, before)) if continues => Some((back + answered.len() + 1, before + blocks)),
            _ => (ends && !question.is_empty() && !answered.is_empty())
                .then(|| (answered.len() + 1, blocks)),
        };
        for piece in [question, answered] {
            if !piece.is_empty() {
                self.push_piece(piece);
            }
        }
    }

    /// Appends a piece. Adjacent pieces of similar size are joined, so that a long conversation has few pieces, and each
    /// byte is copied a logarithmic number of times.
    fn push_piece(&mut self, mut piece: Bytes) {
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
    #[cfg(test)]
    pub(crate) fn pieces(&self, provider: &dyn Provider) -> Vec<Bytes> {
        self.request_pieces(provider).0
    }

    /// The pieces of a request, none empty, and whether the last one is the open end.
    pub(crate) fn request_pieces(&self, provider: &dyn Provider) -> (Vec<Bytes>, bool) {
        let mut pieces = self.pieces.clone();
        let mut open_end = false;
        if !self.open.is_empty() {
            let open = provider.encode_messages(&self.open);
            if !open.is_empty() {
                pieces.push(open);
                open_end = true;
            }
        }
        (pieces, open_end)
    }
}

#[cfg(test)]
mod tests;
