//! The records of a queue: events, and messages to the host.
//!
//! It must never hold a text: the queue stores the texts of all its records in one string.

/// The maximum bytes of text in one batch. A longer record is delivered alone.
pub(super) const PIECE_BYTES: usize = 4 << 20;
/// The maximum bytes of one record: half of the longest string of V8. A longer one cannot be read by JavaScript.
pub(crate) const RECORD_BYTES: usize = 256 << 20;

/// The kind of a record. The numbers are part of the JavaScript boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// Visible text of the current message.
    Token = 0,
    /// Reasoning of the current message.
    Reasoning = 1,
    /// The id of the message that the following deltas belong to.
    Message = 2,
    /// A [`model::StreamEvent`] as JSON.
    Event = 3,
    /// A phase of `onAgentEvent` as JSON.
    Phase = 4,
    /// The run's result as JSON: the last record.
    Result = 5,
    /// A tool to run, as JSON.
    Tool = 6,
    /// The number of a cancelled tool execution.
    ToolCancel = 7,
    /// The message of an internal error: instead of the result.
    Defect = 8,
    /// A request for the host to inspect, as JSON.
    Request = 9,
    /// Why the result cannot be delivered, as JSON: instead of the result.
    Unreadable = 10,
    /// A [`model::StreamEvent`] that is neither numbered nor stored, as JSON.
    Live = 11,
    /// What a tool that runs without JavaScript reports, as JSON.
    ToolUpdate = 12,
    /// Why the run was refused, as JSON: instead of the result.
    Refused = 13,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) seq_from: u64,
    pub(super) seq: u64,
    pub(super) bytes: usize,
    pub(super) units: usize,
}

impl Record {
    /// A record of `text`; `seq` is 0 for one that is no event.
    pub(super) fn new(kind: RecordKind, seq: u64, text: &str) -> Self {
        let units = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
        Self { kind, seq_from: seq, seq, bytes: text.len(), units }
    }
}
