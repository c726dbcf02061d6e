//! Records a running turn step by step: W1 to W3 of one run (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! It decides what a write contains and whether the run waits for it. It must never let a tool start before its call is
//! stored, unless that tool has no effect.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use model::{
    CallStep, Journal, Message, MessageLayers, OpenTurn, Parking, PortFuture, Progress,
    ReplayClass, Reservation, Reserved, Role, StorageError, StorageErrorKind, ToolCallStatus,
    TurnLease, TurnStep,
};
use tools::ToolSet;
use turn::machine::Machine;

/// A call that is about to start.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) call_id: String,
    /// The arguments that the tool receives.
    pub(crate) params: Option<Box<RawValue>>,
}

/// How a run is recorded.
pub(crate) enum JournalState {
    /// At its end only, or not at all.
    AtEnd,
    /// Its turn could not be opened: tools with effects do not start.
    Refused(StorageError),
    /// Step by step.
    Open(Box<Recorder>),
}

/// A turn that this process may write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeasedTurn<'a> {
    pub(crate) turn_id: &'a str,
    pub(crate) session_label: &'a str,
    pub(crate) epoch: i64,
}

/// The recorder of one run. Dropping it releases the session's lease, if no commit did.
pub(crate) struct Recorder {
    journal: Arc<dyn Journal>,
    tools: Arc<ToolSet>,
    turn_id: String,
    session_label: String,
    epoch: i64,
    /// The number of messages that are written, from the first.
    messages: usize,
    /// The ids of later messages that are written.
    written_ahead: HashSet<String>,
    /// The status each call is written with.
    calls: Vec<Option<ToolCallStatus>>,
    /// The counters of the run, and whether they are written.
    progress: Option<(String, bool)>,
    /// The messages of the session's queue that were steered into the turn.
    items: Vec<String>,
    /// The layers of their contexts, and how many of them are written, from the first.
    layers: (Vec<MessageLayers>, usize),
    /// A write in the background.
    pending: Option<PortFuture<'static, ()>>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let lease = TurnLease { turn_id: self.turn_id.clone(), epoch: self.epoch };
        self.journal.release(&self.session_label, &lease);
    }
}

impl Recorder {
    /// The recorder of a turn that was just opened with `messages` messages.
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        tools: &Arc<ToolSet>,
        turn: LeasedTurn<'_>,
        messages: usize,
    ) -> Self {
        let LeasedTurn { turn_id, session_label, epoch } = turn;
        Self {
            journal: Arc::clone(journal),
            tools: Arc::clone(tools),
            turn_id: turn_id.to_owned(),
            session_label: session_label.to_owned(),
            epoch,
            messages,
            written_ahead: HashSet::new(),
            calls: Vec::new(),
            progress: None,
            items: Vec::new(),
            layers: (Vec::new(), 0),
            pending: None,
        }
    }

    /// The recorder of a turn that was taken over.
    pub(crate) fn resumed(
        journal: &Arc<dyn Journal>,
        tools: &Arc<ToolSet>,
        turn: &OpenTurn,
    ) -> Self {
        let leased = LeasedTurn {
            turn_id: &turn.turn_id,
            session_label: &turn.session_label,
            epoch: turn.epoch,
        };
        let mut recorder = Self::new(journal, tools, leased, 0);
        recorder.written_ahead = turn.messages.iter().map(|message| message.id.clone()).collect();
        recorder.calls = turn.calls.iter().map(|call| Some(call.row.status)).collect();
        recorder
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The counters of the run, for the next write.
    pub(crate) fn count(&mut self, progress: &Progress) {
        // Plain numbers and lists: serde_json cannot fail on them.
        self.progress = serde_json::to_string(progress).ok().map(|json| (json, false));
    }

    /// A message of the session's queue is in the turn: the write that stores it takes it.
    pub(crate) fn take_item(&mut self, item: String, layers: Option<MessageLayers>) {
        self.items.push(item);
        self.layers.0.extend(layers);
    }

    fn class(&self, tool: &str) -> Option<ReplayClass> {
        self.tools.tools().iter().find(|known| known.name == tool).map(|known| known.replay)
    }

    /// Whether something must be recorded soon: a result of a tool with effects, or a user message.
    pub(crate) fn is_due(&self, machine: &Machine) -> bool {
        let is_new_request = |message: &Message| {
            message.role == Role::User && !self.written_ahead.contains(&message.id)
        };
        machine.messages().iter().skip(self.messages).any(is_new_request)
            || machine.calls().enumerate().skip(self.settled()).any(|(at, call)| {
                call.answer.is_some()
                    && self.calls.get(at).copied().flatten() != Some(call.row.status)
                    && self.class(&call.row.tool_name) != Some(ReplayClass::Pure)
            })
    }

    /// The number of calls, from the first, that can no longer change.
    fn settled(&self) -> usize {
        self.calls
            .iter()
            .position(|status| {
                !matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed))
            })
            .unwrap_or(self.calls.len())
    }

    /// The facts that are not written yet, with `starting` as running.
    pub(crate) fn unwritten(&self, machine: &Machine, starting: &[Starting]) -> TurnStep {
        let answers = machine.calls().skip(self.settled()).filter_map(|call| call.answer);
        let fresh = machine.messages().iter().skip(self.messages);
        let mut messages: Vec<Message> = Vec::new();
        for message in fresh.chain(answers) {
            if !self.written_ahead.contains(&message.id)
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
                arguments_hash: begun.then(|| arguments_hash(&row.params)),
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
            // All of them each time: a write that failed is repeated, and whoever has taken one takes it again.
            items: self.items.clone(),
            layers: self.layers.0.get(self.layers.1..).unwrap_or_default().to_vec(),
            parking: None,
        }
    }

    /// Submits a step; its content counts as written.
    fn submit(&mut self, machine: &Machine, starting: &[Starting]) -> PortFuture<'static, ()> {
        let step = self.unwritten(machine, starting);
        self.submitted(machine, starting);
        self.journal.record(Box::new(step))
    }

    /// Counts the content of a step as written.
    fn submitted(&mut self, machine: &Machine, starting: &[Starting]) {
        if let Some((_, written)) = &mut self.progress {
            *written = true;
        }
        self.layers.1 = self.layers.0.len();
        self.messages = machine.messages().len();
        let answers = machine.calls().filter_map(|call| call.answer);
        let open = answers.filter(|answer| index(answer) >= self.messages);
        self.written_ahead = open.map(|answer| answer.id.clone()).collect();
        self.calls = machine
            .calls()
            .map(|call| {
                let begins = starting.iter().any(|start| start.call_id == call.row.call_id);
                Some(if begins { ToolCallStatus::Running } else { call.row.status })
            })
            .collect();
    }

    /// Writes the new facts, and that the turn waits for decisions. The lease is released with them.
    pub(crate) async fn park(
        &mut self,
        machine: &Machine,
        parking: Parking,
    ) -> Result<(), StorageError> {
        self.settle().await;
        let step = self.unwritten(machine, &[]);
        let parking = Some(Box::new(parking));
        self.journal.record(Box::new(TurnStep { parking, ..step })).await?;
        self.submitted(machine, &[]);
        Ok(())
    }

    /// Records a failed write: the next one writes everything again.
    pub(crate) fn write_all_again(&mut self) {
        self.messages = 0;
        self.layers.1 = 0;
        self.written_ahead.clear();
        self.calls.clear();
        if let Some((_, written)) = &mut self.progress {
            *written = false;
        }
    }

    /// Writes the new facts before `starting` start: W1 and W2, and W3 of earlier calls.
    pub(crate) async fn record_before(
        &mut self,
        machine: &Machine,
        starting: &[Starting],
    ) -> PortFuture<'static, ()> {
        self.settle().await;
        self.submit(machine, starting)
    }

    /// Writes the new facts in the background: W3. Its result is awaited before the next write.
    pub(crate) async fn record_in_background(&mut self, machine: &Machine) {
        self.settle().await;
        self.pending = Some(self.submit(machine, &[]));
    }

    /// Writes the new facts, and reserves the next call in the same transaction.
    pub(crate) async fn record_reserving(
        &mut self,
        machine: &Machine,
        reservation: Box<Reservation>,
    ) -> Reserved {
        self.settle().await;
        let step = self.unwritten(machine, &[]);
        self.submitted(machine, &[]);
        let recorded = self.journal.record_reserving(Box::new(step), reservation).await;
        if recorded.is_err() {
            // As in `settle`.
            self.write_all_again();
        }
        recorded.unwrap_or_default()
    }

    /// Waits for the write in the background, which is nearly always done.
    pub(crate) async fn settle(&mut self) {
        if let Some(pending) = self.pending.take()
            && pending.await.is_err()
        {
            // The next write repeats everything, and reports the failure if it persists.
            self.write_all_again();
        }
    }
}

/// Whether calls must not start without their record: the run was taken over, or one of them has effects.
pub(crate) fn needs_record(
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

/// The hash of arguments, independent of white space and the order of keys.
pub(crate) fn arguments_hash(params: &RawValue) -> String {
    let canonical = serde_json::from_str::<serde_json::Value>(params.get())
        .map_or_else(|_| params.get().to_owned(), |value| value.to_string());
    format!("{:032x}", xxh3_128(canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::arguments_hash;

    #[test]
    fn the_hash_of_arguments_ignores_white_space_and_the_order_of_keys() {
        let hash = |json: &str| arguments_hash(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(hash(r#"{"a":1,"b":[true]}"#), hash(r#"{ "b": [ true ], "a": 1 }"#));
        assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":2}"#));
    }
}
