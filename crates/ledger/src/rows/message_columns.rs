//! The columns of `message_values`, and the part of them with a message's content, owned or borrowed.
//!
//! It must never interpret the values: `message_codec` does.

use std::borrow::Cow;

use crate::sqlite::columns::columns;

/// The columns of `message_values` that the ledger writes and reads.
pub(crate) struct MessageColumns<'r> {
    pub(crate) id: &'r str,
    /// Its turn and its position: see `row_key`.
    pub(crate) key: i64,
    pub(crate) role: &'r str,
    pub(crate) created_at: i64,
    pub(crate) tool_call_id: Option<&'r str>,
    pub(crate) is_error: Option<bool>,
    pub(crate) provider: Option<&'r str>,
    pub(crate) api: Option<&'r str>,
    pub(crate) model: Option<&'r str>,
    pub(crate) response_id: Option<&'r str>,
    pub(crate) stop_reason: Option<&'r str>,
    /// The checksum of the columns from which a request is built: see `message_codec`.
    pub(crate) checksum: i64,
    pub(crate) content: &'r str,
    pub(crate) thinking: Option<&'r str>,
    pub(crate) blocks_json: Option<&'r str>,
    pub(crate) blobs_json: Option<&'r str>,
}

columns!(for<'r> MessageColumns<'r> {
    id,
    key,
    role,
    created_at,
    tool_call_id,
    is_error,
    provider,
    api,
    model,
    response_id,
    stop_reason,
    checksum,
    content,
    thinking,
    blocks_json,
    blobs_json,
});

/// The names of the columns that may be large, in the order of the codec.
pub(crate) const LARGE_COLUMNS: [&str; 3] = ["content", "thinking", "blocks_json"];

/// The columns with a message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) content: String,
    pub(crate) thinking: Option<String>,
    pub(crate) blocks_json: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) is_error: Option<bool>,
}

/// The same as [`Content`], borrowed from a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentRef<'a> {
    pub(crate) content: &'a str,
    pub(crate) thinking: Option<&'a str>,
    pub(crate) blocks_json: Option<&'a str>,
    pub(crate) tool_call_id: Option<&'a str>,
    pub(crate) is_error: Option<bool>,
}

impl<'a> ContentRef<'a> {
    /// The columns that may be large, by their names.
    pub(crate) fn by_name(&self) -> [(&'static str, Option<&'a str>); 3] {
        let [content, thinking, blocks] = LARGE_COLUMNS;
        [(content, Some(self.content)), (thinking, self.thinking), (blocks, self.blocks_json)]
    }

    /// A copy with these values for the columns that may be large, in that order.
    pub(crate) fn with<'b>(
        &self,
        [content, thinking, blocks]: &'b [Option<Cow<'b, str>>; 3],
    ) -> ContentRef<'b>
    where
        'a: 'b,
    {
        ContentRef {
            content: content.as_deref().unwrap_or_default(),
            thinking: thinking.as_deref(),
            blocks_json: blocks.as_deref(),
            tool_call_id: self.tool_call_id,
            is_error: self.is_error,
        }
    }
}

impl Content {
    /// Borrows the columns.
    pub(crate) fn lend(&self) -> ContentRef<'_> {
        ContentRef {
            content: &self.content,
            thinking: self.thinking.as_deref(),
            blocks_json: self.blocks_json.as_deref(),
            tool_call_id: self.tool_call_id.as_deref(),
            is_error: self.is_error,
        }
    }
}

impl<'r> MessageColumns<'r> {
    /// The columns that hold the content.
    pub(crate) fn content(&self) -> ContentRef<'r> {
        ContentRef {
            content: self.content,
            thinking: self.thinking,
            blocks_json: self.blocks_json,
            tool_call_id: self.tool_call_id,
            is_error: self.is_error,
        }
    }

    /// The provenance of the message: provider, API, model, response id, stop reason.
    pub(crate) fn provenance(&self) -> [Option<&'r str>; 5] {
        [self.provider, self.api, self.model, self.response_id, self.stop_reason]
    }
}
