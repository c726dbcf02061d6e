//! What a running turn has written down, and what of it is new: W1 to W3 of one run (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! It decides what a write holds and whom it keeps waiting. It must never let a tool begin whose call is not on disk,
//! unless that tool has no effect.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use crate::tools::ToolSet;
use model::{
    CallStep, Journal, JournalFuture, Message, OpenTurn, Progress, ReplayClass, Role, StorageError,
    StorageErrorKind, ToolCallStatus, TurnStep,
};
use turn::machine::Machine;

/// A call that is about to begin.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) call_id: String,
    /// The arguments the tool gets.
    pub(crate) params: Option<Box<RawValue>>,
}

/// How a run is written down.
pub(crate) enum Writing {
    /// At its end only, or nowhere.
    AtEnd,
    /// It should be, and could not be opened: tools with effects do not begin.
    Refused(StorageError),
    /// Step by step.
    Open(Box<Recorder>),
}

/// The journal of one run. Dropping it gives the session's lease back, where no commit did.
pub(crate) struct Recorder {
    journal: Arc<dyn Journal>,
    tools: Arc<ToolSet>,
    turn_id: String,
    session_label: String,
    epoch: i64,
    /// Messages that are written: so many from the first on, and these.
    messages: usize,
    ahead: HashSet<String>,
    /// The status each call is written with.
    calls: Vec<Option<ToolCallStatus>>,
    /// What the run has counted, and whether that is written.
    progress: Option<(String, bool)>,
    /// A write that nobody waits for.
    loose: Option<JournalFuture<'static, ()>>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.journal.release(&self.session_label, self.epoch);
    }
}

impl Recorder {
    /// The recorder of a turn that was just opened with `messages` messages.
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        tools: &Arc<ToolSet>,
        (turn_id, session_label): (&str, &str),
        epoch: i64,
        messages: usize,
    ) -> Self {
        Self {
            journal: Arc::clone(journal),
            tools: Arc::clone(tools),
            turn_id: turn_id.to_owned(),
            session_label: session_label.to_owned(),
            epoch,
            messages,
            ahead: HashSet::new(),
            calls: Vec::new(),
            progress: None,
            loose: None,
        }
    }

    /// The recorder of a turn that was taken over.
    pub(crate) fn resumed(
        journal: &Arc<dyn Journal>,
        tools: &Arc<ToolSet>,
        turn: &OpenTurn,
    ) -> Self {
        let names = (turn.turn_id.as_str(), turn.session_label.as_str());
        let mut recorder = Self::new(journal, tools, names, turn.epoch, 0);
        recorder.ahead = turn.messages.iter().map(|message| message.id.clone()).collect();
        recorder.calls = turn.calls.iter().map(|call| Some(call.row.status)).collect();
        recorder
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// What the run has counted, for the next write.
    pub(crate) fn count(&mut self, progress: &Progress) {
        // Plain numbers and lists: serde_json has no error for them.
        self.progress = serde_json::to_string(progress).ok().map(|json| (json, false));
    }

    fn class(&self, tool: &str) -> Option<ReplayClass> {
        self.tools.tools().iter().find(|known| known.name == tool).map(|known| known.replay)
    }

    /// Whether something happened that the world could tell from its not having happened: an answer of a tool with
    /// effects, or a message the person has said.
    pub(crate) fn is_due(&self, machine: &Machine) -> bool {
        let said =
            |message: &Message| message.role == Role::User && !self.ahead.contains(&message.id);
        machine.messages().iter().skip(self.messages).any(said)
            || machine.calls().enumerate().skip(self.settled()).any(|(at, call)| {
                call.answer.is_some()
                    && self.calls.get(at).copied().flatten() != Some(call.row.status)
                    && self.class(&call.row.tool_name) != Some(ReplayClass::Pure)
            })
    }

    /// Calls at the front that can no longer change.
    fn settled(&self) -> usize {
        self.calls
            .iter()
            .position(|status| {
                !matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed))
            })
            .unwrap_or(self.calls.len())
    }

    /// What is not written yet, `starting` as running.
    pub(crate) fn news(&self, machine: &Machine, starting: &[Starting]) -> TurnStep {
        let answers = machine.calls().skip(self.settled()).filter_map(|call| call.answer);
        let fresh = machine.messages().iter().skip(self.messages);
        let mut messages: Vec<Message> = Vec::new();
        for message in fresh.chain(answers) {
            if !self.ahead.contains(&message.id)
                && !messages.iter().any(|other| other.id == message.id)
            {
                messages.push(message.clone());
            }
        }
        let mut calls = Vec::new();
        for (at, call) in machine.calls().enumerate().skip(self.settled()) {
            let begins = starting.iter().find(|start| start.call_id == call.row.call_id);
            let written = self.calls.get(at).copied().flatten();
            if begins.is_none() && written == Some(call.row.status) {
                continue;
            }
            let mut row = call.row.clone();
            if let Some(begins) = begins {
                row.status = ToolCallStatus::Running;
                row.params = begins.params.clone().unwrap_or(row.params);
            }
            let begun = begins.is_some() || row.status == ToolCallStatus::Running;
            calls.push(CallStep {
                replay: self.class(&row.tool_name),
                arguments_hash: begun.then(|| canonical_hash(&row.params)),
                row,
            });
        }
        TurnStep {
            turn_id: self.turn_id.clone(),
            session_label: self.session_label.clone(),
            epoch: self.epoch,
            messages,
            calls,
            progress: self
                .progress
                .as_ref()
                .filter(|(_, written)| !written)
                .map(|(json, _)| json.clone()),
        }
    }

    /// Hands a step over; what it holds counts as written.
    fn hand_over(
        &mut self,
        machine: &Machine,
        starting: &[Starting],
    ) -> JournalFuture<'static, ()> {
        let step = self.news(machine, starting);
        if let Some((_, written)) = &mut self.progress {
            *written = true;
        }
        self.messages = machine.messages().len();
        let answers = machine.calls().filter_map(|call| call.answer);
        let open = answers.filter(|answer| index(answer) >= self.messages);
        self.ahead = open.map(|answer| answer.id.clone()).collect();
        self.calls = machine
            .calls()
            .map(|call| {
                let begins = starting.iter().any(|start| start.call_id == call.row.call_id);
                Some(if begins { ToolCallStatus::Running } else { call.row.status })
            })
            .collect();
        self.journal.record(Box::new(step))
    }

    /// What a failed write means for what comes next: everything is written again.
    pub(crate) fn forget(&mut self) {
        self.messages = 0;
        self.ahead.clear();
        self.calls.clear();
        if let Some((_, written)) = &mut self.progress {
            *written = false;
        }
    }

    /// Writes what is new before `starting` begin: W1 and W2, and W3 of those before them.
    pub(crate) async fn before(
        &mut self,
        machine: &Machine,
        starting: &[Starting],
    ) -> JournalFuture<'static, ()> {
        self.settle().await;
        self.hand_over(machine, starting)
    }

    /// Writes what is new and waits for nothing: W3. What comes of it is seen before the next write.
    pub(crate) async fn aside(&mut self, machine: &Machine) {
        self.settle().await;
        self.loose = Some(self.hand_over(machine, &[]));
    }

    /// Waits for the write that nobody waited for, which is nearly always done.
    pub(crate) async fn settle(&mut self) {
        if let Some(loose) = self.loose.take()
            && loose.await.is_err()
        {
            // The next write says everything again, and has the failure itself if it stays.
            self.forget();
        }
    }
}

/// Whether calls may not begin without their record: the run was taken over, or one of them has effects.
pub(crate) fn bars(
    error: &StorageError,
    tools: &ToolSet,
    machine: &Machine,
    starting: &[Starting],
) -> bool {
    error.kind == StorageErrorKind::StaleWriter
        || machine.calls().any(|call| {
            starting.iter().any(|start| start.call_id == call.row.call_id)
                && !tools
                    .tools()
                    .iter()
                    .any(|tool| tool.name == call.row.tool_name && tool.replay == ReplayClass::Pure)
        })
}

fn index(message: &Message) -> usize {
    usize::try_from(message.sequence).unwrap_or(usize::MAX)
}

/// The hash of arguments whatever their spaces and the order of their keys.
fn canonical_hash(params: &RawValue) -> String {
    let canonical = serde_json::from_str::<serde_json::Value>(params.get())
        .map_or_else(|_| params.get().to_owned(), |value| value.to_string());
    format!("{:032x}", xxh3_128(canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::canonical_hash;

    #[test]
    fn the_hash_of_arguments_knows_neither_spaces_nor_the_order_of_keys() {
        let hash = |json: &str| canonical_hash(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(hash(r#"{"a":1,"b":[true]}"#), hash(r#"{ "b": [ true ], "a": 1 }"#));
        assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":2}"#));
    }
}
