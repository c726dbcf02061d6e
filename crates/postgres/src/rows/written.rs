//! Messages and calls as the arrays of a statement: one array for each column, read by `unnest`.
//!
//! It must never decide whether a row may be written.

use base::clock::Clock;
use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::Param;
use crate::rows::body::{self, Body};
use model::{CallStep, Message, MessageLayers, ReplayClass, ToolCallRecord};
use portable::MessageRecord;

/// The columns of messages.
#[derive(Default)]
pub(crate) struct Messages {
    sequences: Vec<i32>,
    ids: Vec<String>,
    roles: Vec<&'static str>,
    created: Vec<i64>,
    bodies: Vec<Vec<u8>>,
    checksums: Vec<i64>,
    contexts: Vec<Option<String>>,
}

impl Messages {
    /// Those of a turn, with the layers of those that have some.
    pub(crate) fn of<'a>(
        messages: &[Message],
        layers: impl IntoIterator<Item = &'a MessageLayers>,
    ) -> Stored<Self> {
        let layers: Vec<&MessageLayers> = layers.into_iter().collect();
        let mut columns = Self::default();
        for message in messages {
            let own = layers.iter().find(|it| it.message_id == message.id);
            columns.push(message, body::encode(message)?, own.map(|it| it.json.clone()));
        }
        Ok(columns)
    }

    /// The messages of an import, with what a message of a run does not have. Their layers have a column.
    pub(crate) fn of_records(messages: &[MessageRecord]) -> Stored<Self> {
        let mut columns = Self::default();
        for record in messages {
            let layers = record.layers.as_ref().map(serde_json::to_string).transpose();
            let layers = layers.map_err(|_| damaged("layers have no JSON"))?;
            let bare = MessageRecord { layers: None, ..record.clone() };
            columns.push(&record.message, body::encode(&bare)?, layers);
        }
        Ok(columns)
    }

    fn push(&mut self, message: &Message, body: Body, layers: Option<String>) {
        self.sequences.push(i32::try_from(message.sequence).unwrap_or(i32::MAX));
        self.ids.push(message.id.clone());
        self.roles.push(message.role.as_str());
        self.created.push(message.created_at);
        self.bodies.push(body.bytes);
        self.checksums.push(body.checksum);
        self.contexts.push(layers);
    }

    /// The number of parameters.
    pub(crate) const PARAMS: usize = 7;

    /// The rows as SQL, from the parameter `first` on.
    pub(crate) fn unnest(first: usize) -> String {
        let types = ["int4", "text", "text", "int8", "bytea", "int8", "text"];
        unnest(first, &types)
    }

    pub(crate) fn params(&self) -> [Param<'_>; Self::PARAMS] {
        [
            (&self.sequences, Type::INT4_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.roles, Type::TEXT_ARRAY),
            (&self.created, Type::INT8_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (&self.checksums, Type::INT8_ARRAY),
            (&self.contexts, Type::TEXT_ARRAY),
        ]
    }
}

/// The columns of tool calls.
#[derive(Default)]
pub(crate) struct Calls {
    sequences: Vec<i32>,
    ids: Vec<String>,
    tools: Vec<String>,
    statuses: Vec<&'static str>,
    replays: Vec<Option<&'static str>>,
    hashes: Vec<Option<String>>,
    bodies: Vec<Vec<u8>>,
    checksums: Vec<i64>,
}

impl Calls {
    pub(crate) fn of_steps(steps: &[CallStep]) -> Stored<Self> {
        let mut columns = Self::default();
        for step in steps {
            columns.push(&step.row, step.replay, step.arguments_hash.clone())?;
        }
        Ok(columns)
    }

    /// A call without an id gets one.
    pub(crate) fn of(calls: &[ToolCallRecord], clock: &Clock) -> Stored<Self> {
        let mut columns = Self::default();
        for call in calls {
            if call.call_id.is_empty() {
                let call = ToolCallRecord { call_id: clock.new_id(), ..call.clone() };
                columns.push(&call, None, None)?;
            } else {
                columns.push(call, None, None)?;
            }
        }
        Ok(columns)
    }

    fn push(
        &mut self,
        call: &ToolCallRecord,
        replay: Option<ReplayClass>,
        hash: Option<String>,
    ) -> Stored<()> {
        let body = body::encode(call)?;
        self.sequences.push(i32::try_from(call.sequence).unwrap_or(i32::MAX));
        self.ids.push(call.call_id.clone());
        self.tools.push(call.tool_name.clone());
        self.statuses.push(call.status.as_str());
        self.replays.push(replay.map(ReplayClass::as_str));
        self.hashes.push(hash);
        self.bodies.push(body.bytes);
        self.checksums.push(body.checksum);
        Ok(())
    }

    pub(crate) const PARAMS: usize = 8;

    pub(crate) fn unnest(first: usize) -> String {
        let types = ["int4", "text", "text", "text", "text", "text", "bytea", "int8"];
        unnest(first, &types)
    }

    pub(crate) fn params(&self) -> [Param<'_>; Self::PARAMS] {
        [
            (&self.sequences, Type::INT4_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.tools, Type::TEXT_ARRAY),
            (&self.statuses, Type::TEXT_ARRAY),
            (&self.replays, Type::TEXT_ARRAY),
            (&self.hashes, Type::TEXT_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (&self.checksums, Type::INT8_ARRAY),
        ]
    }
}

fn unnest(first: usize, types: &[&str]) -> String {
    let arrays: Vec<String> =
        types.iter().enumerate().map(|(n, of)| format!("${}::{of}[]", first + n)).collect();
    format!("unnest({})", arrays.join(", "))
}

/// Inserts messages into the turn `turn`, for each row of `of`: one that is stored already stays as it is.
pub(crate) fn insert_messages(turn: &str, of: &str, first: usize) -> String {
    format!(
        "insert into @messages (turn_id, sequence, id, role, created_at, body, checksum, context_json)
         select {turn}, m.* from {of}, {} as m on conflict do nothing",
        Messages::unnest(first)
    )
}

/// Inserts calls into the turn `turn`, or changes them.
pub(crate) fn insert_calls(turn: &str, of: &str, first: usize) -> String {
    format!(
        "insert into @tool_calls as c (turn_id, sequence, id, tool_name, status, replay, arguments_hash, body, checksum)
         select {turn}, n.* from {of}, {} as n
         on conflict (turn_id, id) do update set status = excluded.status, body = excluded.body,
           checksum = excluded.checksum, replay = coalesce(excluded.replay, c.replay),
           arguments_hash = coalesce(excluded.arguments_hash, c.arguments_hash)",
        Calls::unnest(first)
    )
}
