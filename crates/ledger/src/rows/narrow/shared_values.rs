//! The values of a turn's messages that its calls do not repeat: the ids of messages, the arguments in a block, the text of a
//! result.
//!
//! It must never share a value that would not come back byte for byte.

use std::collections::HashMap;

use serde::Deserialize;

use crate::rows::message_columns::MessageColumns;
use crate::rows::row_key::sequence_of;

/// A shorter value is cheaper to repeat than to look up.
pub(super) const LEAST: usize = 16;

/// The messages of a turn whose rows are written.
#[derive(Default)]
pub(crate) struct SharedValues {
    positions: HashMap<String, u32>,
    /// The texts of results, by the provider's ids of their calls, which may be repeated.
    results: HashMap<String, Vec<(u32, String)>>,
    /// The arguments in the blocks of a message, with the provider's ids of the calls.
    arguments: HashMap<u32, Vec<(i64, CallBlock)>>,
}

/// A block of `blocks_json`, as far as a call needs it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallBlock {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    arguments_json: String,
}

/// A result without the text that a message has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedResult {
    /// The position of the message.
    pub(crate) message: u32,
    /// Where the text belongs as a JSON string, in characters; `None` where it is the whole result as it is.
    pub(crate) at: Option<i64>,
    /// The rest.
    pub(crate) rest: Option<String>,
}

impl SharedValues {
    /// Adds a message of the turn.
    pub(super) fn add(&mut self, row: &MessageColumns<'_>) {
        let sequence = sequence_of(row.key);
        self.positions.insert(row.id.to_owned(), sequence);
        // A value that is a blob is stored once already.
        if row.blobs_json.is_some() {
            return;
        }
        if let Some(call) = row.tool_call_id
            && row.content.len() >= LEAST
            // SQLite's text functions end at a NUL.
            && !row.content.contains('\0')
        {
            let results = self.results.entry(call.to_owned()).or_default();
            results.push((sequence, row.content.to_owned()));
        }
        if let Some(blocks) = row.blocks_json.filter(|_| row.role == "assistant")
            && blocks.len() >= LEAST
            && let Ok(blocks) = serde_json::from_str::<Vec<CallBlock>>(blocks)
        {
            let calls = (0..).zip(blocks).filter(|(_, block)| {
                block.kind == "tool_call" && block.arguments_json.len() >= LEAST
            });
            self.arguments.insert(sequence, calls.collect());
        }
    }

    /// The position of a message.
    pub(super) fn position(&self, message_id: &str) -> Option<u32> {
        self.positions.get(message_id).copied()
    }

    /// The block of a message that has the arguments of a call.
    pub(super) fn block(&self, message: u32, call: &str, params: &str) -> Option<i64> {
        let mut blocks = self.arguments.get(&message)?.iter();
        let is_same = |block: &CallBlock| block.id == call && block.arguments_json == params;
        blocks.find(|(_, block)| is_same(block)).map(|(at, _)| *at)
    }

    /// The result of a call without the text that a message has.
    pub(super) fn result(&self, call: &str, result: &str) -> Option<SharedResult> {
        self.results.get(call)?.iter().find_map(|(message, text)| {
            if text == result {
                return Some(SharedResult { message: *message, at: None, rest: None });
            }
            let json = serde_json::to_string(text).ok()?;
            let at = result.find(&json)?;
            let (before, after) = (result.get(..at)?, result.get(at + json.len()..)?);
            if before.contains('\0') || after.contains('\0') {
                return None;
            }
            let characters = i64::try_from(before.chars().count()).ok()?;
            Some(SharedResult {
                message: *message,
                at: Some(characters),
                rest: Some([before, after].concat()),
            })
        })
    }
}
