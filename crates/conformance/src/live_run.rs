//! A simulated run of a case: the events it has emitted, and the commands that reached it.
//!
//! It must never wait: a case that needs stored events follows the run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use model::{
    LedgerPorts, LiveRun, OutcomeMembers, RunEvent, RunEventKind, RunNames, RunRegistration,
    StorageError, StreamEvent, TurnEnd, members, with_members,
};

/// A run that is registered until it is dropped.
pub struct PlayedRun {
    run: Arc<Run>,
    registration: Arc<dyn RunRegistration>,
}

struct Run {
    /// The number of its first event.
    first: u64,
    emitted: Mutex<Vec<RunEvent>>,
    acknowledged: AtomicU64,
    commands: Mutex<Vec<String>>,
    takes_messages: bool,
}

impl PlayedRun {
    /// The run of `turn`, which accepts messages.
    pub fn new(ledger: &LedgerPorts, turn: &TurnEnd) -> Self {
        Self::registered(ledger, turn, 1, true)
    }

    /// The run of `turn`, which accepts no message.
    pub fn refusing_messages(ledger: &LedgerPorts, turn: &TurnEnd) -> Self {
        Self::registered(ledger, turn, 1, false)
    }

    /// A run that resumes `turn`, whose events continue after number `last`.
    pub fn resuming(ledger: &LedgerPorts, turn: &TurnEnd, last: u64) -> Self {
        Self::registered(ledger, turn, last + 1, true)
    }

    fn registered(ledger: &LedgerPorts, turn: &TurnEnd, first: u64, takes_messages: bool) -> Self {
        let run = Arc::new(Run {
            first,
            emitted: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            commands: Mutex::default(),
            takes_messages,
        });
        let names = RunNames {
            turn_id: turn.turn_id.clone(),
            run_id: turn.header.run_id.clone(),
            session_label: turn.header.session_label.clone(),
            resumes: first > 1,
        };
        let live: Weak<Run> = Arc::downgrade(&run);
        let registration = ledger.journal.register(names, live).unwrap();
        Self { run, registration }
    }

    /// Emits a piece of text of message `m`, and returns it as a follower receives it.
    pub fn emit(&self, text: &str, urgent: bool) -> String {
        let message_id = Some(Arc::from("m"));
        let seq = self.push(RunEventKind::Token, message_id, |_| text.to_owned());
        self.registration.notify(urgent);
        let (text, message_id) = (text.to_owned(), "m".to_owned());
        json(&StreamEvent::Token { text, message_id, seq, seq_from: None })
    }

    /// Emits an event that is not a delta, and returns it as a follower receives it.
    pub fn emit_control(&self, message: &str) -> String {
        let event = |seq| json(&error_event(message).numbered(seq));
        let seq = self.push(RunEventKind::Event, None, event);
        self.registration.notify(true);
        event(seq)
    }

    fn push(
        &self,
        kind: RunEventKind,
        message_id: Option<Arc<str>>,
        text: impl FnOnce(u64) -> String,
    ) -> u64 {
        let mut emitted = self.run.emitted.lock().unwrap();
        let seq = self.run.first + emitted.len() as u64;
        emitted.push(RunEvent { seq, kind, message_id, text: Arc::from(text(seq)), added: None });
        seq
    }

    /// The number of the last event that was acknowledged as stored.
    pub fn acknowledged(&self) -> u64 {
        self.run.acknowledged.load(Ordering::SeqCst)
    }

    /// The commands that reached the run, in order.
    pub fn commands(&self) -> Vec<String> {
        self.run.commands.lock().unwrap().clone()
    }
}

impl LiveRun for Run {
    fn abort(&self) {
        self.commands.lock().unwrap().push("abort".to_owned());
    }

    fn steer(&self, text: &str) -> bool {
        self.commands.lock().unwrap().push(format!("steer {text}"));
        self.takes_messages
    }

    fn newest(&self) -> u64 {
        self.emitted.lock().unwrap().last().map_or(0, |event| event.seq)
    }

    fn unstored(&self, after: u64) -> Vec<RunEvent> {
        let emitted = self.emitted.lock().unwrap();
        emitted.iter().filter(|event| event.seq > after).cloned().collect()
    }

    fn ack(&self, seq: u64) {
        self.acknowledged.fetch_max(seq, Ordering::SeqCst);
    }

    fn nack(&self) {}

    fn refuse(&self, _error: &StorageError) {}

    fn stop_storing(&self) {}
}

/// The terminal event of a failed run, without its number.
pub fn error_event(message: &str) -> StreamEvent {
    StreamEvent::error(message.to_owned(), true)
}

/// The terminal event `error` of a turn as a follower receives it: with the outcome of the turn.
pub fn ended_json(turn: &TurnEnd, message: &str, seq: u64) -> String {
    let stored = json(&error_event(message).numbered(seq));
    let outcome = OutcomeMembers {
        stop_reason: turn.stop_reason.as_str(),
        turn_id: &turn.turn_id,
        usage: turn.usage,
        cost: turn.cost,
        persisted: Some(true),
        kind: turn.error.as_ref().map(|error| error.kind.as_str()),
        retryable: turn.error.as_ref().map(|error| error.retryable),
    };
    with_members(&stored, &members(&outcome)).into_owned()
}

/// An event as a follower receives it.
pub fn json(event: &StreamEvent) -> String {
    serde_json::to_string(event).unwrap()
}
