//! Applies a sequence to the ledger and to the model, and compares the answers; `compare` compares the contents.
//!
//! It must never pass an answer of the ledger to the model, except ids that the ledger generates.

use std::cell::RefCell;

use proptest::prelude::*;

use super::compare;
use super::in_memory::{self, Leased, Memory, has_ended};
use super::steps::{Ends, Position, Step};
use super::tally::Tally;
use crate::store::{Fixture, ProcessEnd};
use crate::turns::{compacting, compaction, opening, raw, release, step, turn};
use model::{
    Block, CommitReceipt, LedgerCheck, LedgerPorts, Message, Opened, StorageError,
    StorageErrorKind, ToolCallStatus, TurnEnd,
};

/// A run in the view of its engine, which may have lost its lease.
struct Run {
    turn: TurnEnd,
    epoch: i64,
    /// The last written commit point: 0 after W0, 3 after W3.
    stage: usize,
}

struct Replay {
    fixture: Fixture,
    memory: Memory,
    runs: Vec<Run>,
    turns: usize,
    done: Vec<&'static str>,
}

fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number.checked_rem(all.len())?)
}

/// A turn with this id; every seventh one has the same values, which are too large for a row.
fn made(id: &str, label: &str, parent: Option<&str>) -> TurnEnd {
    let mut made = turn(id, label, parent);
    if !id.trim_start_matches('t').parse::<usize>().is_ok_and(|number| number % 7 == 3) {
        return made;
    }
    let text = "\n\"row\" ".repeat(10_000);
    made.messages[0].blocks.push(Block::text(text.clone()));
    for block in made.messages.iter_mut().flat_map(|message| &mut message.blocks) {
        if let Block::ToolResult { content, .. } = block {
            *content = vec![Block::text(text.clone())];
        }
    }
    made.tool_calls[0].result = Some(raw(&serde_json::json!([text]).to_string()));
    made
}

pub(super) async fn replay(
    fixture: Fixture,
    steps: Vec<Step>,
    tally: &RefCell<Tally>,
) -> Result<(), TestCaseError> {
    let mut replay =
        Replay { fixture, memory: Memory::default(), runs: Vec::new(), turns: 0, done: Vec::new() };
    for step in steps {
        replay.step(step).await?;
    }
    compare::all(&replay.fixture, &replay.memory).await?;
    // After every sequence of writes, the checksum of every row matches its values. The steps invent counts of calls and
    // figures of compactions, so those checks are excluded.
    let mut problems = replay.fixture.ledger.admin.verify().await.unwrap().problems;
    problems.retain(|it| matches!(it.check, LedgerCheck::Checksum | LedgerCheck::Integrity));
    prop_assert_eq!(problems, []);
    replay.next_process(ProcessEnd::Killed).await?;
    for what in replay.done {
        *tally.borrow_mut().entry(what).or_default() += 1;
    }
    Ok(())
}

impl Replay {
    /// A run by its number; usually one that holds its session's lease.
    fn run_at(&self, number: usize) -> Option<usize> {
        let holds = |index: &usize| {
            let run = &self.runs[*index];
            let session = &self.memory.sessions[&run.turn.header.session_label];
            session.runs.as_deref() == Some(run.turn.turn_id.as_str()) && session.epoch == run.epoch
        };
        let mut indexes: Vec<_> = (0..self.runs.len()).collect();
        if !number.is_multiple_of(4) {
            indexes.retain(holds);
        }
        pick(&indexes, number / 4).copied()
    }

    fn did<T>(&mut self, what: &'static str, answer: &in_memory::Answer<T>) {
        if answer.is_ok() {
            self.done.push(what);
        }
    }

    fn ledger(&self) -> &LedgerPorts {
        &self.fixture.ledger
    }

    fn turn_at(&self, number: usize) -> Option<String> {
        let ids: Vec<_> = self.memory.turns.keys().collect();
        pick(&ids, number).map(|id| (*id).clone())
    }

    /// A turn at `at`, with a new id.
    fn make(&mut self, at: Position) -> TurnEnd {
        let label = format!("s{}", at.session);
        let id = format!("t{:03}", self.turns);
        self.turns += 1;
        let head = self.memory.head(&label);
        // If the parent is not the head, it is usually the head's parent.
        let before = head.as_ref().and_then(|head| self.memory.turns[head].parent.clone());
        let expected = match at.off {
            None => head,
            Some(off) if off.is_multiple_of(4) => self.turn_at(off),
            Some(_) => before,
        };
        let parent = at.beside.map_or_else(|| expected.clone(), |other| self.turn_at(other));
        let mut made = made(&id, &label, parent.as_deref());
        made.header.expected_head = expected;
        made
    }

    /// The last summarised and the first retained turn of a compaction after `before`; `next` is the first retained one if
    /// no earlier turn is.
    fn cut(&self, before: &str, cut: usize, next: Option<&str>) -> Option<(String, String)> {
        if self.memory.turns.get(before).is_none_or(|turn| turn.open.is_some()) {
            return None;
        }
        let context = self.memory.context(Some(before));
        let mut turns = context.into_iter().map(|(id, _)| id);
        let mut turns: Vec<_> =
            turns.by_ref().filter(|id| self.memory.turns[id].compaction.is_none()).collect();
        turns.extend(next.map(ToOwned::to_owned));
        let index = cut.checked_rem(turns.len().checked_sub(1)?)?;
        Some((turns[index].clone(), turns[index + 1].clone()))
    }

    /// Reads the id of a summary's message, which the ledger generates.
    async fn learn_summary(&mut self, id: &str) {
        let row = self.ledger().journal.history("", Some(id), None).await.unwrap();
        let turn = self.memory.turns.get_mut(id).unwrap();
        turn.messages.clone_from(&row.turns[0].messages);
        let texts: Vec<_> = turn.messages.iter().map(Message::content).collect();
        assert_eq!(texts, ["[Previous conversation summary]:\n\nwhat was said"]);
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Commit { at, ends, compacts } => self.commit(at, ends, compacts).await,
            Step::WriteTurn { session, parent } => self.write_turn(session, parent).await,
            Step::Duplicate { turn: taken } => {
                let Some(id) = self.turn_at(taken) else { return Ok(()) };
                let commit = turn(&id, "duplicate", None);
                let answer = self.ledger().journal.commit(Box::new(commit.clone())).await;
                let expected = self.memory.commit(&commit, None).map(drop);
                prop_assert_eq!(answer.map(drop).map_err(|error| error.kind), expected);
                Ok(())
            }
            Step::Begin { at } => self.begin(at).await,
            Step::Record { run, repeats } => self.record(run, repeats).await,
            Step::End { run, ends } => self.end(run, ends).await,
            Step::Compact { run, session, cut } => self.compact(run, session, cut).await,
            Step::Uncompact { session } => {
                let label = format!("s{session}");
                let answer = self.ledger().admin.uncompact(&label).await;
                let answer = answer.map(|row| row.and_then(|row| row.thread_id));
                let expected = self.memory.uncompact(&label);
                if matches!(expected, Ok(Some(_))) {
                    self.did("uncompact", &expected);
                }
                prop_assert_eq!(answer.map_err(|error| error.kind), expected);
                Ok(())
            }
            Step::Fork { turn, label } => {
                let id = self.turn_at(turn).unwrap_or_else(|| "nowhere".to_owned());
                let label = format!("s{label}");
                let answer = self.ledger().admin.fork(&id, Some(&label)).await;
                let answer = answer.map(|row| row.thread_id).map_err(|error| error.kind);
                let expected = self.memory.fork(&id, &label);
                self.did("fork", &expected);
                prop_assert_eq!(answer, expected.map(|()| Some(id)));
                Ok(())
            }
            Step::Move { turn, label, off } => self.move_session(turn, label, off).await,
            Step::Release { run } => {
                if let Some(run) = self.run_at(run).map(|index| &self.runs[index]) {
                    release(&self.fixture.ledger, &run.turn, run.epoch);
                    self.memory.release(&run.turn, run.epoch);
                }
                Ok(())
            }
            Step::Reopen { turn } => self.reopen(turn).await,
            Step::Index => {
                self.fixture.store.catch_up().await;
                Ok(())
            }
            Step::Close => self.next_process(ProcessEnd::Closed).await,
            Step::Crash => self.next_process(ProcessEnd::Killed).await,
        }
    }

    async fn move_session(
        &mut self,
        turn: usize,
        label: usize,
        off: Option<usize>,
    ) -> Result<(), TestCaseError> {
        let label = format!("s{label}");
        let id = self.turn_at(turn).unwrap_or_else(|| "nowhere".to_owned());
        let head = self.memory.head(&label);
        let from = off.map_or_else(|| head.clone(), |other| self.turn_at(other));
        let answer = self.ledger().admin.move_session(&label, &id, from.as_deref()).await;
        let expected = self.memory.move_session(&label, &id, from.as_deref());
        match &expected {
            Ok(false) => self.done.push("move to the head"),
            Err(StorageErrorKind::Locked) => self.done.push("move, busy"),
            Err(StorageErrorKind::StaleHead) => self.done.push("move, stale"),
            other => self.did("move", other),
        }
        prop_assert_eq!(
            answer.map(|row| row.thread_id).map_err(|error| error.kind),
            expected.map(|_| Some(id))
        );
        Ok(())
    }

    async fn commit(
        &mut self,
        at: Position,
        ends: Ends,
        compacts: Option<usize>,
    ) -> Result<(), TestCaseError> {
        let mut commit = self.make(at);
        (commit.status, commit.move_pointer, commit.on_stale_head) =
            (ends.status, ends.moves, ends.on_stale_head);
        if let (Some(cut), Some(parent)) = (compacts, commit.header.parent_turn_id.clone()) {
            let cut = self.cut(&parent, cut, Some(&commit.turn_id));
            // If the head has moved to a compaction of the parent, a compaction would start from a turn that the run has not
            // read.
            let rebases =
                self.memory.head(&commit.header.session_label) != commit.header.expected_head;
            if let Some((through, retained)) = cut.filter(|_| !rebases) {
                commit.compaction = Some(compaction(&through, &retained));
            }
        }
        let answer = self.ledger().journal.commit(Box::new(commit.clone())).await;
        let mut made = None;
        if commit.compaction.is_some() && answer.is_ok() {
            made = self.ledger().read.turn(&commit.turn_id).await.unwrap().unwrap().parent_turn_id;
        }
        let rebases = self.memory.head(&commit.header.session_label) != commit.header.expected_head;
        let expected = self.memory.commit(&commit, made.as_deref());
        match &expected {
            Ok((_, true)) => self.done.push("commit beside"),
            Ok(_) if commit.compaction.is_some() => self.done.push("commit with compaction"),
            Ok(_) if rebases && commit.move_pointer => self.done.push("commit rebased"),
            other => self.did("commit", other),
        }
        prop_assert_eq!(facts(answer), expected);
        if let Some(id) = made {
            self.learn_summary(&id).await;
        }
        Ok(())
    }

    async fn write_turn(
        &mut self,
        session: usize,
        parent: Option<usize>,
    ) -> Result<(), TestCaseError> {
        let mut written = self.make(Position { session, off: None, beside: None });
        let head = self.memory.head(&written.header.session_label);
        written.header.parent_turn_id = parent.and_then(|parent| self.turn_at(parent));
        let answer = self.ledger().admin.write_turn(written.clone()).await;
        // It follows the turn that it names, or the head. Its parent must be the head, if the session has one.
        written.header.parent_turn_id = written.header.parent_turn_id.or_else(|| head.clone());
        written.header.expected_head = head.and(written.header.parent_turn_id.clone());
        let expected = self.memory.commit(&written, None);
        self.did("write a turn", &expected);
        prop_assert_eq!(facts(answer), expected);
        Ok(())
    }

    async fn begin(&mut self, at: Position) -> Result<(), TestCaseError> {
        let turn = self.make(at);
        let opening = opening(&turn);
        let expected = self.memory.begin(&opening);
        if let Ok(Leased::Busy) = expected {
            self.done.push("begin, busy");
        } else if let Ok(Leased::Epoch(_)) = expected {
            self.done.push("begin");
        }
        let answer = self.ledger().journal.begin(opening).await;
        if let Ok(Opened::Leased(epoch)) = &answer {
            self.runs.push(Run { turn, epoch: *epoch, stage: 0 });
        }
        prop_assert_eq!(answer.map(leased).map_err(|error| error.kind), expected);
        Ok(())
    }

    async fn record(&mut self, run: usize, repeats: bool) -> Result<(), TestCaseError> {
        let Some(index) = self.run_at(run) else { return Ok(()) };
        let run = &mut self.runs[index];
        let stage = if repeats { run.stage } else { (run.stage + 1).min(3) };
        let (messages, status) = match stage {
            0 => return Ok(()),
            1 => (0..2, ToolCallStatus::Pending),
            2 => (1..2, ToolCallStatus::Running),
            _ => (1..3, ToolCallStatus::Completed),
        };
        let step = step(&run.turn, run.epoch, messages, status);
        let expected = self.memory.record(&step);
        if expected.is_ok() {
            run.stage = stage;
        }
        let answer = self.fixture.ledger.journal.record(step).await;
        self.did("record", &expected);
        if expected == Err(StorageErrorKind::StaleWriter) {
            self.done.push("record, stale");
        }
        prop_assert_eq!(answer.map_err(|error| error.kind), expected);
        Ok(())
    }

    async fn end(&mut self, run: usize, ends: Ends) -> Result<(), TestCaseError> {
        let Some(index) = self.run_at(run) else { return Ok(()) };
        let Run { turn, epoch, stage } = &self.runs[index];
        let mut ended = Box::new(turn.clone());
        ended.messages.drain(..[1, 2, 2, 3][*stage]);
        if *stage == 3 {
            ended.tool_calls.clear();
        }
        ended.epoch = Some(*epoch);
        (ended.status, ended.move_pointer, ended.on_stale_head) =
            (ends.status, ends.moves, ends.on_stale_head);
        let rebases = self.memory.head(&ended.header.session_label) != ended.header.expected_head;
        let expected = self.memory.commit(&ended, None);
        match &expected {
            Ok((_, true)) => self.done.push("end beside"),
            Ok(_) if rebases && ends.moves => self.done.push("end rebased"),
            other => self.did("end", other),
        }
        let answer = self.ledger().journal.commit(ended).await;
        prop_assert_eq!(facts(answer), expected);
        Ok(())
    }

    async fn compact(
        &mut self,
        run: Option<usize>,
        session: usize,
        cut: usize,
    ) -> Result<(), TestCaseError> {
        let index = run.and_then(|run| self.run_at(run));
        // A compaction without a run; usually another run is under way, whose turn then follows the summary.
        let label = pick(&self.runs, cut).map(|run| run.turn.header.session_label.clone());
        let session = label.map_or(session, |label| usize::from(label.ends_with('1')));
        let made = self.make(Position { session, off: None, beside: None });
        let id = format!("c{:03}", self.turns);
        let run = index.and_then(|index| self.runs.get(index));
        let (turn, epoch) = run.map_or((&made, None), |run| (&run.turn, Some(run.epoch)));
        let Some(before) = turn.header.parent_turn_id.clone() else { return Ok(()) };
        let next = epoch.map(|_| turn.turn_id.as_str());
        let Some((through, retained)) = self.cut(&before, cut, next) else { return Ok(()) };
        let commit = compacting(&id, turn, epoch, compaction(&through, &retained));
        let expected = self.memory.compact(&commit);
        self.did(if index.is_some() { "compact in a run" } else { "compact" }, &expected);
        let answer = self.ledger().journal.compact(commit).await;
        prop_assert_eq!(answer.map_err(|error| error.kind), expected);
        if expected.is_ok() {
            if let Some(run) = index.and_then(|index| self.runs.get_mut(index)) {
                run.turn.header.parent_turn_id = Some(id.clone());
                run.turn.header.expected_head = Some(id.clone());
            }
            self.learn_summary(&id).await;
        }
        Ok(())
    }

    async fn reopen(&mut self, number: usize) -> Result<(), TestCaseError> {
        let open: Vec<_> =
            self.memory.turns.iter().filter(|(_, turn)| turn.open.is_some()).collect();
        let id = match pick(&open, number) {
            Some((id, _)) => (*id).clone(),
            None => self.turn_at(number).unwrap_or_else(|| "nowhere".to_owned()),
        };
        let expected = self.memory.reopen(&id);
        if let Ok(Leased::Epoch(_)) = expected {
            self.done.push("reopen");
        }
        let answer = self.ledger().journal.reopen(&id).await;
        if let Ok(Opened::Leased(open)) = &answer {
            compare::open_turn(open, &self.memory)?;
            let mut turn = made(&id, &open.session_label, open.parent_turn_id.as_deref());
            turn.header.expected_head.clone_from(&open.expected_head);
            let status = open.calls.first().map(|call| call.row.status);
            let stage = match status {
                None => 0,
                Some(ToolCallStatus::Pending) => 1,
                Some(status) if has_ended(status) => 3,
                Some(_) => 2,
            };
            self.runs.push(Run { turn, epoch: open.epoch, stage });
        }
        let answer = answer.map(|opened| match opened {
            Opened::Leased(open) => Leased::Epoch(open.epoch),
            Opened::Busy => Leased::Busy,
            Opened::Moved | Opened::Parked(_) => Leased::Moved,
        });
        prop_assert_eq!(answer.map_err(|error| error.kind), expected);
        Ok(())
    }

    /// Another process opens the store after a close or a kill.
    async fn next_process(&mut self, end: ProcessEnd) -> Result<(), TestCaseError> {
        if end == ProcessEnd::Killed {
            // A release is submitted and not awaited: a later request is processed after it.
            self.ledger().admin.uncompact("nobody").await.unwrap_err();
        }
        self.fixture.next_process(end).await;
        self.memory.kill();
        compare::all(&self.fixture, &self.memory).await
    }
}

fn leased(opened: Opened<i64>) -> Leased {
    match opened {
        Opened::Leased(epoch) => Leased::Epoch(epoch),
        Opened::Busy => Leased::Busy,
        Opened::Moved | Opened::Parked(_) => Leased::Moved,
    }
}

fn facts(answer: Result<CommitReceipt, StorageError>) -> in_memory::Answer<(Option<String>, bool)> {
    answer.map(|receipt| (receipt.head, receipt.stale_head.is_some())).map_err(|error| error.kind)
}
