//! The content of a commit point, as consecutive records: the turn's opening, messages and calls by the columns that their
//! rows will have, the progress, the compaction that the turn follows, and a take-over.
//!
//! It must never interpret a value: each is read exactly as it was written.

use super::bytes::{ByteReader, ByteWriter};

/// A turn as W0 writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningRecord<'a> {
    pub(crate) turn_id: &'a str,
    pub(crate) run_id: &'a str,
    pub(crate) session_label: &'a str,
    pub(crate) parent_turn_id: Option<&'a str>,
    /// The head of the session at which its commit is valid.
    pub(crate) expected_head: Option<&'a str>,
    pub(crate) started_at: i64,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) role: &'a str,
    pub(crate) toolset_name: Option<&'a str>,
    pub(crate) tools_available: &'a str,
    pub(crate) permissions_granted: &'a str,
    pub(crate) query_message_ids: &'a str,
    pub(crate) source_event_id: Option<&'a str>,
    pub(crate) workspace_path: Option<&'a str>,
    /// The hash of its context in `run_contexts`.
    pub(crate) context_hash: &'a str,
    pub(crate) target_json: Option<&'a str>,
}

/// The columns of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) role: &'a str,
    pub(crate) sequence: u32,
    pub(crate) created_at: i64,
    pub(crate) tool_call_id: Option<&'a str>,
    pub(crate) is_error: Option<bool>,
    pub(crate) provider: Option<&'a str>,
    pub(crate) api: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) response_id: Option<&'a str>,
    pub(crate) stop_reason: Option<&'a str>,
    pub(crate) checksum: i64,
    pub(crate) content: &'a str,
    pub(crate) thinking: Option<&'a str>,
    pub(crate) blocks_json: Option<&'a str>,
    pub(crate) blobs_json: Option<&'a str>,
}

/// The columns of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) provider_call_id: &'a str,
    pub(crate) message_id: Option<&'a str>,
    pub(crate) tool_name: &'a str,
    pub(crate) status: &'a str,
    pub(crate) spawned_session_label: Option<&'a str>,
    pub(crate) started_at: i64,
    pub(crate) completed_at: Option<i64>,
    pub(crate) sequence: u32,
    pub(crate) error: Option<&'a str>,
    pub(crate) params_json: &'a str,
    pub(crate) result_json: Option<&'a str>,
    pub(crate) replay: Option<&'a str>,
    pub(crate) arguments_hash: Option<&'a str>,
    pub(crate) blobs_json: Option<&'a str>,
}

/// One record of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// W0.
    Opening(OpeningRecord<'a>),
    /// A new message.
    Message(MessageRecord<'a>),
    /// A new call, or the new state of a call.
    Call(CallRecord<'a>),
    /// The counters of the run: JSON.
    Progress(&'a str),
    /// This compaction becomes the turn's parent and its expected head.
    Follows(&'a str),
    /// The host's metadata of the turn: JSON.
    Metadata(&'a str),
    /// The layers of a message: its id, and JSON.
    Layers(&'a str, &'a str),
    /// Another process continues the turn from its readable entries.
    TakenOver,
}

/// The content of an entry of a commit point.
#[derive(Default)]
pub(crate) struct Entry(ByteWriter);

impl Entry {
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let out = &mut self.0;
        match record {
            Record::Opening(opening) => {
                out.byte(1);
                opening.write(out);
            }
            Record::Message(message) => {
                out.byte(2);
                message.write(out);
            }
            Record::Call(call) => {
                out.byte(3);
                call.write(out);
            }
            Record::Progress(json) => {
                out.byte(4);
                out.text(json);
            }
            Record::Follows(compaction) => {
                out.byte(5);
                out.text(compaction);
            }
            Record::TakenOver => out.byte(6),
            Record::Metadata(json) => {
                out.byte(7);
                out.text(json);
            }
            Record::Layers(message, json) => {
                out.byte(8);
                out.text(message);
                out.text(json);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.0.0
    }

    /// The records of an entry's content; `None` where they cannot be read to the end.
    pub(crate) fn records(content: &[u8]) -> Option<Vec<Record<'_>>> {
        let mut from = ByteReader(content);
        let mut records = Vec::new();
        while !from.is_empty() {
            records.push(match from.byte()? {
                1 => Record::Opening(OpeningRecord::read(&mut from)?),
                2 => Record::Message(MessageRecord::read(&mut from)?),
                3 => Record::Call(CallRecord::read(&mut from)?),
                4 => Record::Progress(from.text()?),
                5 => Record::Follows(from.text()?),
                6 => Record::TakenOver,
                7 => Record::Metadata(from.text()?),
                8 => Record::Layers(from.text()?, from.text()?),
                _ => return None,
            });
        }
        Some(records)
    }
}

impl<'a> OpeningRecord<'a> {
    fn write(&self, out: &mut ByteWriter) {
        out.text(self.turn_id);
        out.text(self.run_id);
        out.text(self.session_label);
        out.optional_text(self.parent_turn_id);
        out.optional_text(self.expected_head);
        out.integer(self.started_at);
        out.text(self.provider);
        out.text(self.model);
        out.text(self.role);
        out.optional_text(self.toolset_name);
        out.text(self.tools_available);
        out.text(self.permissions_granted);
        out.text(self.query_message_ids);
        out.optional_text(self.source_event_id);
        out.optional_text(self.workspace_path);
        out.text(self.context_hash);
        out.optional_text(self.target_json);
    }

    fn read(from: &mut ByteReader<'a>) -> Option<Self> {
        Some(Self {
            turn_id: from.text()?,
            run_id: from.text()?,
            session_label: from.text()?,
            parent_turn_id: from.optional_text()?,
            expected_head: from.optional_text()?,
            started_at: from.integer()?,
            provider: from.text()?,
            model: from.text()?,
            role: from.text()?,
            toolset_name: from.optional_text()?,
            tools_available: from.text()?,
            permissions_granted: from.text()?,
            query_message_ids: from.text()?,
            source_event_id: from.optional_text()?,
            workspace_path: from.optional_text()?,
            context_hash: from.text()?,
            target_json: from.optional_text()?,
        })
    }
}

impl<'a> MessageRecord<'a> {
    fn write(&self, out: &mut ByteWriter) {
        out.text(self.id);
        out.text(self.role);
        out.number(self.sequence.into());
        out.integer(self.created_at);
        out.optional_text(self.tool_call_id);
        out.optional_bool(self.is_error);
        out.optional_text(self.provider);
        out.optional_text(self.api);
        out.optional_text(self.model);
        out.optional_text(self.response_id);
        out.optional_text(self.stop_reason);
        out.integer(self.checksum);
        out.text(self.content);
        out.optional_text(self.thinking);
        out.optional_text(self.blocks_json);
        out.optional_text(self.blobs_json);
    }

    fn read(from: &mut ByteReader<'a>) -> Option<Self> {
        Some(Self {
            id: from.text()?,
            role: from.text()?,
            sequence: from.small()?,
            created_at: from.integer()?,
            tool_call_id: from.optional_text()?,
            is_error: from.optional_bool()?,
            provider: from.optional_text()?,
            api: from.optional_text()?,
            model: from.optional_text()?,
            response_id: from.optional_text()?,
            stop_reason: from.optional_text()?,
            checksum: from.integer()?,
            content: from.text()?,
            thinking: from.optional_text()?,
            blocks_json: from.optional_text()?,
            blobs_json: from.optional_text()?,
        })
    }
}

impl<'a> CallRecord<'a> {
    fn write(&self, out: &mut ByteWriter) {
        out.text(self.id);
        out.text(self.provider_call_id);
        out.optional_text(self.message_id);
        out.text(self.tool_name);
        out.text(self.status);
        out.optional_text(self.spawned_session_label);
        out.integer(self.started_at);
        out.optional_integer(self.completed_at);
        out.number(self.sequence.into());
        out.optional_text(self.error);
        out.text(self.params_json);
        out.optional_text(self.result_json);
        out.optional_text(self.replay);
        out.optional_text(self.arguments_hash);
        out.optional_text(self.blobs_json);
    }

    fn read(from: &mut ByteReader<'a>) -> Option<Self> {
        Some(Self {
            id: from.text()?,
            provider_call_id: from.text()?,
            message_id: from.optional_text()?,
            tool_name: from.text()?,
            status: from.text()?,
            spawned_session_label: from.optional_text()?,
            started_at: from.integer()?,
            completed_at: from.optional_integer()?,
            sequence: from.small()?,
            error: from.optional_text()?,
            params_json: from.text()?,
            result_json: from.optional_text()?,
            replay: from.optional_text()?,
            arguments_hash: from.optional_text()?,
            blobs_json: from.optional_text()?,
        })
    }
}
