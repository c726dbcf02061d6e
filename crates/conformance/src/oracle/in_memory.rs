//! The expected contents and answers of the ledger, in plain maps: a second, simple implementation of every rule.
//!
//! It must never read a file, nor share code with the ledger that it is compared with.

use std::collections::BTreeMap;

use model::{
    CallStep, CompactionCommit, CompactionResult, HistoryBase, Message, OnStaleHead, ReplayClass,
    StorageErrorKind, ToolCallRecord, ToolCallStatus, TurnEnd, TurnOpening, TurnStatus, TurnStep,
};

pub(super) type Answer<T> = Result<T, StorageErrorKind>;

/// A turn, ended or under way.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) parent: Option<String>,
    pub(super) session: String,
    pub(super) status: TurnStatus,
    pub(super) compaction: Option<CompactionResult>,
    pub(super) messages: Vec<Message>,
    pub(super) calls: Vec<Call>,
    /// The tokens of this turn only.
    pub(super) tokens: i64,
    pub(super) open: Option<Open>,
}

impl Turn {
    /// A running turn without written messages.
    fn new(session: &str) -> Self {
        Self {
            parent: None,
            session: session.to_owned(),
            status: TurnStatus::Streaming,
            compaction: None,
            messages: Vec::new(),
            calls: Vec::new(),
            tokens: 0,
            open: None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) row: ToolCallRecord,
    pub(super) replay: ReplayClass,
    pub(super) begun: bool,
}

/// The fields of a turn under way.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) epoch: i64,
    pub(super) expected: Option<String>,
    pub(super) iterations: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    pub(super) head: Option<String>,
    pub(super) epoch: i64,
    /// The turn that the process runs under the newest epoch.
    pub(super) runs: Option<String>,
    /// Whether the process may use the newest epoch again: its last turn was committed.
    idle: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) turns: BTreeMap<String, Turn>,
    pub(super) sessions: BTreeMap<String, Session>,
    /// All moves of all sessions, in order.
    pub(super) moves: Vec<(String, String)>,
}

/// The outcome of a request for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leased {
    Epoch(i64),
    Busy,
    Moved,
}

impl Memory {
    pub(super) fn head(&self, label: &str) -> Option<String> {
        self.sessions.get(label).and_then(|session| session.head.clone())
    }

    /// Whether only compactions lead from `expected` to `head`.
    pub(super) fn rebased(&self, head: Option<&str>, expected: Option<&str>) -> bool {
        let Some(turn) = head.and_then(|head| self.turns.get(head)) else { return false };
        let parent = turn.parent.as_deref();
        turn.compaction.is_some() && (parent == expected || self.rebased(parent, expected))
    }

    fn ended(&self, id: Option<&str>) -> Answer<()> {
        let Some(id) = id else { return Ok(()) };
        let there = self.turns.get(id).is_some_and(|turn| turn.open.is_none());
        if there { Ok(()) } else { Err(StorageErrorKind::UnknownTurn) }
    }

    fn check(&self, label: &str, turn_id: &str, epoch: i64) -> Answer<()> {
        let runs = |it: &Session| it.runs.as_deref() == Some(turn_id) && it.epoch == epoch;
        let own = self.sessions.get(label).is_some_and(runs);
        if own { Ok(()) } else { Err(StorageErrorKind::StaleWriter) }
    }

    fn point(&mut self, label: &str, to: &str) {
        let session = self.sessions.entry(label.to_owned()).or_default();
        session.head = Some(to.to_owned());
        self.moves.push((label.to_owned(), to.to_owned()));
    }

    fn take(&mut self, label: &str, turn_id: &str) -> i64 {
        let session = self.sessions.entry(label.to_owned()).or_default();
        session.epoch += 1;
        (session.runs, session.idle) = (Some(turn_id.to_owned()), false);
        session.epoch
    }

    pub(super) fn begin(&mut self, opening: &TurnOpening) -> Answer<Leased> {
        let TurnOpening { turn_id, header, messages, .. } = opening;
        let label = &header.session_label;
        if self.sessions.get(label).is_some_and(|session| session.runs.is_some()) {
            return Ok(Leased::Busy);
        }
        if self.head(label) != header.expected_head {
            return Ok(Leased::Moved);
        }
        self.ended(header.parent_turn_id.as_deref())?;
        self.sessions.entry(label.clone()).or_default();
        let session = self.sessions.get_mut(label).unwrap();
        if session.idle {
            // The next turn of the process has the same epoch.
            session.epoch -= 1;
        }
        let epoch = self.take(label, turn_id);
        let mut turn = Turn::new(label);
        turn.parent.clone_from(&header.parent_turn_id);
        turn.open = Some(Open { epoch, expected: header.expected_head.clone(), iterations: 0 });
        add_messages(&mut turn, messages);
        self.turns.insert(turn_id.clone(), turn);
        Ok(Leased::Epoch(epoch))
    }

    fn end(&mut self, turn: &TurnEnd, parent: Option<String>) {
        let new = Turn::new(&turn.header.session_label);
        let ended = self.turns.entry(turn.turn_id.clone()).or_insert(new);
        (ended.parent, ended.status, ended.open) = (parent, turn.status, None);
        ended.tokens = turn.usage.total_tokens.try_into().unwrap();
        add_messages(ended, &turn.messages);
        for row in &turn.tool_calls {
            add_call(ended, &CallStep { row: row.clone(), replay: None, arguments_hash: None });
        }
    }

    pub(super) fn record(&mut self, step: &TurnStep) -> Answer<()> {
        self.check(&step.session_label, &step.turn_id, step.epoch)?;
        let turn = self.turns.get_mut(&step.turn_id).unwrap();
        add_messages(turn, &step.messages);
        for call in &step.calls {
            add_call(turn, call);
        }
        turn.open.as_mut().unwrap().iterations = 1;
        Ok(())
    }

    /// The head after the commit, and whether the turn became a branch. `compaction` is the id of the compaction's own turn.
    pub(super) fn commit(
        &mut self,
        turn: &TurnEnd,
        compaction: Option<&str>,
    ) -> Answer<(Option<String>, bool)> {
        let label = &turn.header.session_label;
        if let Some(epoch) = turn.epoch {
            self.check(label, &turn.turn_id, epoch)?;
        }
        let head = self.head(label);
        let expected = turn.header.expected_head.as_deref();
        let (mut parent, mut moves, mut beside) =
            (turn.header.parent_turn_id.clone(), turn.move_pointer, false);
        if (moves || turn.compaction.is_some()) && head.as_deref() != expected {
            if self.rebased(head.as_deref(), expected) {
                if parent.as_deref() == expected {
                    parent.clone_from(&head);
                }
            } else if turn.on_stale_head == OnStaleHead::Beside && turn.compaction.is_none() {
                (moves, beside) = (false, true);
            } else {
                return Err(StorageErrorKind::StaleHead);
            }
        }
        self.ended(parent.as_deref())?;
        if turn.compaction.is_some() && parent.is_none() {
            return Err(StorageErrorKind::Constraint);
        }
        if turn.epoch.is_none() && self.turns.contains_key(&turn.turn_id) {
            return Err(StorageErrorKind::Constraint);
        }
        self.sessions.entry(label.clone()).or_default();
        if let (Some(result), Some(id)) = (&turn.compaction, compaction) {
            self.summary(label, id, parent.clone(), result);
            parent = Some(id.to_owned());
        }
        self.end(turn, parent);
        if moves {
            self.point(label, &turn.turn_id);
        }
        if turn.epoch.is_some() {
            let session = self.sessions.get_mut(label).unwrap();
            (session.runs, session.idle) = (None, true);
        }
        Ok((self.head(label), beside))
    }

    fn summary(
        &mut self,
        label: &str,
        id: &str,
        parent: Option<String>,
        result: &CompactionResult,
    ) {
        let tokens = result.summarization_input_tokens + result.summarization_output_tokens;
        let summary = Turn {
            parent,
            status: TurnStatus::Completed,
            compaction: Some(result.clone()),
            tokens: tokens.try_into().unwrap(),
            ..Turn::new(label)
        };
        self.turns.insert(id.to_owned(), summary);
        self.point(label, id);
    }

    pub(super) fn compact(&mut self, commit: &CompactionCommit) -> Answer<()> {
        let CompactionCommit { id, header, open_turn, compaction, .. } = commit;
        let label = &header.session_label;
        if let Some(lease) = open_turn {
            self.check(label, &lease.turn_id, lease.epoch)?;
        }
        if self.head(label) != header.expected_head {
            return Err(StorageErrorKind::StaleHead);
        }
        let parent = header.parent_turn_id.clone().ok_or(StorageErrorKind::UnknownTurn)?;
        self.ended(Some(&parent))?;
        self.summary(label, id, Some(parent), compaction);
        if let Some(lease) = open_turn {
            let running = self.turns.get_mut(&lease.turn_id).unwrap();
            running.parent = Some(id.clone());
            running.open.as_mut().unwrap().expected = Some(id.clone());
        }
        Ok(())
    }

    /// The head after it; `None` without a compaction.
    pub(super) fn uncompact(&mut self, label: &str) -> Answer<Option<String>> {
        let Some(session) = self.sessions.get(label) else {
            return Err(StorageErrorKind::UnknownSession);
        };
        if session.runs.is_some() {
            return Err(StorageErrorKind::Locked);
        }
        let chain = self.chain(session.head.as_deref());
        let last = chain.iter().rfind(|id| self.turns[*id].compaction.is_some());
        let before = last.and_then(|id| self.turns[id].parent.clone());
        if let Some(before) = &before {
            self.point(label, before);
        }
        Ok(before)
    }

    pub(super) fn fork(&mut self, turn: &str, label: &str) -> Answer<()> {
        self.ended(Some(turn))?;
        if self.sessions.contains_key(label) {
            return Err(StorageErrorKind::Constraint);
        }
        self.point(label, turn);
        Ok(())
    }

    /// Whether the pointer has moved.
    pub(super) fn move_session(
        &mut self,
        label: &str,
        turn: &str,
        expected: Option<&str>,
    ) -> Answer<bool> {
        let session = self.sessions.get(label).ok_or(StorageErrorKind::UnknownSession)?;
        self.ended(Some(turn))?;
        let of_label = |id: &String| self.turns[id].session == label;
        let pointed = self.moves.iter().filter(|(session, _)| session == label);
        let mut borrowed = pointed.map(|(_, id)| id).filter(|id| !of_label(id));
        let is_own = self.turns[turn].session == label;
        if !is_own && !borrowed.any(|id| self.chain(Some(id)).iter().any(|above| above == turn)) {
            return Err(StorageErrorKind::UnknownTurn);
        }
        if session.head.as_deref() == Some(turn) {
            return Ok(false);
        }
        if expected.is_some() && session.head.as_deref() != expected {
            return Err(StorageErrorKind::StaleHead);
        }
        if session.runs.is_some() {
            return Err(StorageErrorKind::Locked);
        }
        self.point(label, turn);
        Ok(true)
    }

    pub(super) fn release(&mut self, turn: &TurnEnd, epoch: i64) {
        let label = &turn.header.session_label;
        if self.check(label, &turn.turn_id, epoch).is_ok() {
            self.sessions.get_mut(label).unwrap().runs = None;
        }
    }

    pub(super) fn reopen(&mut self, id: &str) -> Answer<Leased> {
        let turn = self.turns.get(id).filter(|turn| turn.open.is_some());
        let label = turn.ok_or(StorageErrorKind::UnknownTurn)?.session.clone();
        if self.sessions[&label].runs.is_some() {
            return Ok(Leased::Busy);
        }
        let epoch = self.take(&label, id);
        self.turns.get_mut(id).unwrap().open.as_mut().unwrap().epoch = epoch;
        Ok(Leased::Epoch(epoch))
    }

    /// The process was killed: it no longer holds leases, and nothing else has changed.
    pub(super) fn kill(&mut self) {
        for session in self.sessions.values_mut() {
            (session.runs, session.idle) = (None, false);
        }
    }

    /// The turns from the root to `head`.
    pub(super) fn chain(&self, head: Option<&str>) -> Vec<String> {
        let Some(id) = head else { return Vec::new() };
        let mut chain = self.chain(self.turns[id].parent.as_deref());
        chain.push(id.to_owned());
        chain
    }

    pub(super) fn tokens(&self, id: &str) -> i64 {
        self.chain(Some(id)).iter().map(|id| self.turns[id].tokens).sum()
    }

    pub(super) fn has_children(&self, id: &str) -> bool {
        let mut ended = self.turns.values().filter(|turn| turn.open.is_none());
        ended.any(|turn| turn.parent.as_deref() == Some(id))
    }

    /// docs/rules/compaction.md#context-rule: the turns of the context at `head`, and whether a compaction has retained
    /// each.
    pub(super) fn context(&self, head: Option<&str>) -> Vec<(String, bool)> {
        let chain = self.chain(head);
        let compacted = chain.iter().rposition(|id| self.turns[id].compaction.is_some());
        let Some(at) = compacted else {
            return chain.into_iter().map(|id| (id, false)).collect();
        };
        let result = self.turns[&chain[at]].compaction.clone().unwrap();
        let index = |wanted: &str| chain[..at].iter().position(|id| id == wanted);
        let from = index(&result.first_kept_turn_id)
            .unwrap_or_else(|| index(&result.summarized_through_turn_id).unwrap() + 1);
        let retained = chain[from..at].iter().filter(|id| self.turns[*id].compaction.is_none());
        let mut context = vec![(chain[at].clone(), false)];
        context.extend(retained.map(|id| (id.clone(), true)));
        context.extend(chain[at + 1..].iter().map(|id| (id.clone(), false)));
        context
    }

    /// The turns of the context at `head` that a reader of `known` does not have.
    pub(super) fn new_turns(
        &self,
        head: Option<&str>,
        known: Option<&str>,
    ) -> (HistoryBase, Vec<(String, bool)>) {
        let context = self.context(head);
        // A reader cannot continue from a retained turn: the summary now precedes it, which the reader did not have.
        let found =
            context.iter().position(|(id, retained)| Some(id.as_str()) == known && !retained);
        match found {
            Some(index) => {
                let summary = index == 0 && self.turns[&context[0].0].compaction.is_some();
                let later = context[index + 1..].iter();
                // The retained turns follow the summary in the context, although they are older.
                let later = later.filter(|(_, retained)| !(summary && *retained));
                (HistoryBase::Known, later.cloned().collect())
            }
            None => (HistoryBase::Root, context),
        }
    }

    /// The open turns that no process runs.
    pub(super) fn interrupted(&self) -> Vec<&String> {
        let open = self.turns.iter().filter(|(id, turn)| {
            let open = turn.open.as_ref();
            open.is_some_and(|open| self.check(&turn.session, id, open.epoch).is_err())
        });
        open.map(|(id, _)| id).collect()
    }
}

fn add_messages(turn: &mut Turn, messages: &[Message]) {
    for message in messages {
        if !turn.messages.iter().any(|known| known.id == message.id) {
            turn.messages.push(message.clone());
        }
    }
    turn.messages.sort_by_key(|message| message.sequence);
}

fn add_call(turn: &mut Turn, step: &CallStep) {
    let begun = step.arguments_hash.is_some();
    let known = turn.calls.iter_mut().find(|call| call.row.call_id == step.row.call_id);
    match known {
        Some(call) => {
            call.row = step.row.clone();
            call.begun |= begun;
            call.replay = step.replay.unwrap_or(call.replay);
        }
        None => {
            let replay = step.replay.unwrap_or(ReplayClass::Unsafe);
            turn.calls.push(Call { row: step.row.clone(), replay, begun });
        }
    }
}

/// Whether a call of that status has an outcome.
pub(super) fn has_ended(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}
